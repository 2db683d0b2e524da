"""The depthwise kernel whose threads walk down strips of an image: each row of it is loaded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from iree.winograd.dialect.bindings import ir, vector
from iree.winograd.pipelines.emission.control_flow import loop_carried, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Condition, Index, ceildiv
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.vectors import splat
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.epilogue_operands import by_channels
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer, thread_id
from iree.winograd.pipelines.gpu.device.predicated_load import load_where
from iree.winograd.pipelines.gpu.kernels.direct.direct import DirectKernel
from iree.winograd.pipelines.gpu.kernels.direct.direct_columns import ColumnOperands
from iree.winograd.pipelines.gpu.kernels.direct.output_blocks import OutputBlock, OutputBlocks
from iree.winograd.pipelines.gpu.schedules.columns import DepthwiseStripSchedule, elements_read
from iree.winograd.pipelines.gpu.schedules.fit import is_walkable


@dataclass(frozen=True)
class DepthwiseStripKernel(DirectKernel):
    """output[n, h, w, c] = epilogue(sum over taps of image[n, i, j, c] * filters[tap, c]).

    A thread holds all taps, and the sums of all rows of outputs that a row of the image is multiplied for. It
    loads the next row while it multiplies one.
    """

    schedule: DepthwiseStripSchedule
    takes_ptx: bool = False
    """Whether the code may have instructions of NVIDIA's GPUs: loads where a condition holds."""

    def __post_init__(self) -> None:
        if not is_walkable(self.shape):
            raise ValueError(f"{self.shape} is no direct depthwise convolution of whole rows")

    def workgroups(self, sizes: Sizes) -> tuple[Index, ...]:
        """Lanes of channels of all strips, for as many as there are threads for."""
        strips = ceildiv(self._strips(sizes).count(sizes.batch) * self.schedule.lanes, self.schedule.threads)
        return (strips * self._slices,)

    def emit(
        self,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        schedule = self.schedule
        image, filters, output = (each.by(schedule.channels) for each in (image, filters, output))
        epilogue = by_channels(epilogue, schedule.channels)
        strips = self._strips(work.sizes)
        count = strips.count(work.sizes.batch)
        thread = work.workgroup[0] // self._slices * schedule.threads + thread_id()
        number = thread // schedule.lanes
        lane = work.workgroup[0] % self._slices * schedule.lanes + thread % schedule.lanes
        # Those behind the last strip compute it, too, and don't store it.
        strip = strips.locate(number.minimum(count - 1))
        operands = ColumnOperands(self.shape, self.layout, image, filters, lane * schedule.channels)
        _Walk(self, strip, operands, output, epilogue, number.less_than(count)).emit()

    @property
    def _slices(self) -> int:
        """Of the channels, that workgroups compute."""
        return self.shape.output_channels // (self.schedule.channels * self.schedule.lanes)

    def _strips(self, sizes: Sizes) -> OutputBlocks:
        """All outputs, by columns of whole images."""
        rows = self.shape.output_size[0]
        return OutputBlocks(SizedShape.of(self.shape, sizes), rows, self.schedule.columns)


@dataclass(frozen=True)
class _Walk:
    """That of one thread down its strip."""

    kernel: DepthwiseStripKernel
    strip: OutputBlock
    operands: ColumnOperands
    output: GlobalBuffer
    epilogue: VectorEpilogue
    exists: Condition

    def emit(self) -> None:
        shape, columns = self.kernel.shape, self.kernel.schedule.columns
        rows, across = shape.kernel_size
        taps = list(product(range(rows), range(across)))
        weights = dict(zip(taps, [self.operands.weights(tap, 0) for tap in taps], strict=True))
        zero = splat(0.0, self.kernel.schedule.channels, self.output.computed)
        high = shape.input_size[0]

        def multiplied(row: Index, carried: list[ir.Value]) -> Sequence[ir.Value]:
            """Finishes the first of the rows of outputs that this one of the image is multiplied for."""
            sums, elements = carried[: (rows - 1) * columns], carried[(rows - 1) * columns :]
            following = self._row((row + 1).minimum(high - 1))
            sums = [*sums, *[zero] * columns]
            for number, tap in product(range(rows), range(across)):
                for column in range(columns):
                    place = number * columns + column
                    weight = weights[(rows - 1 - number, tap)]
                    sums[place] = vector.fma(elements[column + tap], weight, sums[place])
            done = row - (rows - 1 - shape.padding_low[0])
            when(done.at_least(0) & self.exists, lambda: self._store(done, sums[:columns]))
            return [*sums[columns:], *following]

        initial = [*[zero] * ((rows - 1) * columns), *self._row(Index(0))]
        left = loop_carried(high, 1, initial, multiplied, "row")
        # Below the image is padding alone.
        for number in range(shape.padding_high[0]):
            row = Index(high - rows + 1 + shape.padding_low[0] + number)
            sums = left[number * columns : (number + 1) * columns]
            when(self.exists, lambda row=row, sums=sums: self._store(row, sums))  # type: ignore[misc]

    def _row(self, row: Index) -> list[ir.Value]:
        """What the strip reads of a row of the image, zeros beside it."""
        image, channel, columns = self.operands.image, self.operands.channel, self.strip.positions[1]
        values = []
        for column in elements_read(self.kernel.shape.decomposition, self.kernel.schedule.columns):
            place, exists = columns.clamped(Index(column))
            if self.kernel.takes_ptx and image.by_quads:
                first = image.offset([self.strip.image, row, columns.first, channel])
                values.append(load_where(image, first + image.distance([0, 0, column, 0]), exists))
            else:
                offset = image.offset([self.strip.image, row, place, channel])
                values.append(image.load(offset, image.together, exists))
        return values

    def _store(self, row: Index, sums: Sequence[ir.Value]) -> None:
        for column, sum_ in enumerate(sums):
            position = (row, self.strip.column + column)

            def store(sum_: ir.Value = sum_, position: tuple[Index, ...] = position) -> None:
                channel = self.operands.channel
                finished = self.epilogue.emit(sum_, self.strip.image, position, channel)
                offset = self.output.offset([self.strip.image, *position, channel])
                remaining = Index(self.kernel.shape.output_channels) - channel
                self.output.store_first(finished, offset, remaining, Condition(True))

            when(self.strip.exists(0, column), store)
