"""How the warps of a workgroup share its block of sums."""

from __future__ import annotations

from typing import Protocol

from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS


class DividedAmongWarps(Protocol):
    """A schedule of `block_rows` x `block_columns` sums; a warp has `warp_rows` x `warp_columns` of them."""

    @property
    def block_rows(self) -> int: ...
    @property
    def block_columns(self) -> int: ...
    @property
    def warp_rows(self) -> int: ...
    @property
    def warp_columns(self) -> int: ...


def require_whole_warps(schedule: DividedAmongWarps) -> None:
    """Raise ValueError for blocks that don't divide into the parts of warps, or these into matrices."""
    for block, part in (("block_rows", "warp_rows"), ("block_columns", "warp_columns")):
        if getattr(schedule, part) % MATRIX_ROWS or getattr(schedule, block) % getattr(schedule, part):
            raise ValueError(
                f"{block} {getattr(schedule, block)} must be a multiple of {part} {getattr(schedule, part)}, "
                f"and that a multiple of {MATRIX_ROWS}"
            )


def warp_count(schedule: DividedAmongWarps) -> int:
    return schedule.block_rows // schedule.warp_rows * (schedule.block_columns // schedule.warp_columns)
