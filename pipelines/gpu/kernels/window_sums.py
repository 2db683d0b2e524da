"""The GPU kernel that sums windows of an image in place, as average pooling does, without a padded copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.control_flow import loop_carried, when
from iree.winograd.pipelines.emission.index import Condition, Index, all_of, unflatten
from iree.winograd.pipelines.emission.pixel_function import PixelFunction
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer, constant_quad
from iree.winograd.pipelines.problems.windows import Windows, known_sizes

from .transforms import ThreadGrid

WINDOW_THREADS = 256
_NEIGHBOURS = 8
"""Quads of a pixel that neighbouring threads take: a cache line. Other threads take windows beside theirs."""
_MOST_COLUMNS = 6
"""Quads whose sums a thread has in registers."""
_MOST_LOADS = 32
"""Of a thread, written out without a loop."""
_MANY_THREADS = 1 << 16
"""As many as keep the memory of large GPUs busy."""


@dataclass(frozen=True)
class WindowSumsKernel:
    """`finish` of the sums of windows of N x H... x C, of known spatial sizes; zeros are around the image.

    A thread sums neighbouring windows along the last dimension: columns that they have in common are loaded,
    and summed along the other dimensions, once.
    """

    windows: Windows
    finish: PixelFunction
    images: int
    """As many as there are, or one where that is known only at run time."""

    @property
    def name(self) -> str:
        size, outputs = ("x".join(map(str, each)) for each in (self.windows.size, self._outputs))
        return f"winograd_window_sum_{size}_{outputs}x{self.windows.channels}"

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of windows, channels."""
        return self._grid.workgroups(sizes.batch * self._blocks_of_image)

    def emit(self, work: Work, image: GlobalBuffer, output: GlobalBuffer) -> None:
        """Emits the work of one workgroup: N x H... x C to N x OH... x C."""
        windows, sizes = self.windows, work.sizes
        number, quad, exists = self._grid.place(work.workgroup, sizes.batch * self._blocks_of_image)
        *outer, last = self._outputs
        batch, *position, block = unflatten(number, [sizes.batch, *outer, ceil_div(last, self.along)])
        # The last block has the last windows, whoever else has them, too.
        first, channel = (block * self.along).minimum(last - self.along), quad * QUAD

        def compute() -> None:
            for window, total in enumerate(self._sums(image, batch, (*position, first), channel)):
                place = [*position, first + window]
                offset = output.offset([batch, *place, channel])
                output.store_first(
                    self.finish.emit(total, [batch, *place]),
                    offset,
                    Index(windows.channels) - channel,
                    Condition(True),
                )

        when(exists, compute)

    @property
    def along(self) -> int:
        """Windows of a thread, of those with fewest loads for each."""
        *outer, last = self._outputs
        quads = self.images * prod(outer) * ceil_div(self.windows.channels, QUAD)
        blocks = {windows: ceil_div(last, windows) for windows in range(1, min(last, _MOST_COLUMNS) + 1)}
        fitting = [
            windows
            for windows, count in blocks.items()
            if len(self._columns(windows)) <= _MOST_COLUMNS and quads * count >= _MANY_THREADS
        ]
        return min(fitting, key=lambda each: blocks[each] * len(self._columns(each)), default=1)

    def _columns(self, windows: int) -> list[int]:
        """The elements along the last dimension that so many neighbouring windows have."""
        size, stride = self.windows.size[-1], self.windows.strides[-1]
        return sorted({window * stride + element for window in range(windows) for element in range(size)})

    def _sums(
        self, image: GlobalBuffer, batch: Index, windows: tuple[Index, ...], channel: Index
    ) -> list[ir.Value]:
        """Those of `along` windows, the first of which is given."""
        *rows, size = self.windows.size
        columns = self._columns(self.along)
        zero = constant_quad(0.0, image.computed)
        last = len(rows)
        in_row = [self._place(last, windows[last], Index(column)) for column in columns]

        # Of a long row, which a thread has alone, only the sum is kept.
        kept = columns if len(columns) <= _MOST_COLUMNS else [0]

        def row(element: Sequence[Index], sums: Sequence[ir.Value]) -> list[ir.Value]:
            places = [self._place(d, windows[d], each) for d, each in enumerate(element)]
            loaded = []
            for column in in_row:
                positions, inside = zip(*places, column, strict=True)
                offset = image.offset([batch, *positions, channel])
                loaded.append(image.load(offset, QUAD, all_of(inside)))
            if len(kept) < len(columns):
                return [reduce(arith.addf, loaded, *sums)]
            return [arith.addf(total, value) for total, value in zip(sums, loaded, strict=True)]

        sums = [zero] * len(kept)
        if prod(rows) * len(columns) <= _MOST_LOADS:
            for element in product(*map(range, rows)):
                sums = row([Index(each) for each in element], sums)
        else:
            sums = loop_carried(prod(rows), 1, sums, lambda i, sums: row(unflatten(i, rows), sums), "row")
        if len(kept) < len(columns):
            return sums
        of_column = dict(zip(columns, sums, strict=True))
        stride = self.windows.strides[-1]
        return [
            reduce(arith.addf, (of_column[window * stride + element] for element in range(size)))
            for window in range(self.along)
        ]

    def _place(self, dimension: int, window: Index, element: Index) -> tuple[Index, Condition]:
        """Where the image has an element, from a window's first one on, and whether it does."""
        windows = self.windows
        (extent,) = known_sizes([windows.extents[dimension]])
        position = window * windows.strides[dimension] + element - windows.low[dimension]
        last = (self._outputs[dimension] - 1) * windows.strides[dimension] + windows.size[dimension]
        if windows.low[dimension] == 0 and last <= extent:
            return position, Condition(True)
        return position.maximum(0).minimum(extent - 1), position.within(extent)

    @property
    def _outputs(self) -> tuple[int, ...]:
        return known_sizes(self.windows.outputs)

    @property
    def _blocks_of_image(self) -> int:
        *outer, last = self._outputs
        return prod(outer) * ceil_div(last, self.along)

    @property
    def _grid(self) -> ThreadGrid:
        return ThreadGrid(ceil_div(self.windows.channels, QUAD), WINDOW_THREADS, _NEIGHBOURS)
