"""Matrix units as data: how many threads use one together, and how it wants its operands in memory.

What code is written of them is in a file each: `mma.py`, `warpgroup.py`, `cooperative_matrix.py`,
`amd_matrix.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.pipelines.emission.numbers.f16 import F16
from iree.winograd.pipelines.emission.numbers.f32 import F32

from .memory import QUAD

MATRIX_FACTORS, MATRIX_SUMS = F16, F32
"""What all of these units multiply, and what they sum in."""
WARP_THREADS = 32
"""Of NVIDIA's warps, and of the threads that find a scale together on all GPUs."""
MATRIX_ROWS = 16
"""Rows, columns and reduction of the products that operands are divided into."""
MATRIX_COLUMNS = 8
"""Columns of the smallest product of NVIDIA's units, `mma`."""
COPIED = 8
"""Numbers of half precision that a thread copies at once: 16 bytes."""


@dataclass(frozen=True)
class MatrixUnit:
    """What kernels rely on of a kind of matrix units that multiplies half precision and sums in fp32."""

    name: str
    threads: int
    """Of a warp, which use it together."""
    stage_row: int
    """Numbers in a row of a stage: high parts and low parts, or rounded ones."""
    swizzles: bool
    """Whether chunks of 16 bytes change places by the row. Elsewhere rows are apart in shared memory."""
    column_weights: tuple[int, int, int, int]
    """By the bits of a column's number among 16, from the lowest on, what they add to that of its row in a
    stage of the right operand: so that a thread's sums are neighbours."""
    joins_sums: bool = False
    """Whether small products are added to the sums of large ones.

    Low parts aren't scaled then. For fewer registers: the small products of a step come first, so that least
    is lost by truncating.
    """
    multiplies_bf16: bool = False
    """Whether kernels have it multiply bf16, too."""
    truncates: bool = False
    """Whether it is known to truncate when it adds, towards zero."""

    @property
    def low_bits(self) -> int:
        """Low parts are multiplied by two to this power."""
        return 0 if self.joins_sums else 11

    def weights_for(self, neighbours: int) -> tuple[int, ...]:
        """`column_weights` by which so many of a thread's sums are neighbours.

        Where these are more than the four of 16 columns they are four of each of several sixteens, of 32 or
        more columns together.
        """
        pair, second, *others = self.column_weights
        sixteens = [MATRIX_ROWS << bit for bit in range((neighbours // QUAD).bit_length() - 1)]
        return (pair, second, *sixteens, *others)

    def row_of(self, column: int, neighbours: int = QUAD) -> int:
        """The row of a stage of the right operand that a column is, among 16, or as many as have the sums of
        so many neighbours."""
        return sum(weight * (column >> bit & 1) for bit, weight in enumerate(self.weights_for(neighbours)))

    @property
    def row_chunks(self) -> int:
        """Of 16 bytes, in a row of a stage."""
        return self.stage_row // COPIED

    @property
    def shared_row_bytes(self) -> int:
        """From a row to the next in shared memory: apart, so that neighbouring rows are in other banks."""
        return 2 * (self.stage_row if self.swizzles else self.stage_row + COPIED)


_IN_ORDER = (1, 2, 4, 8)

MMA = MatrixUnit(
    "mma", 32, 64, swizzles=True, column_weights=(1, 8, 2, 4), multiplies_bf16=True, truncates=True
)
"""NVIDIA's from sm_80 on, and by warpgroups: pairs of two products become four neighbours."""
COOPERATIVE = MatrixUnit("cooperative", 32, 32, swizzles=False, column_weights=_IN_ORDER, joins_sums=True)
"""Those of Vulkan: a matrix is loaded by one distance between its rows, and no thread knows what it holds."""
MFMA = MatrixUnit("mfma", 64, 64, swizzles=True, column_weights=_IN_ORDER)
"""Those of AMD's CDNA: with rows apart a compute unit has no shared memory for two workgroups."""
WMMA = MatrixUnit("wmma", 32, 64, swizzles=False, column_weights=(2, 4, 8, 1))
"""Those of AMD's RDNA 3, where a thread's sums are of every other row."""
WMMA_RDNA4 = MatrixUnit("wmma-rdna4", 32, 64, swizzles=True, column_weights=_IN_ORDER)
"""Those of AMD's RDNA 4, where a thread's sums are neighbours, and its operands half as long."""
