"""What kernels of rows share: how many a workgroup takes, and reductions of one by vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from iree.winograd.dialect.bindings import arith, ir, vector
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.control_flow import loop_carried
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.emission.vectors import LaneMask, broadcast, splat, vector_width_for

WORKGROUP_ELEMENTS = 2**14
"""Elements of the rows of a workgroup, which take some ten microseconds."""
CHAINS = 4
"""Vectors that are reduced beside each other: an operation takes about so many cycles."""

_Combine = Callable[[ir.Value, ir.Value], ir.Value]


@dataclass(frozen=True)
class Row:
    """A row of `length` neighbouring elements of f32, by vectors of `width` lanes."""

    length: int
    width: int

    @staticmethod
    def of(length: int, target: CpuTarget) -> Row:
        """By the widest vectors of the target that fit."""
        return Row(length, vector_width_for(length, target.vector_width))

    @property
    def block(self) -> int:
        """Rows of a workgroup."""
        return max(1, WORKGROUP_ELEMENTS // self.length)

    @property
    def remainder(self) -> int:
        """Elements beyond the whole vectors. The vector that ends with them overlaps another."""
        return self.length % self.width

    def reduced(self, initial: float, combine: _Combine, load: Callable[[Index], ir.Value]) -> ir.Value:
        """All lanes the combination of the elements, of which `load` gives vectors by their offset."""
        width, vectors = self.width, self.length // self.width
        chains = min(CHAINS, vectors)
        looped = vectors // chains * chains
        neutral = splat(initial, width, F32.type)
        partial = loop_carried(
            looped * width,
            chains * width,
            [neutral] * chains,
            lambda start, values: [combine(value, load(start + i * width)) for i, value in enumerate(values)],
            "element",
        )
        for i in range(vectors - looped):
            partial[i] = combine(partial[i], load(Index((looped + i) * width)))
        if self.remainder:
            new = LaneMask.between(width - self.remainder, width, width).value
            partial[-1] = combine(partial[-1], arith.select(new, load(Index(self.length - width)), neutral))
        return _across_lanes(reduce(combine, partial), combine)


def reduced_vectors(
    count: Index, width: int, initial: float, combine: _Combine, load: Callable[[Index], ir.Value]
) -> ir.Value:
    """All lanes the combination of `count` vectors, of which `load` gives one by its offset."""
    neutral = splat(initial, width, F32.type)
    looped = count // CHAINS * CHAINS

    def combined(start: Index, values: list[ir.Value]) -> list[ir.Value]:
        return [combine(value, load(start + i * width)) for i, value in enumerate(values)]

    partial = loop_carried(looped * width, CHAINS * width, [neutral] * CHAINS, combined, "element")
    first = looped * width
    (partial[0],) = loop_carried(
        (count - looped) * width,
        width,
        partial[:1],
        lambda start, values: combined(first + start, values),
        "element",
    )
    return _across_lanes(reduce(combine, partial), combine)


def _across_lanes(value: ir.Value, combine: _Combine) -> ir.Value:
    """All lanes the combination of those of a vector."""
    lanes = width = ir.VectorType(value.type).shape[0]
    while width > 1:
        width //= 2
        places = list(range(2 * width))
        value = combine(
            vector.shuffle(value, value, places[:width]), vector.shuffle(value, value, places[width:])
        )
    return broadcast(vector.extract(value, [], [0]), lanes)
