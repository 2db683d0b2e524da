"""Pixels that are selected or blended of an image, at positions and with weights in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Generic, Protocol, TypeVar

from iree.winograd.dialect.bindings import arith, ir, memref
from iree.winograd.passes.match.pixels.position_arithmetic import PositionArithmetic

from .index import Index
from .position_arithmetic import emit_position_arithmetic
from .vectors import broadcast


class Table(Protocol):
    """A tensor in memory that a kernel reads one by one."""

    @property
    def memref(self) -> ir.Value: ...

    def load_scalar(self, offset: Index, /) -> ir.Value: ...


class VectorTable(Table, Protocol):
    """One of which a kernel reads several neighbours at once, too."""

    def load(self, offset: Index, width: int, /) -> ir.Value: ...


TableT = TypeVar("TableT", bound=Table)
VectorTableT = TypeVar("VectorTableT", bound=VectorTable)


@dataclass(frozen=True)
class Place:
    """Where a tap reads the image along a dimension, and its weight, a vector of equal lanes."""

    index: Index
    weight: ir.Value | None = None


@dataclass(frozen=True)
class Selection:
    """Sums of pixels: `is_weighted` says for each tap of each spatial dimension whether it has weights.

    Of a dimension without taps all is taken.
    """

    is_weighted: tuple[tuple[bool, ...], ...]
    channels: int
    rounded: str | None = None
    """The type of half precision, if any, that each product with a weight, and each sum, is rounded to."""

    @property
    def name(self) -> str:
        """A kernel's."""
        kinds = ("blended" if any(taps) else "selected" if taps else "all" for taps in self.is_weighted)
        name = f"winograd_{'x'.join(kinds)}x{self.channels}"
        return name if self.rounded is None else f"{name}_{self.rounded}"

    def taps(self, tables: Sequence[TableT]) -> list[Taps[TableT]]:
        """Each dimension's, of positions of each tap and, next to them, its weights, if it has some."""
        given = iter(tables)
        return [
            Taps([(next(given), next(given) if weighted else None) for weighted in dimension])
            for dimension in self.is_weighted
        ]


@dataclass(frozen=True)
class Taps(Generic[TableT]):
    """Positions along a dimension, and weights where there are some."""

    tables: Sequence[tuple[TableT, TableT | None]]

    def places(self, index: Index, lanes: int) -> list[Place]:
        """Where the element `index` of the dimension comes from."""
        if not self.tables:
            return [Place(index)]
        return [
            Place(
                Index(arith.index_cast(ir.IndexType.get(), memref.load(positions.memref, [index.value]))),
                None if weights is None else broadcast(weights.load_scalar(index), lanes),
            )
            for positions, weights in self.tables
        ]

    def weights(self: Taps[VectorTableT], index: Index, count: int) -> list[ir.Value | None]:
        """Each tap's of `count` neighbouring elements from `index` on, None of a tap without any."""
        return [None if weights is None else weights.load(index, count) for _, weights in self.tables]


@dataclass(frozen=True)
class ComputedTaps:
    """The same as the kernel computes them: each tap's position and, if `is_weighted` says so, its weight."""

    arithmetic: PositionArithmetic
    integers: Sequence[Index]
    is_weighted: Sequence[bool]

    def places(self, index: Index, lanes: int) -> list[Place]:
        """Where the element `index` of the dimension comes from."""
        results = iter(emit_position_arithmetic(self.arithmetic, index, self.integers))
        return [
            Place(Index(next(results)), broadcast(next(results), lanes) if weighted else None)
            for weighted in self.is_weighted
        ]


def blended(
    load: Callable[[list[Index]], ir.Value],
    places: Sequence[Sequence[Place]],
    chosen: Sequence[Index] = (),
    rounded: Callable[[ir.Value], ir.Value] = lambda computed: computed,
) -> ir.Value:
    """The sum over the places of all dimensions, those of the first one first, of what `load` reads there.

    In dimensions after those of `places` it reads at `chosen`. Products and sums are `rounded`.
    """
    if not places:
        return load(list(chosen))
    *outer, last = places
    parts = [(blended(load, outer, [place.index, *chosen], rounded), place.weight) for place in last]
    return reduce(
        lambda one, other: rounded(arith.addf(one, other)),
        [part if weight is None else rounded(arith.mulf(part, weight)) for part, weight in parts],
    )
