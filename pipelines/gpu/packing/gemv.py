"""The layout of a matrix that a few rows are multiplied by: blocks of 256 columns, row by row.

matrix  [k / 256, r, k % 256]    of half precision, r padded to whole blocks of all parts, k to whole blocks
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from iree.winograd.dialect.algebra.bf16 import bf16_bits
from iree.winograd.passes.match.constants import Array
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.numbers.bf16 import BF16
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.gpu.schedules.gemv import GemvSchedule

from .products import ProductPacking


@dataclass(frozen=True)
class GemvPacking(ProductPacking):
    """The packed layouts of a product of rows for a schedule of it. The array is bound as f32."""

    schedule: GemvSchedule

    @property
    def operand_element(self) -> str:
        return F32.name

    @property
    def operand_bytes(self) -> int:
        return self.schedule.factors.bytes

    @property
    def reads_image(self) -> bool:
        return True

    @property
    def input_passes(self) -> int:
        return 1

    def input_extents(self) -> tuple[int, ...]:
        """Raises ValueError: nothing is written for the product to read."""
        raise ValueError("rows are read where they are")

    def filter_extents(self) -> tuple[int, int]:
        return (1, self.padded_filters * self.padded_reduction * self.operand_bytes // F32.bytes)

    def element(self, row: Index, column: Index) -> Index:
        """Where the packed layout has an element of the matrix, in such elements."""
        block = self.schedule.block_columns
        return (column // block * self.padded_reduction + row) * block + column % block

    def pack_filters(self, transformed: Array) -> Array:
        blocks = (self.padded_reduction, -1, self.schedule.block_columns)
        ordered = self.by_quads(transformed).reshape(blocks).transpose(1, 0, 2)
        halves = bf16_bits(ordered) if self.schedule.factors is BF16 else ordered.astype(np.float16)
        return np.ascontiguousarray(halves).view(np.float32).reshape(self.filter_extents())
