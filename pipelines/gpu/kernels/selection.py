"""The GPU kernel that selects or blends rows and columns of an image, at positions in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir, memref
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Condition, Index, unflatten
from iree.winograd.pipelines.emission.sized_shape import product
from iree.winograd.pipelines.emission.vectors import broadcast
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer

from .transforms import ThreadGrid

SELECTION_THREADS = 256
_NEIGHBOURS = 8
"""Quads of a pixel that neighbouring threads take, a cache line. Others take pixels beside theirs."""

_Tap = tuple[GlobalBuffer, GlobalBuffer | None]
"""Positions along a dimension, and weights if they have some."""


@dataclass(frozen=True)
class _Place:
    """Where a tap reads the image along a dimension, and its weight, a quad of equal lanes."""

    index: Index
    weight: ir.Value | None = None


@dataclass(frozen=True)
class SelectionKernel:
    """Sums of pixels whose positions and weights are in memory; a thread takes a quad of one of them."""

    is_weighted: tuple[tuple[bool, ...], ...]
    """For each tap of each spatial dimension whether it has weights; of one without taps all is taken."""
    channels: int

    @property
    def name(self) -> str:
        kinds = ("blended" if any(taps) else "selected" if taps else "all" for taps in self.is_weighted)
        return f"winograd_{'x'.join(kinds)}x{self.channels}"

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of pixels, channels."""
        return self._grid.workgroups(sizes.batch * product(sizes.spatial("output")))

    def emit(self, work: Work, image: GlobalBuffer, *tables_and_output: GlobalBuffer) -> None:
        """Emits the work of one workgroup: N x H... x C to N x OH... x C.

        Tables are the positions of each tap, its weights, if it has some, next to them.
        """
        *tables, output = tables_and_output
        given = iter(tables)
        taps = [
            [(next(given), next(given) if weighted else None) for weighted in dimension]
            for dimension in self.is_weighted
        ]
        size = work.sizes.spatial("output")
        number, quad, exists = self._grid.place(work.workgroup, work.sizes.batch * product(size))
        if work.sizes.batch.known == 1:
            batch, position = Index(0), list(unflatten(number, size))
        else:
            batch, *position = unflatten(number, [work.sizes.batch, *size])
        channel = quad * QUAD

        def select() -> None:
            places = [_places(each, index) for each, index in zip(taps, position, strict=True)]
            selected = self._sum(image, batch, places, [], channel)
            offset = output.offset([batch, *position, channel])
            output.store_first(selected, offset, Index(self.channels) - channel, Condition(True))

        when(exists, select)

    def _sum(
        self,
        image: GlobalBuffer,
        batch: Index,
        places: Sequence[list[_Place]],
        chosen: list[Index],
        channel: Index,
    ) -> ir.Value:
        """That over the dimensions of `places`, at `chosen` in those after them."""
        if not places:
            offset = image.offset([batch, *chosen, channel])
            return image.load_first(offset, Index(self.channels) - channel, Condition(True))
        *outer, last = places
        parts = [
            (self._sum(image, batch, outer, [place.index, *chosen], channel), place.weight) for place in last
        ]
        return reduce(
            arith.addf, [part if weight is None else arith.mulf(part, weight) for part, weight in parts]
        )

    @property
    def _grid(self) -> ThreadGrid:
        return ThreadGrid(ceil_div(self.channels, QUAD), SELECTION_THREADS, _NEIGHBOURS)


def _places(taps: Sequence[_Tap], index: Index) -> list[_Place]:
    """Where the element `index` of a dimension comes from."""
    if not taps:
        return [_Place(index)]
    return [
        _Place(
            Index(arith.index_cast(ir.IndexType.get(), memref.load(positions.memref, [index.value]))),
            None if weights is None else broadcast(weights.load_scalar(index), QUAD),
        )
        for positions, weights in taps
    ]
