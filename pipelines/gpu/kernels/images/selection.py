"""The GPU kernel that selects or blends rows and columns of an image, at positions computed or in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.pixels.position_arithmetic import PositionArithmetic
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Condition, Index, ceildiv, unflatten
from iree.winograd.pipelines.emission.numbers.known import NUMBERS
from iree.winograd.pipelines.emission.selection import ComputedTaps, Place, Selection, Taps, blended
from iree.winograd.pipelines.emission.sized_shape import product
from iree.winograd.pipelines.emission.work import Size, Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer
from iree.winograd.pipelines.gpu.kernels.winograd.transforms import ThreadGrid

SELECTION_THREADS = 256
_NEIGHBOURS = 8
"""Quads of a pixel that neighbouring threads take, a cache line. Others take pixels beside theirs."""
_BLENDED_ROWS = 2
"""Of a thread, below each other, where pixels are blended: it computes once which columns these read."""


def integer_of(dimension: int, number: int) -> Size:
    """What a kernel is told as an integer that positions along a dimension are computed of."""
    return Size(f"integer of {dimension}", number)


@dataclass(frozen=True)
class SelectionKernel:
    """Sums of pixels; a thread takes a quad of one, or of two below each other where they are blended.

    Positions and weights are in memory, or computed by `arithmetic`, one for each dimension that has taps.
    """

    selection: Selection
    arithmetic: tuple[PositionArithmetic | None, ...] | None = None

    @property
    def name(self) -> str:
        return self.selection.name

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of pixels, channels."""
        return self._grid.workgroups(sizes.batch * product(tuple(self._blocks(sizes))))

    def emit(self, work: Work, image: GlobalBuffer, *tables_and_output: GlobalBuffer) -> None:
        """Emits the work of one workgroup: N x H... x C to N x OH... x C.

        Tables are the positions of each tap, its weights, if it has some, next to them.
        """
        *tables, output = tables_and_output
        taps = self._taps(work.sizes, tables)
        size, blocks = work.sizes.spatial("output"), self._blocks(work.sizes)
        number, quad, exists = self._grid.place(work.workgroup, work.sizes.batch * product(tuple(blocks)))
        if work.sizes.batch.known == 1:
            batch, first = Index(0), list(unflatten(number, blocks))
        else:
            batch, *first = unflatten(number, [work.sizes.batch, *blocks])
        channel = quad * QUAD
        remaining = Index(self.selection.channels) - channel

        def load(pixel: list[Index]) -> ir.Value:
            return image.load_first(image.offset([batch, *pixel, channel]), remaining, Condition(True))

        def select() -> None:
            if self._rows > 1:
                first[self._row] = first[self._row] * self._rows
            places = {
                dimension: each.places(index, QUAD)
                for dimension, (each, index) in enumerate(zip(taps, first, strict=True))
                if dimension != self._row
            }
            # The last row may be another thread's, too. All loads are before the first store.
            rows = [(first[self._row] + i).minimum(size[self._row] - 1) for i in range(1, self._rows)]
            positions = [
                [*first[: self._row], row, *first[self._row + 1 :]] for row in (first[self._row], *rows)
            ]
            along = [taps[self._row].places(position[self._row], QUAD) for position in positions]
            values = [self._blended(load, _in_order({**places, self._row: each})) for each in along]
            for position, value in zip(positions, values, strict=True):
                offset = output.offset([batch, *position, channel])
                output.store_first(value, offset, remaining, Condition(True))

        when(exists, select)

    def _blended(
        self, load: Callable[[list[Index]], ir.Value], places: Sequence[Sequence[Place]]
    ) -> ir.Value:
        """The sum over all places, rounded as the program has it."""
        if self.selection.rounded is None:
            return blended(load, places)
        return blended(load, places, rounded=NUMBERS[self.selection.rounded].rounded)

    def _taps(
        self, sizes: Sizes, tables: Sequence[GlobalBuffer]
    ) -> Sequence[Taps[GlobalBuffer] | ComputedTaps]:
        if self.arithmetic is None:
            return self.selection.taps(tables)
        taps: list[Taps[GlobalBuffer] | ComputedTaps] = []
        for dimension, (arithmetic, is_weighted) in enumerate(
            zip(self.arithmetic, self.selection.is_weighted, strict=True)
        ):
            if arithmetic is None:
                taps.append(Taps([]))
            else:
                integers = sizes.spatial(integer_of(dimension, 0).of)
                taps.append(ComputedTaps(arithmetic, integers, is_weighted))
        return taps

    @property
    def _row(self) -> int:
        """The dimension along which a thread may have several pixels."""
        return max(0, len(self.selection.is_weighted) - 2)

    @property
    def _rows(self) -> int:
        is_blended = any(any(taps) for taps in self.selection.is_weighted)
        return _BLENDED_ROWS if is_blended and len(self.selection.is_weighted) > 1 else 1

    def _blocks(self, sizes: Sizes) -> list[Index]:
        """The result's sizes, of rows in those of a thread."""
        blocks = list(sizes.spatial("output"))
        if self._rows > 1:
            blocks[self._row] = ceildiv(blocks[self._row], self._rows)
        return blocks

    @property
    def _grid(self) -> ThreadGrid:
        return ThreadGrid(ceil_div(self.selection.channels, QUAD), SELECTION_THREADS, _NEIGHBOURS)


def _in_order(places: dict[int, list[Place]]) -> list[list[Place]]:
    return [places[dimension] for dimension in sorted(places)]
