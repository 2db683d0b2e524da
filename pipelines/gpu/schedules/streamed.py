"""The schedule of direct convolutions whose pixels stream through warps, by filters in shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.element_types import ElementTypes
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS, WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.device.warpgroup import WARPGROUP_THREADS
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .matrix import STAGE_ROW_BYTES, MatrixSchedule

WARPGROUP_WARPS = WARPGROUP_THREADS // WARP_THREADS
MOST_TOGETHER = 256
"""Columns that a warpgroup multiplies at once."""


@dataclass(frozen=True)
class StreamedSchedule(MatrixSchedule):
    """How each of the `warps` of a workgroup computes `block_rows` outputs after the other.

    The filters of the workgroup's `block_columns`, of each of as many `groups` as its warps divide among
    them, lie in shared memory. Of the image a thread holds what it multiplies, and what the next block reads.
    With several `channel_blocks` it has one of these after the other, and sums of all columns.
    `walking_workgroups` walk over all blocks, of which a multiprocessor should have registers for
    `resident_workgroups`. With `warpgroup_columns` four warps multiply 16 rows each together, by so many
    columns after the other.

    Raises ValueError as `MatrixSchedule` does, for rows and columns that are no multiples of 16, for groups
    that don't divide warps, and for warpgroups of other rows, of several groups or channel blocks, and of
    parts of columns.
    """

    kind = "streamed"

    warps: int
    walking_workgroups: int
    groups: int = 1
    channel_blocks: int = 1
    resident_workgroups: int = 1
    warpgroup_columns: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("block_rows", "block_columns"):
            if getattr(self, name) % MATRIX_ROWS:
                raise ValueError(f"{name} {getattr(self, name)} must be a multiple of {MATRIX_ROWS}")
        if self.warps % self.groups:
            raise ValueError(f"groups {self.groups} must divide warps {self.warps}")
        if self.warpgroup_columns is not None:
            has_rows = self.groups == 1 and self.block_rows == MATRIX_ROWS and self.channel_blocks == 1
            is_whole = self.warps % WARPGROUP_WARPS == 0 and self.block_columns % self.warpgroup_columns == 0
            if not (has_rows and is_whole) or self.warpgroup_columns % MATRIX_ROWS:
                raise ValueError(f"warpgroups don't multiply by {self}")
            if self.warpgroup_columns > MOST_TOGETHER:
                raise ValueError(f"{self.warpgroup_columns} columns are more than {MOST_TOGETHER}")

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        return self.warps * WARP_THREADS

    @property
    def resident_threads(self) -> int:
        """Threads for which a multiprocessor should have registers."""
        return self.resident_workgroups * self.threads

    @property
    def row_warps(self) -> int:
        """Warps of a workgroup that compute blocks of rows of the same group."""
        return self.warps // self.groups

    def has_octets(self, shape: ConvolutionShape) -> bool:
        """Whether threads load eight channels at once, for two steps: of numbers multiplied as they are."""
        return not self.scales_operands and shape.group_inputs % (2 * QUAD) == 0

    def has_octets_of_results(self, shape: ConvolutionShape) -> bool:
        """Whether threads have eight neighbours of 32 columns, which are 16 bytes in half precision."""
        has_octets = shape.group_outputs % (2 * QUAD) == 0 and self.block_columns % (2 * MATRIX_ROWS) == 0
        return not self.scales_operands and has_octets

    def steps(self, shape: ConvolutionShape) -> int:
        """Of 16 positions along the reduction dimension."""
        return ceil_div(_reduction(shape), MATRIX_ROWS)

    def block_steps(self, shape: ConvolutionShape) -> int:
        """Those of a block of channels; the last one may have fewer."""
        steps = ceil_div(self.steps(shape), self.channel_blocks)
        return steps + steps % 2 if self.channel_blocks > 1 and self.has_octets(shape) else steps

    def has_all_blocks(self, shape: ConvolutionShape) -> bool:
        """Whether there are steps for all blocks of channels."""
        return ceil_div(self.steps(shape), self.block_steps(shape)) == self.channel_blocks

    def bytes_for(self, shape: ConvolutionShape) -> int:
        """Shared memory of a workgroup for a convolution."""
        stages = ceil_div(_reduction(shape), self.block_reduction)
        return self.groups * stages * self.block_columns * STAGE_ROW_BYTES

    def shared_memory_bytes(self, types: ElementTypes) -> int:
        """The least of a workgroup: `bytes_for` says what a convolution takes."""
        del types
        return self.groups * self.block_columns * STAGE_ROW_BYTES


def _reduction(shape: ConvolutionShape) -> int:
    return len(shape.decomposition.views) * ceil_div(shape.group_inputs, QUAD) * QUAD
