"""The schedule of direct convolutions as implicit matrix products on matrix units."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.convolutions.element_types import ElementTypes
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.device.warpgroup import (
    BARRIER_BYTES,
    WARPGROUP_ROWS,
    WARPGROUP_THREADS,
    registers_of,
)
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .matrix import MATRIX_TERMS, STAGE_ROW_BYTES, MatrixSchedule
from .patch import Patch
from .warpgroup import COLUMNS, MAX_SHARED_SUMS

MAX_WARPGROUPS = 4
"""Of a workgroup, for whose threads a multiprocessor has registers."""
WARP_MAXIMA_BYTES = 16
"""Of a warpgroup, for the largest element that each of its warps found."""


@dataclass(frozen=True)
class ImplicitGemmSchedule(MatrixSchedule):
    """How the `warpgroups` of a workgroup compute outputs, each its own tiles of 64 by `block_columns`.

    All filters of these columns lie in shared memory, and beside them, of each warpgroup its own, the part of
    the image that a tile reads, of one of `channel_blocks` after the other. `walking_workgroups` walk over
    all tiles.

    Raises ValueError as `MatrixSchedule` does, for other rows than 64, columns that are no multiple of 16,
    and more than four warpgroups or 128 sums of a thread.
    """

    kind = "implicit-gemm"

    warpgroups: int
    walking_workgroups: int
    channel_blocks: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.block_rows != WARPGROUP_ROWS:
            raise ValueError(f"block_rows must be {WARPGROUP_ROWS}, not {self.block_rows}")
        if self.block_columns % COLUMNS:
            raise ValueError(f"block_columns {self.block_columns} must be a multiple of {COLUMNS}")
        if self.warpgroups > MAX_WARPGROUPS:
            raise ValueError(f"warpgroups must be at most {MAX_WARPGROUPS}, not {self.warpgroups}")
        if self.sums > MAX_SHARED_SUMS:
            raise ValueError(f"a thread has at most {MAX_SHARED_SUMS} sums, not the {self.sums} of {self}")

    @property
    def sums(self) -> int:
        """A thread's, of large products, of a block of these, and of small ones."""
        blocks = 0 if self.summed_block is None else 1
        return (self.parts + blocks) * WARPGROUP_ROWS * self.block_columns // WARPGROUP_THREADS

    @property
    def summed_steps(self) -> int | None:
        """Steps of matrix units in a block of sums."""
        return self.summed_block and self.summed_block // MATRIX_TERMS

    @property
    def threads(self) -> int:
        """Threads of a workgroup, of which a multiprocessor has one."""
        return self.warpgroups * WARPGROUP_THREADS

    @property
    def resident_threads(self) -> int:
        """Threads for which a multiprocessor should have registers."""
        return self.threads

    @property
    def registers(self) -> int:
        """Of a thread."""
        return registers_of(self.threads)

    @property
    def tile_step(self) -> int:
        """From a tile of a warpgroup to its next."""
        return self.walking_workgroups * self.warpgroups

    def patch(self, shape: ConvolutionShape) -> Patch | None:
        """What a warpgroup has of the image; None for a convolution that there are no patches for."""
        if shape.output_channels % QUAD:
            return None
        return Patch.of(shape, self.parts, self.channel_blocks, self.factors)

    def bytes_for(self, shape: ConvolutionShape) -> int | None:
        """Shared memory of a workgroup for a convolution; None for one that has no patches."""
        patch = self.patch(shape)
        if patch is None:
            return None
        stages = ceil_div(patch.reduction, self.block_reduction)
        filters = stages * self.block_columns * STAGE_ROW_BYTES
        return filters + self.warpgroups * (patch.slots * patch.bytes + WARP_MAXIMA_BYTES) + BARRIER_BYTES

    def shared_memory_bytes(self, types: ElementTypes) -> int:
        """The least of a workgroup: `bytes_for` says what a convolution takes."""
        del types
        return self.warpgroups * WARP_MAXIMA_BYTES + BARRIER_BYTES
