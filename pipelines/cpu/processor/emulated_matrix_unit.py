"""What a matrix unit does, on vectors: for processes that may not use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from iree.winograd.dialect.bindings import arith, ir, vector
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop, loop_carried
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.vectors import broadcast, multiply_add, splat, vector_type

from .matrix_unit import PAIR_BYTES, ROW_BYTES, TILE_LANES, MatrixBlock, pointer

_UPPER = -(1 << 16)
_BITS = 16


@dataclass(frozen=True)
class EmulatedBlock:
    """The sums of a `MatrixBlock`, in memory, with the same operations."""

    block: MatrixBlock
    sums: Buffer
    """row_tiles * tile_rows x channel_tiles * 16 of f32."""
    fused_multiply_add: bool

    @property
    def works_beside(self) -> bool:
        return False

    def configure(self) -> None:
        """Nothing has to be told."""

    def release(self) -> None:
        """Nothing is held."""

    def clear(self) -> None:
        """Emits the zeroing of the sums."""
        vectors = self.block.rows * (self.block.row_tiles * self.block.channel_tiles)
        with loop(vectors, name="cleared") as number:
            self.sums.store(splat(0.0, TILE_LANES, self.sums.computed), number * TILE_LANES)

    def add(
        self,
        row_address: Callable[[int, int], Index],
        row_distance: int,
        filter_address: Callable[[int, int], Index],
        products: Sequence[tuple[int, int]],
    ) -> None:
        """One product after the other, of all tiles."""
        for row_part, filter_part in products:
            filters = [filter_address(filter_part, tile) for tile in range(self.block.channel_tiles)]
            self._add_part(partial(row_address, row_part), row_distance, filters)

    def _add_part(self, row_address: Callable[[int], Index], row_distance: int, filters: list[Index]) -> None:
        channel_tiles = self.block.channel_tiles
        for tile in range(self.block.row_tiles):
            rows = row_address(tile)
            with loop(self.block.rows, name="tile_row") as row:
                address = rows + row * row_distance
                first = (row + self.block.rows * tile) * (channel_tiles * TILE_LANES)

                def add_pair(pair: Index, sums: list[ir.Value], address: Index = address) -> list[ir.Value]:
                    return self._add_pair(sums, pair, address, filters)

                before = [self.sums.load(first + t * TILE_LANES, TILE_LANES) for t in range(channel_tiles)]
                added = loop_carried(TILE_LANES, 1, before, add_pair, "pair")
                for t, total in enumerate(added):
                    self.sums.store(total, first + t * TILE_LANES)

    def store(self, address: Index) -> None:
        """The sums are there already."""

    def stay_awake(self) -> None:
        """Nothing sleeps."""

    def _add_pair(
        self, sums: list[ir.Value], pair: Index, row: Index, filters: list[Index]
    ) -> list[ir.Value]:
        integer = ir.IntegerType.get_signless(32)
        both = broadcast(_load(integer, row + pair * PAIR_BYTES), TILE_LANES)
        elements = _halves(both)
        added = []
        for total, tile in zip(sums, filters, strict=True):
            loaded = _load(vector_type(TILE_LANES, integer), tile + pair * ROW_BYTES)
            for element, weights in zip(elements, _halves(loaded), strict=True):
                total = multiply_add(element, weights, total, self.fused_multiply_add)
            added.append(total)
        return added


def _halves(pairs: ir.Value) -> list[ir.Value]:
    """Both bf16 of each of a vector of pairs, as f32."""
    integer = ir.VectorType(pairs.type).element_type
    lower, upper = (
        vector.broadcast(pairs.type, arith.constant(integer, number)) for number in (_BITS, _UPPER)
    )
    type_ = vector_type(TILE_LANES, ir.F32Type.get())
    return [arith.bitcast(type_, bits) for bits in (arith.shli(pairs, lower), arith.andi(pairs, upper))]


def _load(type_: ir.Type, address: Index) -> ir.Value:
    aligned = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), PAIR_BYTES)
    return ir.Operation.create("llvm.load", [type_], [pointer(address)], {"alignment": aligned}).result
