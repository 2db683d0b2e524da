"""The schedule of direct convolutions whose pixels stream through warps, by filters in shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.convolutions.element_types import ElementTypes
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS, MATRIX_SUMS, WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.device.warpgroup import WARPGROUP_THREADS, registers_of
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .matrix import HALF_BYTES, STAGE_ROW_BYTES, MatrixSchedule, stored_result_bytes

WARPGROUP_WARPS = WARPGROUP_THREADS // WARP_THREADS
MOST_TOGETHER = 256
"""Columns that a warpgroup multiplies at once."""


SPARE_REGISTERS_OF_WARPGROUPS = 48
"""Of a thread, for what is neither of the image nor sums, as an epilogue's operands."""
SECTOR_BYTES = 32
"""Of a line of NVIDIA's caches, which memory takes in any order, but not in parts."""


@dataclass(frozen=True)
class StreamedSchedule(MatrixSchedule):
    """How each of the `warps` of a workgroup computes `block_rows` outputs after the other.

    The filters of the workgroup's `block_columns`, of each of as many `groups` as its warps divide among
    them, lie in shared memory. Of the image a thread holds what it multiplies, and what the next block reads.
    With several `channel_blocks` it has one of these after the other, and sums of all columns.
    `walking_workgroups` walk over all blocks, of which a multiprocessor should have registers for
    `resident_workgroups`. With `warpgroup_columns` four warps multiply 16 rows each together, by so many
    columns after the other. Results whose rows are parts of sectors, and that threads would store as such,
    lie in shared memory before a warp stores those of a block as one piece.

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

    def registers_together(self, shape: ConvolutionShape) -> int:
        """Those that a thread of a warpgroup takes for a block, without what is loaded of the next one."""
        assert self.warpgroup_columns is not None
        sums = self.warpgroup_columns // 2 * (self.parts + (self.summed_block is not None))
        return self.steps(shape) * 4 * self.parts + sums + SPARE_REGISTERS_OF_WARPGROUPS

    def has_turns(self, shape: ConvolutionShape) -> bool:
        """Whether warps have several blocks."""
        rows = self.walking_workgroups * self.row_warps * self.block_rows
        return not shape.is_of_known_sizes or shape.images * prod(shape.output_size) > rows

    def loads_ahead(self, shape: ConvolutionShape) -> bool:
        """Whether a warpgroup loads its next block while it multiplies one: if it has registers."""
        held = self.steps(shape) * (8 if self.scales_operands else 4)
        return self.registers_together(shape) + held <= registers_of(self.resident_threads)

    def results_lie_together(self, shape: ConvolutionShape) -> bool:
        """Whether those of a block of rows are one piece of an image, whose rows are parts of sectors.

        Quads of f32 are half of one, whose other half a neighbour stores at the same time.
        """
        width = stored_result_bytes(shape)
        are_small = width == HALF_BYTES or shape.group_outputs % QUAD != 0
        is_whole = shape.groups == 1 and shape.group_outputs <= self.block_columns
        are_in_order = set(shape.decomposition.phases) == {1}
        if not (are_small and is_whole and are_in_order and shape.is_of_known_sizes):
            return False
        rows = shape.images * prod(shape.output_size)
        return rows % self.block_rows == 0 and shape.group_outputs * width % SECTOR_BYTES != 0

    def result_bytes_for(self, shape: ConvolutionShape) -> int:
        """Of a warp, for results that lie together."""
        if not self.results_lie_together(shape):
            return 0
        return self.block_rows * shape.group_outputs * stored_result_bytes(shape)

    def filter_bytes_for(self, shape: ConvolutionShape) -> int:
        """Of a workgroup."""
        stages = ceil_div(_reduction(shape), self.block_reduction)
        return self.groups * stages * self.block_columns * STAGE_ROW_BYTES

    def operand_bytes_for(self, shape: ConvolutionShape) -> int:
        """Of a workgroup that has all outputs, for a number of f32 of each that its epilogue reads.

        Of unknown sizes what rows are finished with is loaded before it is known whether they exist.
        """
        has_all = shape.groups == 1 and shape.group_outputs <= self.block_columns and not shape.unknown_sizes
        return self.block_columns * MATRIX_SUMS.bytes if has_all else 0

    def scale_bytes_for(self, shape: ConvolutionShape) -> int:
        """Of a workgroup, for scales of its columns."""
        has_scales = self.scales_operands and shape.groups == 1 and not shape.unknown_sizes
        return self.block_columns * MATRIX_SUMS.bytes if has_scales else 0

    def bytes_for(self, shape: ConvolutionShape) -> int:
        """Shared memory of a workgroup for a convolution."""
        rows = self.filter_bytes_for(shape) + self.warps * self.result_bytes_for(shape)
        return rows + self.scale_bytes_for(shape) + self.operand_bytes_for(shape)

    def shared_memory_bytes(self, types: ElementTypes) -> int:
        """The least of a workgroup: `bytes_for` says what a convolution takes."""
        del types
        return self.groups * self.block_columns * STAGE_ROW_BYTES


def _reduction(shape: ConvolutionShape) -> int:
    return len(shape.decomposition.views) * ceil_div(shape.group_inputs, QUAD) * QUAD
