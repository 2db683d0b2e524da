"""The schedule of products of numbers that are split into two fp16 each, on matrix units."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.passes.match.element_types import ElementTypes
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS, WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import QUAD_BYTES
from iree.winograd.pipelines.specification.schedule import Schedule

SPLIT_PRODUCTS = 3
"""Products of fp16 for each of split numbers."""
SPLIT_STAGE = 32
"""Positions along the reduction dimension that split operands are copied by."""
STAGE_ROW = 2 * SPLIT_STAGE
"""fp16 numbers in a row of a stage: high parts and low parts."""
STAGE_ROW_BYTES = 2 * STAGE_ROW


@dataclass(frozen=True)
class SplitSchedule(Schedule):
    """How a workgroup multiplies on matrix units numbers that are split into two fp16 each.

    A workgroup computes `block_rows` x `block_columns` sums, each of its warps `warp_rows` x `warp_columns`.
    Of the operands `stages` of 32 positions along the reduction dimension lie in shared memory: while one is
    multiplied the others are copied. A multiprocessor should have registers for `resident_workgroups`.

    Raises ValueError for sizes that are not positive, blocks that don't divide into such parts, less than two
    stages, and those that the threads can't copy in equal shares.
    """

    kind = "split"

    block_rows: int
    block_columns: int
    warp_rows: int
    warp_columns: int
    stages: int
    resident_workgroups: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for block, part in (("block_rows", "warp_rows"), ("block_columns", "warp_columns")):
            if getattr(self, part) % MATRIX_ROWS or getattr(self, block) % getattr(self, part):
                raise ValueError(
                    f"{block} {getattr(self, block)} must be a multiple of {part} {getattr(self, part)}, "
                    f"and that a multiple of {MATRIX_ROWS}"
                )
        if self.stages < 2:
            raise ValueError(f"stages must be at least 2, not {self.stages}")
        for rows in (self.block_rows, self.block_columns):
            if rows * STAGE_ROW_BYTES // QUAD_BYTES % self.threads:
                raise ValueError(f"{self.threads} threads can't share the copies of {self} equally")

    @property
    def block_reduction(self) -> int:
        """Positions along the reduction dimension of one stage."""
        return SPLIT_STAGE

    @property
    def splits_products(self) -> bool:
        return True

    @property
    def reduction_parts(self) -> int:
        """One workgroup sums all of the reduction."""
        return 1

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        return WARP_THREADS * (self.block_rows // self.warp_rows) * (self.block_columns // self.warp_columns)

    @property
    def resident_threads(self) -> int:
        """Threads for which a multiprocessor should have registers."""
        return self.resident_workgroups * self.threads

    def shared_memory_bytes(self, types: ElementTypes) -> int:
        """Of a workgroup; operands of all types are split into fp16."""
        del types
        return self.stages * (self.block_rows + self.block_columns) * STAGE_ROW_BYTES
