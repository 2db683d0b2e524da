"""The layout of a matrix that a few rows are multiplied by: block by block of columns.

    of f32                  [k / b, r / w, r % 8, r % w / 8, k % b]
    of half precision       [k / b, r / 16, k % b / 16, thread, 8]

r padded to whole blocks of all parts, k to whole blocks of b columns. A warp has w positions at a time, a
thread eight of these, of which all threads load the first together. The 32 threads of a warp have two columns
and four positions each of 16 x 16 elements of half precision, in the order in which matrix units take them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from iree.winograd.dialect.algebra.bf16 import bf16_bits
from iree.winograd.passes.match.values.constants import Array
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.numbers.bf16 import BF16
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS
from iree.winograd.pipelines.gpu.schedules.gemv import GEMV_LOADS, GemvSchedule

from .products import ProductPacking

PAIR = 2
"""Neighbouring positions that a register has, of each of the two columns of a thread."""
_THREAD_POSITIONS = 2 * PAIR
"""Of 16 that a thread has: four threads have all."""


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
        first, column = column // block * self.padded_reduction, column % block
        if not self.schedule.on_matrix_units:
            positions = self.schedule.warp_positions
            first, row = first + row // positions * positions, row % positions
            ordered = row % GEMV_LOADS * (positions // GEMV_LOADS) + row // GEMV_LOADS
            return (first + ordered) * block + column
        tile = (first + row // MATRIX_ROWS * MATRIX_ROWS) * block // MATRIX_ROWS**2 + column // MATRIX_ROWS
        row, column = row % MATRIX_ROWS, column % MATRIX_ROWS
        threads = MATRIX_ROWS // _THREAD_POSITIONS
        thread = (tile * (MATRIX_ROWS // PAIR) + column // PAIR) * threads + row // _THREAD_POSITIONS
        register = (thread * PAIR + row % _THREAD_POSITIONS // PAIR) * PAIR + column % PAIR
        return register * PAIR + row % PAIR

    def pack_filters(self, transformed: Array) -> Array:
        block = self.schedule.block_columns
        # By block, r, and column.
        ordered = self.by_quads(transformed).reshape(self.padded_reduction, -1, block).transpose(1, 0, 2)
        if self.schedule.on_matrix_units:
            rows = (-1, MATRIX_ROWS // _THREAD_POSITIONS, PAIR, PAIR)
            columns = (block // MATRIX_ROWS, MATRIX_ROWS // PAIR, PAIR)
            divided = ordered.reshape(ordered.shape[0], *rows, *columns)
            halves = divided.transpose(0, 1, 5, 6, 2, 3, 7, 4)
            ordered = bf16_bits(halves) if self.schedule.factors is BF16 else halves.astype(np.float16)
        else:
            positions = (-1, self.schedule.warp_positions // GEMV_LOADS, GEMV_LOADS)
            ordered = ordered.reshape(ordered.shape[0], *positions, block).swapaxes(2, 3)
        return np.ascontiguousarray(ordered).view(np.float32).reshape(self.filter_extents())
