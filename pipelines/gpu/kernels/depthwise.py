"""The depthwise kernel: one filter per channel, so there is nothing to multiply as matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir, vector
from iree.winograd.pipelines.emission.control_flow import loop_carried, values_when, when
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.index import Condition, Index, IndexLike
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer, constant_quad
from iree.winograd.pipelines.gpu.schedules.depthwise import GpuDepthwiseSchedule
from iree.winograd.pipelines.gpu.schedules.fit import is_depthwise
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .output_columns import Columns, OutputColumns
from .transforms import Epilogue, ThreadGrid

_UNROLLED_ROWS = 5
"""Of taps. More of them are a loop: IREE and the driver would compile 31 x 31 taps for minutes."""


@dataclass(frozen=True)
class DepthwiseKernel:
    """output[n, o..., c] = epilogue(sum over taps of image[n, i..., c] * filters[tap, c]).

    A thread loads what a row of taps reads of its outputs, and that row of the filter, once.
    """

    shape: ConvolutionShape
    schedule: GpuDepthwiseSchedule
    layout: FilterLayout | None = None
    """Of filters known only at run time; constants are taps x C."""

    def __post_init__(self) -> None:
        if not is_depthwise(self.shape):
            raise ValueError(f"{self.shape} is no direct depthwise convolution")

    @property
    def filter_extents(self) -> tuple[int, int]:
        """taps x C."""
        return (len(self.shape.decomposition.views), self.shape.output_channels)

    @property
    def tap_of_view(self) -> tuple[int, ...]:
        """The row-major number of the one tap that each view holds."""
        decomposition = self.shape.decomposition
        taps = list(product(*map(range, decomposition.kernel_size)))
        return tuple(
            taps.index(tap) for view in decomposition.views for tap in decomposition.taps(view) if tap
        )

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Columns of outputs, channels."""
        return self._grid.workgroups(self._columns(sizes).count(sizes.batch))

    def emit(
        self,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: Epilogue,
    ) -> None:
        """`image` is N x H... x C, `output` is N x OH... x C."""
        all_columns = self._columns(work.sizes)
        number, quad, exists = self._grid.place(work.workgroup, all_columns.count(work.sizes.batch))
        channel = quad * QUAD

        def compute() -> None:
            columns = all_columns.locate(number)
            sums = self._sums(columns, image, filters, channel, output.computed)
            for column, sum_ in enumerate(sums):
                position = columns.output(column)

                def store(sum_: ir.Value = sum_, position: tuple[Index, ...] = position) -> None:
                    finished = epilogue(sum_, columns.image, position, channel)
                    offset = output.offset([columns.image, *position, channel])
                    remaining = Index(self.shape.output_channels) - channel
                    output.store_first(finished, offset, remaining, Condition(True))

                when(columns.exists(column), store)

        when(exists, compute)

    def _sums(
        self, columns: Columns, image: GlobalBuffer, filters: GlobalBuffer, channel: Index, computed: ir.Type
    ) -> list[ir.Value]:
        """Of each of the columns, row by row of the filter's taps."""
        kernel_size = self.shape.kernel_size
        sums = [constant_quad(0.0, computed)] * self.schedule.columns
        if not kernel_size[:-1] or max(kernel_size[:-1]) <= _UNROLLED_ROWS:
            for row in product(*map(range, kernel_size[:-1])):
                sums = self._with_row(sums, row, columns, image, filters, channel)
            return sums
        *outer, rows = kernel_size[:-1]
        for first in product(*map(range, outer)):
            sums = loop_carried(
                rows,
                1,
                sums,
                lambda last, carried, first=first: self._with_row(  # type: ignore[misc]
                    carried, (*first, last), columns, image, filters, channel
                ),
            )
        return sums

    def _with_row(
        self,
        sums: Sequence[ir.Value],
        row: Sequence[IndexLike],
        columns: Columns,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        channel: Index,
    ) -> list[ir.Value]:
        """The sums and those of one row of taps, which is nothing where that reads padding alone."""
        position, exists = columns.row(row)
        elements = columns.elements

        def added() -> list[ir.Value]:
            values = {}
            for element in elements:
                place, inside = columns.element(element)
                offset = image.offset([columns.image, *position, place, channel])
                values[element] = image.load(offset, QUAD, inside)
            taps = [self._weights(filters, (*row, tap), channel) for tap in range(self.shape.kernel_size[-1])]
            results = list(sums)
            for tap, weights in enumerate(taps):
                for column in range(self.schedule.columns):
                    value = values[columns.element_of(column, tap)]
                    results[column] = vector.fma(value, weights, results[column])
            return results

        return values_when(exists, added, list(sums))

    def _weights(self, filters: GlobalBuffer, tap: Sequence[IndexLike], channel: Index) -> ir.Value:
        """A quad of channels of a tap."""
        kernel_size = self.shape.kernel_size
        if self.layout is None:
            number = Index(0)
            for index, size in zip(tap, kernel_size, strict=True):
                number = number * size + index
            return filters.load(channel + number * self.shape.output_channels)
        offset = self.layout.place(filters, kernel_size, tuple(map(Index.of, tap)), (Index(0), channel))
        remaining = Index(self.shape.output_channels) - channel
        return filters.load_first(offset, remaining, Condition(True), self.layout.output_stride(filters))

    @property
    def _grid(self) -> ThreadGrid:
        return ThreadGrid(
            ceil_div(self.shape.output_channels, QUAD), self.schedule.threads, self.schedule.quads
        )

    def _columns(self, sizes: Sizes) -> OutputColumns:
        return OutputColumns(SizedShape.of(self.shape, sizes), self.schedule.columns)
