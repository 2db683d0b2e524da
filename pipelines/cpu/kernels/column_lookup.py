"""Columns of lines of an image, looked up and blended in vectors of AVX-512."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir, memref, vector
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.processor.x86 import AVX512_LANES
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop_carried
from iree.winograd.pipelines.emission.index import Condition, Index, ceildiv
from iree.winograd.pipelines.emission.intrinsic import call_intrinsic
from iree.winograd.pipelines.emission.selection import Place, Taps

LANES = AVX512_LANES
"""Neighbours of a line in which a vector of columns is looked up."""
_PERMUTATION = "llvm.x86.avx512.permvar.sf.512"


def looks_up_columns(target: CpuTarget) -> bool:
    """Whether one instruction permutes the lanes of a vector as another one says."""
    return target.vector_width == AVX512_LANES


@dataclass(frozen=True)
class ColumnLookup:
    """Sums of a few elements of a line each, for vectors of neighbouring columns.

    What a tap of sixteen neighbouring columns reads of an image that is enlarged are some of sixteen
    neighbours of a line: a load and a permutation in place of sixteen loads and what joins them.
    """

    taps: Taps[Buffer]

    def fits(self, columns: Index) -> Condition:
        """Emits whether all vectors of columns find what they read among as many neighbours."""
        is_wide = columns.at_least(LANES)
        type_ = self._positions_type
        none, most = _splat(0, type_), _splat(LANES, type_)
        vectors = columns.minimum(LANES) // LANES * ceildiv(columns, LANES)

        def larger(number: Index, found: list[ir.Value]) -> list[ir.Value]:
            begin = (number * LANES).minimum(columns - LANES)
            (largest,) = found
            for distances, _ in self._looked_up(begin):
                largest = arith.maxui(largest, distances)
            return [largest]

        initial = arith.select(is_wide.value, none, most)
        (largest,) = loop_carried(vectors, 1, [initial], larger, "columns")
        kind = ir.Attribute.parse("#vector.kind<maxui>")
        found = vector.reduction(type_.element_type, kind, largest)
        bound = arith.constant(type_.element_type, LANES)
        return Condition(arith.cmpi(arith.CmpIPredicate.ult, found, bound))

    def loads(self, begin: Index) -> tuple[Callable[[Buffer, Index, Index], ir.Value], list[Place]]:
        """What a tap's columns from `begin` on read of a line that begins at an offset, and places for it.

        Lines have as many elements behind their last one as a vector has.
        """
        found = [(_lanes(distances), first) for distances, first in self._looked_up(begin)]

        def load(source: Buffer, line: Index, tap: Index) -> ir.Value:
            assert tap.known is not None
            lanes, first = found[tap.known]
            neighbours = source.load(line + first, LANES)
            return call_intrinsic(_PERMUTATION, [neighbours, lanes], [neighbours.type]).result

        weights = self.taps.weights(begin, LANES)
        return load, [Place(Index(tap), weight) for tap, weight in enumerate(weights)]

    @property
    def _positions_type(self) -> ir.VectorType:
        return ir.VectorType.get([LANES], self.taps.tables[0][0].element)

    def _looked_up(self, begin: Index) -> list[tuple[ir.Value, Index]]:
        """Where the first of the columns from `begin` on reads, and how far behind it all do, of each tap."""
        type_ = self._positions_type
        found = []
        for positions, _ in self.taps.tables:
            first = memref.load(positions.memref, [begin.value])
            read = vector.load(type_, positions.memref, [begin.value])
            distances = arith.subi(read, vector.broadcast(type_, first))
            found.append((distances, Index(arith.index_cast(ir.IndexType.get(), first))))
        return found


def _lanes(distances: ir.Value) -> ir.Value:
    """Which lane each reads, of as many bits as an element has."""
    type_ = ir.VectorType.get([LANES], ir.IntegerType.get_signless(32))
    return distances if distances.type == type_ else arith.trunci(type_, distances)


def _splat(number: int, type_: ir.VectorType) -> ir.Value:
    value = ir.DenseElementsAttr.get_splat(type_, ir.IntegerAttr.get(type_.element_type, number))
    return arith.constant(type_, value)
