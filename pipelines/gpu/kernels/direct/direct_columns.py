"""Direct convolutions whose threads compute a quad of channels of neighbouring outputs by rows of taps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.control_flow import loop_carried, values_when, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.index import Condition, Index, IndexLike
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer, constant_quad
from iree.winograd.pipelines.gpu.kernels.matrix_products.filter_lines import fetch_lines
from iree.winograd.pipelines.gpu.kernels.winograd.transforms import ThreadGrid
from iree.winograd.pipelines.gpu.schedules.columns import ColumnsSchedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .direct import DirectKernel
from .output_columns import Columns, OutputColumns

_UNROLLED_ROWS = 5
"""Of taps. More of them are a loop: IREE and the driver would compile 31 x 31 taps for minutes."""


@dataclass(frozen=True)
class DirectColumnsKernel(DirectKernel):
    """output[n, o..., k] = epilogue(sum over taps and channels of k's group of image * filters).

    A thread loads what a row of taps reads of its outputs, and that row of the filter, once.
    """

    schedule: ColumnsSchedule
    fetches_filters: bool = False
    """Whether constants are brought near first, by instructions of NVIDIA's GPUs."""

    @abstractmethod
    def added(
        self,
        sums: Sequence[ir.Value],
        row: Sequence[IndexLike],
        columns: Columns,
        position: Sequence[Index],
        operands: ColumnOperands,
    ) -> list[ir.Value]:
        """The sums of all columns and those of one row of taps, which reads the image at this `position`."""

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Columns of outputs, channels."""
        return self.grid.workgroups(self.all_columns(sizes).count(sizes.batch))

    def emit(
        self,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        all_columns = self.all_columns(work.sizes)
        number, quad, exists = self.grid.place(work.workgroup, all_columns.count(work.sizes.batch))
        channel = quad * QUAD
        operands = ColumnOperands(self.shape, self.layout, image, filters, channel)
        if self.fetches_filters and self.layout is None:
            quads = self.grid.quads_per_workgroup
            taps, group_inputs, outputs = self.filter_extents
            first = work.workgroup[1] * (quads * QUAD)
            threads = self.schedule.threads
            fetch_lines(filters, first, taps * group_inputs, outputs, quads * QUAD, threads)

        def finish(columns: Columns) -> None:
            sums = self._sums(columns, operands, output.computed)
            self.store(sums, columns, channel, output, epilogue)

        def compute() -> None:
            columns = all_columns.locate(number)
            # Most columns of a width known only at run time need not ask where it ends.
            inside = replace(columns, are_inside=True)
            when(columns.may_be_inside, lambda: finish(inside), lambda: finish(columns))

        when(exists, compute)

    def store(
        self,
        sums: Sequence[ir.Value],
        columns: Columns,
        channel: Index,
        output: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        """Finishes and writes a quad of channels of those of the columns that exist."""
        for column, sum_ in enumerate(sums):
            position = columns.output(column)

            def store(sum_: ir.Value = sum_, position: tuple[Index, ...] = position) -> None:
                finished = epilogue.emit(sum_, columns.image, position, channel)
                offset = output.offset([columns.image, *position, channel])
                remaining = Index(self.shape.output_channels) - channel
                output.store_first(finished, offset, remaining, Condition(True))

            when(columns.exists(column), store)

    def _sums(self, columns: Columns, operands: ColumnOperands, computed: ir.Type) -> list[ir.Value]:
        """Of each of the columns, row by row of the filter's taps."""
        kernel_size = self.shape.kernel_size
        sums = [constant_quad(0.0, computed)] * self.schedule.columns
        if not kernel_size[:-1] or max(kernel_size[:-1]) <= _UNROLLED_ROWS:
            for row in product(*map(range, kernel_size[:-1])):
                sums = self._with_row(sums, row, columns, operands)
            return sums
        *outer, rows = kernel_size[:-1]
        for first in product(*map(range, outer)):
            sums = loop_carried(
                rows,
                1,
                sums,
                lambda last, carried, first=first: self._with_row(  # type: ignore[misc]
                    carried, (*first, last), columns, operands
                ),
            )
        return sums

    def _with_row(
        self, sums: Sequence[ir.Value], row: Sequence[IndexLike], columns: Columns, operands: ColumnOperands
    ) -> list[ir.Value]:
        """The sums and those of one row of taps, which is nothing where that reads padding alone."""
        position, exists = columns.row(row)
        return values_when(
            exists, lambda: self.added(list(sums), row, columns, position, operands), list(sums)
        )

    @property
    def grid(self) -> ThreadGrid:
        """Threads over groups of columns and quads of channels."""
        return ThreadGrid(
            ceil_div(self.shape.output_channels, QUAD), self.schedule.threads, self.schedule.quads
        )

    def all_columns(self, sizes: Sizes) -> OutputColumns:
        """All outputs, by groups of columns."""
        return OutputColumns(SizedShape.of(self.shape, sizes), self.schedule.columns)


@dataclass(frozen=True)
class ColumnOperands:
    """Image and filters as the thread of one quad of output channels, from `channel` on, reads them."""

    shape: ConvolutionShape
    layout: FilterLayout | None
    image: GlobalBuffer
    filters: GlobalBuffer
    channel: Index

    def elements(
        self,
        columns: Columns,
        position: Sequence[Index],
        channel: Index,
        exists: Condition,
    ) -> Mapping[int, ir.Value]:
        """A quad of the image's channels of all that these columns read of a row, by `element_of`.

        Zeros where the row doesn't exist.
        """
        values = {}
        # Computed once for all elements, which columns that aren't known to exist would hide from compilers.
        row = self.image.offset([columns.image, *position, 0, channel])
        for element in columns.elements:
            place, inside = columns.element(element)
            offset = row + place * self.image.stride(-2)
            values[element] = self.image.load(offset, QUAD, inside & exists)
        return values

    def weights(self, tap: Sequence[IndexLike], input_channel: IndexLike) -> ir.Value:
        """A tap from one input channel of the group to those output channels that are loaded at once."""
        shape, kernel_size = self.shape, self.shape.kernel_size
        if self.layout is None:
            number = Index(0)
            for index, size in zip(tap, kernel_size, strict=True):
                number = number * size + index
            row = number * shape.group_inputs + input_channel
            return self.filters.load(self.channel + row * shape.output_channels, self.filters.together)
        place = tuple(map(Index.of, tap)), (Index.of(input_channel), self.channel)
        offset = self.layout.place(self.filters, kernel_size, *place)
        remaining = Index(shape.output_channels) - self.channel
        return self.filters.load_first(
            offset, remaining, Condition(True), self.layout.output_stride(self.filters)
        )
