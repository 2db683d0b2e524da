"""Which sums of a block threads of CDNA keep, whose matrix units multiply f32: 16 x 4 by 4 x 16 at once.

Of a matrix of 16 rows (or columns) and four positions along the reduction a thread holds one element. Rows of
a matrix need not be neighbours: a thread loads two or four neighbouring rows of a position at once, and the
first ones of all threads are one matrix, the second ones another. So a warp reads 64 rows of four positions
with one load of 16 bytes each, free of bank conflicts, for 4 x 4 products.

The right operand counts as the rows of a product, the left one as its columns. A thread has four neighbouring
rows of a product, so four columns apart by the number of matrices across; those of all matrices together are
neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.gpu.device.amd_matrix import F32_TERMS, MFMA_SUMS, multiply_mfma_f32
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS
from iree.winograd.pipelines.gpu.device.memory import QUAD, SharedBuffer, lane, quad_of
from iree.winograd.pipelines.gpu.schedules.gemm import MfmaGemmSchedule


class MfmaTiling:
    """The rows and columns of a block whose sums a thread keeps: of neighbours, as many as matrices."""

    def __init__(self, schedule: MfmaGemmSchedule, thread: Index) -> None:
        self._schedule = schedule
        across = schedule.block_columns // schedule.warp_columns
        warp, number = thread // schedule.warp_threads, thread % schedule.warp_threads
        self._warp_row = warp // across * schedule.warp_rows
        self._warp_column = warp % across * schedule.warp_columns
        self._place, self._position = number % MATRIX_ROWS, number // MATRIX_ROWS

    def multiply(
        self, left: SharedBuffer, right: SharedBuffer, buffer: Index, sums: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """Adds the product of the blocks in shared memory to the warp's sums."""
        sums = list(sums)
        row = self._warp_row // self._schedule.left_width + self._place
        column = self._warp_column // self._schedule.right_width + self._place
        for first in range(0, self._schedule.block_reduction, F32_TERMS):
            position = self._position + first
            rows, columns = left.load([buffer, position, row]), right.load([buffer, position, column])
            for i, j in product(range(self._schedule.left_width), range(self._schedule.right_width)):
                at = i * self._schedule.right_width + j
                sums[at] = multiply_mfma_f32(lane(columns, j), lane(rows, i), sums[at])
        return sums

    def results(self, sums: Sequence[ir.Value]) -> Iterator[tuple[Index, Index, ir.Value]]:
        """Row, first column and quad of each four of the sums."""
        across = self._schedule.right_width
        first_row = self._warp_row + self._place * self._schedule.left_width
        first_column = self._warp_column + self._position * (MFMA_SUMS * across)
        for i in range(self._schedule.left_width):
            matrices = sums[i * across : (i + 1) * across]
            elements = [lane(matrix, number) for number in range(MFMA_SUMS) for matrix in matrices]
            for first in range(0, len(elements), QUAD):
                yield first_row + i, first_column + first, quad_of(elements[first : first + QUAD])
