"""The CPU kernel that selects or blends rows and columns of an image, at positions in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from iree.winograd.dialect.bindings import arith, ir, memref
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.buffer import Buffer, scratch
from iree.winograd.pipelines.emission.control_flow import loop, named, when
from iree.winograd.pipelines.emission.index import Index, unflatten
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.sized_shape import product
from iree.winograd.pipelines.emission.vectors import broadcast, for_each_vector, vector_width_for
from iree.winograd.pipelines.emission.work import Sizes, Work

_ROW_BYTES = 32 << 10
"""Of a row that is blended of others: what stays in L1 beside what is written."""


@dataclass(frozen=True)
class _Place:
    """Where a tap reads the image along a dimension, and its weight, a vector of equal lanes."""

    index: Index
    weight: ir.Value | None = None


@dataclass(frozen=True)
class SelectionKernel:
    """Sums of pixels whose positions and weights are in memory; a workgroup takes a row of them.

    Rows whose pixels fill no vector are added once for all columns, where there is room for the sum.
    """

    is_weighted: tuple[tuple[bool, ...], ...]
    """For each tap of each spatial dimension whether it has weights; of one without taps all is taken."""
    channels: int
    target: CpuTarget
    first_channel: int = 0
    """Of the output, that of the first one."""

    @property
    def name(self) -> str:
        kinds = ("blended" if any(taps) else "selected" if taps else "all" for taps in self.is_weighted)
        return f"winograd_{'x'.join(kinds)}x{self.channels}"

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Rows of all images."""
        return sizes.batch * product(sizes.spatial("output")[:-1]), Index(1)

    def emit(self, work: Work, image: Buffer, *tables_and_output: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point: N x H... x C to N x OH... x C or more.

        Tables are the positions of each tap, its weights, if it has some, next to them.
        """
        *tables, output = tables_and_output
        given = iter(tables)
        taps = [
            [(next(given), next(given) if weighted else None) for weighted in dimension]
            for dimension in self.is_weighted
        ]
        width = vector_width_for(self.channels, self.target.vector_width)
        *outer, columns = work.sizes.spatial("output")
        number, *row = unflatten(work.workgroup[0], [work.sizes.batch, *outer])
        with named("row"):
            rows = [_places(each, index, width) for each, index in zip(taps, row, strict=False)]

        def emit_columns(source: Buffer, begin: list[Index], rows: list[list[_Place]]) -> None:
            with loop(columns, name="column") as column:
                with named("pixel"):
                    places = [*rows, _places(taps[-1], column, width)]
                    target = output.offset([number, *row, column, self.first_channel])

                def store(channel: Index) -> None:
                    output.store(_blended(source, begin, places, channel, width), target + channel)

                for_each_vector(self.channels, width, store, "channel")

        if not self._blends_rows_first:
            emit_columns(image, [number], rows)
            return
        pixels = _ROW_BYTES // (F32.bytes * self.channels)
        blended = scratch((pixels, self.channels), image.computed, "blended_row")
        extent = work.sizes.spatial("input")[-1]

        def emit_rows_first() -> None:
            with loop(extent, name="source_column") as column:

                def store(channel: Index) -> None:
                    element = _blended(image, [number], [*rows, [_Place(column)]], channel, width)
                    blended.store(element, blended.offset([column, channel]))

                for_each_vector(self.channels, width, store, "channel")
            emit_columns(blended, [], [])

        when(extent.less_than(pixels + 1), emit_rows_first, lambda: emit_columns(image, [number], rows))

    @property
    def _blends_rows_first(self) -> bool:
        """Whether columns are selected of what is blended of several rows, if these have room.

        Pixels that fill vectors take as long as memory either way.
        """
        *outer, last = self.is_weighted
        return bool(last) and any(map(any, outer)) and self.channels < self.target.vector_width


def _places(taps: Sequence[tuple[Buffer, Buffer | None]], index: Index, width: int) -> list[_Place]:
    """Where the element `index` of a dimension comes from."""
    if not taps:
        return [_Place(index)]
    return [
        _Place(
            Index(arith.index_cast(ir.IndexType.get(), memref.load(positions.memref, [index.value]))),
            None if weights is None else broadcast(weights.load_scalar(index), width),
        )
        for positions, weights in taps
    ]


def _blended(
    image: Buffer, begin: list[Index], places: Sequence[list[_Place]], channel: Index, width: int
) -> ir.Value:
    """The sum over the taps of all dimensions, those of the first one first."""
    return _sum(image, begin, list(places), [], channel, width)


def _sum(
    image: Buffer,
    begin: list[Index],
    places: list[list[_Place]],
    chosen: list[Index],
    channel: Index,
    width: int,
) -> ir.Value:
    """That over the dimensions of `places`, at `chosen` in those after them."""
    if not places:
        return image.load(image.offset([*begin, *chosen, 0]) + channel, width)
    *outer, last = places
    parts = [
        (_sum(image, begin, outer, [place.index, *chosen], channel, width), place.weight) for place in last
    ]
    return reduce(
        arith.addf, [part if weight is None else arith.mulf(part, weight) for part, weight in parts]
    )
