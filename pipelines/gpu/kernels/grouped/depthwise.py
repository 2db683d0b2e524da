"""The depthwise kernel: one filter per channel, so there is nothing to multiply as matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir, vector
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Condition, Index, IndexLike, unflatten
from iree.winograd.pipelines.emission.work import Work
from iree.winograd.pipelines.gpu.device.instruction_order import computed_here
from iree.winograd.pipelines.gpu.device.memory import (
    QUAD,
    GlobalBuffer,
    SharedBuffer,
    barrier,
    constant_quad,
    thread_id,
)
from iree.winograd.pipelines.gpu.kernels.direct.direct_columns import (
    ColumnOperands,
    DirectColumnsKernel,
)
from iree.winograd.pipelines.gpu.kernels.direct.output_columns import Columns
from iree.winograd.pipelines.gpu.schedules.columns import GpuDepthwiseSchedule
from iree.winograd.pipelines.gpu.schedules.fit import is_depthwise


@dataclass(frozen=True)
class DepthwiseKernel(DirectColumnsKernel):
    """output[n, o..., c] = epilogue(sum over taps of image[n, i..., c] * filters[tap, c])."""

    schedule: GpuDepthwiseSchedule
    float_register: str | None = None
    """As `GpuTarget` has it."""

    def __post_init__(self) -> None:
        if not is_depthwise(self.shape):
            raise ValueError(f"{self.shape} is no direct depthwise convolution")

    def emit(
        self,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        """All that a thread waits for is requested first, where rows are ahead: filters, then the image."""
        if self.schedule.rows_ahead is None:
            super().emit(work, image, filters, output, epilogue)
            return
        all_columns = self.all_columns(work.sizes)
        count = all_columns.count(work.sizes.batch)
        number, quad, exists = self.grid.place(work.workgroup, count)
        # All threads share filters: those without outputs compute the last ones, too, and don't store them.
        columns = all_columns.locate(number.minimum(count - 1))
        channel = quad.minimum(self.grid.quads - 1) * QUAD
        operands = ColumnOperands(self.shape, self.layout, image, filters, channel)
        publish = self._begin_sharing(work, operands)
        rows = list(product(*map(range, self.shape.kernel_size[:-1])))
        ahead = [self._row(row, columns, operands) for row in rows[: self.schedule.rows_ahead]]
        shared = publish()
        place = thread_id() % self.grid.quads_per_workgroup
        sums = [constant_quad(0.0, output.computed)] * self.schedule.columns
        for number_of_row in range(len(rows)):
            following = rows[number_of_row + self.schedule.rows_ahead :][:1]
            ahead += [self._row(row, columns, operands) for row in following]
            taps = range(self.shape.kernel_size[-1])
            first = number_of_row * len(taps)
            weights = [shared.load([first + tap, place]) for tap in taps]
            sums = self._multiplied(sums, columns, ahead.pop(0), weights)
        if self.float_register is not None:
            sums = computed_here(sums, self.float_register)
        when(exists, lambda: self.store(sums, columns, channel, output, epilogue))

    def added(
        self,
        sums: Sequence[ir.Value],
        row: Sequence[IndexLike],
        columns: Columns,
        position: Sequence[Index],
        operands: ColumnOperands,
    ) -> list[ir.Value]:
        values = operands.elements(columns, position, operands.channel, Condition(True))
        taps = range(self.shape.kernel_size[-1])
        weights = [operands.weights((*row, tap), 0) for tap in taps]
        return self._multiplied(sums, columns, values, weights)

    def _multiplied(
        self,
        sums: Sequence[ir.Value],
        columns: Columns,
        values: Mapping[int, ir.Value],
        weights: Sequence[ir.Value],
    ) -> list[ir.Value]:
        """The sums of all columns and those of one row of taps."""
        results = list(sums)
        for tap, weight in enumerate(weights):
            for column in range(self.schedule.columns):
                value = values[columns.element_of(column, tap)]
                results[column] = vector.fma(value, weight, results[column])
        return results

    def _row(
        self, row: Sequence[IndexLike], columns: Columns, operands: ColumnOperands
    ) -> Mapping[int, ir.Value]:
        """What a row of taps reads of the image, zeros where that has no such row."""
        position, exists = columns.row_inside(row)
        return operands.elements(columns, position, operands.channel, exists)

    def _begin_sharing(self, work: Work, operands: ColumnOperands) -> Callable[[], SharedBuffer]:
        """Requests the workgroup's filters, by all threads; gives what leaves them in shared memory."""
        quads, taps = self.grid.quads_per_workgroup, prod(self.shape.kernel_size)
        shared = SharedBuffer.allocate((taps, quads), "filters", operands.filters.computed)
        loads = []
        for turn in range(ceil_div(taps * quads, self.schedule.threads)):
            number = thread_id() + turn * self.schedule.threads
            tap, place = unflatten(number.minimum(taps * quads - 1), (taps, quads))
            quad = (work.workgroup[1] * quads + place).minimum(self.grid.quads - 1)
            own = ColumnOperands(self.shape, self.layout, operands.image, operands.filters, quad * QUAD)
            weight = own.weights(unflatten(tap, self.shape.kernel_size), 0)
            is_whole = (turn + 1) * self.schedule.threads <= taps * quads
            has_one = Condition(True) if is_whole else number.less_than(taps * quads)
            loads.append((weight, tap, place, has_one))

        def publish() -> SharedBuffer:
            for weight, tap, place, has_one in loads:
                when(has_one, lambda weight=weight, at=(tap, place): shared.store(weight, at))  # type: ignore[misc]
            barrier()
            return shared

        return publish
