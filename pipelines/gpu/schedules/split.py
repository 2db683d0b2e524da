"""The schedule of products on matrix units that a warp uses by itself."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS, WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import QUAD_BYTES

from .matrix import STAGE_ROW_BYTES, StagedSchedule


@dataclass(frozen=True)
class SplitSchedule(StagedSchedule):
    """How the warps of a workgroup multiply on matrix units: `warp_rows` x `warp_columns` sums each.

    Raises ValueError as `StagedSchedule` does, for blocks that don't divide into such parts, those that the
    threads can't copy in equal shares, and where matrix units sum other large products than those of a stage.
    """

    kind = "split"

    warp_rows: int
    warp_columns: int

    def __post_init__(self) -> None:
        super().__post_init__()
        for block, part in (("block_rows", "warp_rows"), ("block_columns", "warp_columns")):
            if getattr(self, part) % MATRIX_ROWS or getattr(self, block) % getattr(self, part):
                raise ValueError(
                    f"{block} {getattr(self, block)} must be a multiple of {part} {getattr(self, part)}, "
                    f"and that a multiple of {MATRIX_ROWS}"
                )
        if self.summed_stages != 1:
            raise ValueError(f"summed_block must be {self.block_reduction}, not {self.summed_block}")
        for rows in (self.block_rows, self.block_columns):
            if rows * STAGE_ROW_BYTES // QUAD_BYTES % self.threads:
                raise ValueError(f"{self.threads} threads can't share the copies of {self} equally")

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        return WARP_THREADS * (self.block_rows // self.warp_rows) * (self.block_columns // self.warp_columns)
