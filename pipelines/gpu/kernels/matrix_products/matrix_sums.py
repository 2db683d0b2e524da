"""What the sums of matrix units become: joined, scaled back, and stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir, memref, vector
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.vectors import broadcast, constant_like
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer
from iree.winograd.pipelines.gpu.packing.split import MAX_EXPONENT, SplitPacking

from .products import Block


@dataclass(frozen=True)
class MatrixSums:
    """The sums of one block, of what the left operand and `filters` hold."""

    packing: SplitPacking
    block: Block
    filters: GlobalBuffer

    def row_scales(self, left: ir.Value | None, width: int = QUAD) -> Callable[[Index], ir.Value | None]:
        """What loads the scale of a row of the block, as a quad, or more, of equal elements; None for one.

        `left` is the memory of the left operand as a memref of what its scales are, None if it has none.
        """

        def load(row: Index) -> ir.Value | None:
            if left is None:
                return None
            place = self.packing.input_scale(self.block.row_block, self._group, row)
            return broadcast(memref.load(left, [place.value]), width)

        return load

    def column_scale(self, column: Index, width: int = QUAD) -> ir.Value | None:
        """Those of a quad of columns, or more, divided by 2^14 before; None where filters aren't scaled."""
        if not self.packing.schedule.scales_operands:
            return None
        place = self.packing.filter_scale(self._group, self.block.first_column + column)
        loaded = self.filters.load(place, width, Condition(True))
        return arith.mulf(loaded, constant_like(loaded, 2.0**MAX_EXPONENT))

    def joined(self, large: ir.Value, small: ir.Value | None) -> ir.Value:
        """A quad of sums of large products, with those of small ones if there are some.

        What the large ones lack on average is added to the small ones.
        """
        if small is None:
            return large
        low_bits = self.packing.schedule.unit.low_bits
        if self.packing.truncated:
            lacking = constant_like(large, self.packing.truncated * 2.0**low_bits)
            small = vector.fma(large, lacking, small)
        return vector.fma(small, constant_like(small, 2.0**-low_bits), large)

    def restored(
        self, joined: ir.Value, row_scale: ir.Value | None, column_scale: ir.Value | None
    ) -> ir.Value:
        """A quad of joined sums, scaled back."""
        if column_scale is None:
            return joined
        # Apart from the scales, whose product is that of the largest elements: it underflows no sooner than
        # the result, nor does it overflow.
        reduced = arith.mulf(joined, constant_like(joined, 2.0**-MAX_EXPONENT))
        return arith.mulf(reduced, column_scale if row_scale is None else arith.mulf(row_scale, column_scale))

    @property
    def _group(self) -> Index:
        groups = self.packing.shape.groups
        return self.block.product % groups if groups > 1 else Index(0)
