"""The schedules of the gradient of a filter."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, field

from iree.winograd.passes.match.convolutions.element_types import ElementTypes
from iree.winograd.pipelines.gpu.device.matrix_unit import COPIED, MATRIX_COLUMNS, MATRIX_ROWS, WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import QUAD

from .gemm import GemmSchedule
from .matrix import HALF_BYTES, HALF_TYPES, ROUNDED_PRODUCTS, SPLIT_PRODUCTS
from .product import ProductSchedule
from .warps import require_whole_warps, warp_count

STAGE_TILES = 32
"""Tiles whose products matrix units sum, and that are copied to shared memory at once."""
STAGE_PADDING = 8
"""Elements behind a row of a stage: four rows of neighbouring channels are in different banks."""


@dataclass(frozen=True)
class GpuWeightGradientSchedule(ProductSchedule, ABC):
    """How tiles of images and of gradients are multiplied, by blocks of their channels.

    A workgroup computes `block_rows` x `block_columns` sums over one block of `tile_block` tiles of all
    images, and a kernel of its own adds the sums of several blocks: few channels leave few workgroups, and
    sums in blocks round less.

    Raises ValueError for sizes that are not positive.
    """

    tile_block: int

    @property
    def reads_in_place(self) -> bool:
        """Whether images and gradients are multiplied from where they are."""
        return False


@dataclass(frozen=True)
class MultiplyAddWeightGradientSchedule(GpuWeightGradientSchedule):
    """By fused multiply-adds, as `GemmSchedule` says.

    Raises ValueError as that does, too, and for a `tile_block` that isn't whole blocks of the reduction.
    """

    kind = "multiply-add-weight-gradient"

    block_reduction: int = 16
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
        return self.product.threads

    @property
    def resident_threads(self) -> int:
        return self.product.resident_threads

    def shared_memory_bytes(self, types: ElementTypes) -> int:
        return self.product.shared_memory_bytes(types)

    @property
    def summed_block(self) -> int:
        """Tiles that one sum takes."""
        return self.tile_block


@dataclass(frozen=True)
class StagedWeightGradientSchedule(GpuWeightGradientSchedule, ABC):
    """On matrix units, which sum the products of a stage of tiles; the sums are then added in fp32.

    A warp has `warp_rows` x `warp_columns` sums. `stages` of both operands are in shared memory at once.

    Raises ValueError for blocks that don't divide into such parts, and for a `tile_block` that isn't whole
    stages.
    """

    warp_rows: int = 32
    warp_columns: int = 32
    stages: int = 3
    resident_workgroups: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole_warps(self)
        if self.tile_block % STAGE_TILES:
            raise ValueError(f"tile_block {self.tile_block} must be a multiple of {STAGE_TILES}")

    @property
    def threads(self) -> int:
        return WARP_THREADS * warp_count(self)

    @property
    def resident_threads(self) -> int:
        return self.resident_workgroups * self.threads

    @property
    def stage_elements(self) -> int:
        """Of both operands of a stage."""
        return STAGE_TILES * (self.block_rows + self.block_columns + 2 * STAGE_PADDING)

    @property
    def summed_block(self) -> int:
        """Tiles that one sum of matrix units takes."""
        return STAGE_TILES

    @property
    def warp_tiles(self) -> tuple[int, int]:
        """Tiles of 16 rows by 8 columns of a matrix unit that a warp has, down and across."""
        return self.warp_rows // MATRIX_ROWS, self.warp_columns // MATRIX_COLUMNS


@dataclass(frozen=True)
class MatrixWeightGradientSchedule(StagedWeightGradientSchedule):
    """Three products of TF32 for each of fp32, of numbers that are split into two.

    Raises ValueError as `StagedWeightGradientSchedule` does, and for blocks that the threads can't copy in
    equal shares.
    """

    kind = "matrix-weight-gradient"

    def __post_init__(self) -> None:
        super().__post_init__()
        for channels in (self.block_rows, self.block_columns):
            if STAGE_TILES * channels // QUAD % self.threads:
                raise ValueError(f"{self.threads} threads can't share the copies of {self} equally")

    def shared_memory_bytes(self, types: ElementTypes) -> int:
        return self.stages * self.stage_elements * types.domain_bytes

    @property
    def matrix_products(self) -> int:
        return SPLIT_PRODUCTS


@dataclass(frozen=True)
class HalfWeightGradientSchedule(StagedWeightGradientSchedule):
    """One product of numbers of half precision, which are the `multiplied_type`.

    Nothing is transformed: threads gather images of every tap, and gradients, as they are multiplied.

    Raises ValueError as `StagedWeightGradientSchedule` does, for another type, for less than two stages, and
    for blocks that the threads can't gather in equal shares.
    """

    kind = "half-weight-gradient"

    resident_workgroups: int = 2
    multiplied_type: str = field(default="f16", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.multiplied_type not in HALF_TYPES:
            raise ValueError(f"no product of matrix units is of {self.multiplied_type}")
        if self.stages < 2:
            raise ValueError(f"stages must be at least 2, not {self.stages}")
        for channels in (self.block_rows, self.block_columns):
            chunks = channels // COPIED
            if self.threads % chunks or STAGE_TILES * chunks % self.threads:
                raise ValueError(f"{self.threads} threads can't share the copies of {self} equally")

    @property
    def reads_in_place(self) -> bool:
        return True

    def shared_memory_bytes(self, types: ElementTypes) -> int:
        return HALF_BYTES * self.stages * self.stage_elements

    @property
    def matrix_products(self) -> int:
        return ROUNDED_PRODUCTS
