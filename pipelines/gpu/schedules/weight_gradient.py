"""The schedule of the gradient of a filter."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.passes.match.element_types import ElementTypes
from iree.winograd.pipelines.specification.schedule import Schedule

from .gemm import GemmSchedule


@dataclass(frozen=True)
class GpuWeightGradientSchedule(Schedule):
    """How tiles of images and of gradients are multiplied: blocks of channels, as `GemmSchedule` has them.

    A workgroup sums over one block of `tile_block` tiles of all images, and a kernel of its own adds the
    sums of several blocks: few channels leave few workgroups, and sums in blocks round less.

    Raises ValueError as `GemmSchedule` does, and for a `tile_block` that isn't whole blocks of the reduction.
    """

    kind = "gpu-weight-gradient"

    block_rows: int
    block_columns: int
    block_reduction: int
    tile_block: int
    thread_rows: int = 8
    thread_columns: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tile_block % self.product.block_reduction:
            raise ValueError(
                f"tile_block {self.tile_block} must be a multiple of block_reduction {self.block_reduction}"
            )

    @property
    def product(self) -> GemmSchedule:
        """That of the product of one block of tiles."""
        return GemmSchedule(
            self.block_rows, self.block_columns, self.block_reduction, self.thread_rows, self.thread_columns
        )

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        return self.product.threads

    def shared_memory_bytes(self, types: ElementTypes) -> int:
        """Of a workgroup, for operands of such types."""
        return self.product.shared_memory_bytes(types)

    @property
    def summed_block(self) -> int:
        """Tiles that one sum takes."""
        return self.tile_block
