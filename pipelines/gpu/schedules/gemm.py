"""The schedules of products by fused multiply-adds, and of those by matrix units for f32."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.convolutions.element_types import ElementTypes
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS, MFMA
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.device.target import RESIDENT_THREADS
from iree.winograd.pipelines.problems.schedule import RunningSumSchedule

from .warps import require_whole_warps

NEIGHBOURING_ROWS = 8
"""Blocks of four rows that neighbouring threads load: a quarter of a warp stores to all banks at once."""
WARP_SIDE = 8
"""Threads of CDNA along the rows and along the columns of a warp."""


@dataclass(frozen=True)
class GemmSchedule(RunningSumSchedule):
    """How a workgroup multiplies: a block of the product each, a smaller one per thread in registers.

    A workgroup computes `block_rows` x `block_columns` sums over blocks of `block_reduction`, which it keeps
    in shared memory twice: one block is multiplied while the next one is loaded. A thread keeps
    `thread_rows` x `thread_columns` sums. With several `reduction_parts` as many workgroups each sum a part
    of the reduction, and the kernel of the output transform adds the parts. After so many `ordered_steps`
    along the reduction the compiler of a target that can be told so moves nothing; a step's operands are
    loaded in the one before. Multiply-adds of so many `alternating_rows` take turns, quad by quad: units that
    do two at a time need operands of different ones.

    Raises ValueError for sizes that are not positive, blocks that don't divide into such parts, and those
    that the threads can't load in equal shares.
    """

    kind = "gemm"

    block_rows: int
    block_columns: int
    block_reduction: int
    thread_rows: int = 8
    thread_columns: int = 8
    reduction_parts: int = 1
    ordered_steps: int | None = None
    alternating_rows: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for block, part in (("block_rows", "thread_rows"), ("block_columns", "thread_columns")):
            if getattr(self, part) % QUAD or getattr(self, block) % getattr(self, part):
                raise ValueError(
                    f"{block} {getattr(self, block)} must be a multiple of {part} {getattr(self, part)}, "
                    f"and that a multiple of {QUAD}"
                )
        if self.block_reduction % QUAD:
            raise ValueError(f"block_reduction {self.block_reduction} must be a multiple of {QUAD}")
        if self.block_rows % (QUAD * NEIGHBOURING_ROWS):
            raise ValueError(
                f"block_rows {self.block_rows} must be a multiple of {QUAD * NEIGHBOURING_ROWS}, "
                "which neighbouring threads load"
            )
        if self.left_blocks % self.left_threads or self.right_quads % self.right_threads:
            raise ValueError(f"{self.threads} threads can't share the loads of {self} equally")

    def block_of_sum(self, terms: int, *, of_frames: bool = False) -> int | None:
        return super().block_of_sum(ceil_div(terms, self.reduction_parts))

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        return (self.block_rows // self.thread_rows) * (self.block_columns // self.thread_columns)

    @property
    def sums(self) -> int:
        """Sums that a thread keeps in registers."""
        return self.thread_rows * self.thread_columns

    def shared_memory_bytes(self, types: ElementTypes) -> int:
        """Of a workgroup, for operands of such types."""
        return 2 * self.block_reduction * types.domain_bytes * (self.block_rows + self.block_columns)

    @property
    def left_width(self) -> int:
        """Rows of the left operand that a thread loads at once from shared memory."""
        return QUAD

    @property
    def right_width(self) -> int:
        """The same of columns of the right one."""
        return QUAD

    @property
    def left_blocks(self) -> int:
        """The left operand is loaded, and transposed, in blocks of four rows and four columns."""
        return self.block_rows * self.block_reduction // QUAD**2

    @property
    def right_quads(self) -> int:
        """The right operand is loaded in quads."""
        return self.block_columns * self.block_reduction // QUAD

    @property
    def resident_threads(self) -> int:
        """Threads for which a multiprocessor should have registers."""
        return RESIDENT_THREADS

    @property
    def warp_threads(self) -> int | None:
        """Threads don't depend on which of them are in a warp."""
        return None

    @property
    def splits_loads(self) -> bool:
        """Whether one half of the threads loads the left operand, the other half the right one."""
        return self.left_blocks == self.threads // 2

    @property
    def left_threads(self) -> int:
        """The threads that load the left operand, from the first on."""
        return self.threads // 2 if self.splits_loads else self.threads

    @property
    def right_threads(self) -> int:
        """The threads that load the right operand, up to the last."""
        return self.threads // 2 if self.splits_loads else self.threads


@dataclass(frozen=True)
class MfmaGemmSchedule(GemmSchedule):
    """The same on matrix units of AMD's CDNA, which multiply and add f32 as other units do.

    Its threads count as those of a warp that keeps the sums of `warp_rows` x `warp_columns`.

    Raises ValueError as `GemmSchedule` does, and for blocks that don't divide into the parts of warps.
    """

    kind = "gemm-mfma"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole_warps(self)
        if max(self.thread_rows, self.thread_columns) > WARP_SIDE:
            raise ValueError(f"a thread of {self} would load more than a quad at once")

    @property
    def warp_threads(self) -> int:
        return MFMA.threads

    @property
    def warp_rows(self) -> int:
        return self.thread_rows * WARP_SIDE

    @property
    def warp_columns(self) -> int:
        return self.thread_columns * WARP_SIDE

    @property
    def left_width(self) -> int:
        """One of each of as many matrices."""
        return self.warp_rows // MATRIX_ROWS

    @property
    def right_width(self) -> int:
        return self.warp_columns // MATRIX_ROWS
