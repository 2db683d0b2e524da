"""The schedules of the matrix unit's kernels."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.pipelines.cpu.processor.matrix_unit import (
    F16_PRODUCTS,
    PARTS,
    PRODUCTS,
    ROW_BYTES,
    TILE_BYTES,
    TILE_CHANNELS,
)
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.numbers.bf16 import BF16
from iree.winograd.pipelines.emission.numbers.f16 import F16
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .direct import direct_workgroup_bytes
from .tiled import Bf16TileSchedule, TileSchedule, split_columns, split_rows


@dataclass(frozen=True)
class MatrixUnitSchedule(TileSchedule):
    """That of the matrix unit's kernel for numbers of f32.

    The input of a workgroup, and the filters of a block of channels, are split into parts in the L2 cache.
    """

    kind = "matrix-unit"

    @property
    def summed_block(self) -> int:
        """A sixth of a tile's channels: these are summed by themselves, six times, and added to those before,
        which is what rounds most."""
        return TILE_CHANNELS // len(PRODUCTS)

    @property
    def part_products(self) -> Sequence[tuple[int, int]]:
        return PRODUCTS

    def panel_element_bytes(self, shape: ConvolutionShape) -> int:
        return shape.element_types.domain_bytes

    def workgroup_bytes(self, shape: ConvolutionShape, target: CpuTarget) -> int:
        """Parts of the input and of the filters of a block beside, and what does without the unit."""
        pixels = split_rows(shape, self.row_block) * split_columns(shape, self.pixel_block)
        inputs = pixels * self.chunks(shape) * PARTS * ROW_BYTES
        filters = self.reduction_tiles(shape) * PARTS * self.channel_tiles * TILE_BYTES
        without = direct_workgroup_bytes(shape, self.row_block, self.pixel_block, target)
        return inputs + filters + self._finishing_bytes() + without


@dataclass(frozen=True)
class HalfMatrixUnitSchedule(Bf16TileSchedule, ABC):
    """What those of the matrix unit's kernel for numbers of half precision share.

    Of filters that a single register block reads those `filter_prefetch` tiles ahead are fetched.
    """

    filter_prefetch: int = 64

    def takes_chunks_first(self, shape: ConvolutionShape) -> bool:
        """Taps read the same lines, which L1 holds."""
        return self.taps(shape) > 1


@dataclass(frozen=True)
class Bf16MatrixUnitSchedule(HalfMatrixUnitSchedule):
    """That of the matrix unit's kernel for numbers of bf16, to which those of f32 are rounded."""

    kind = "bf16-matrix-unit"

    @property
    def summed_block(self) -> int:
        """Channels of a tile: these are summed by themselves, and added to those before."""
        return TILE_CHANNELS


@dataclass(frozen=True)
class F16MatrixUnitSchedule(HalfMatrixUnitSchedule):
    """That of the same kernel for numbers of f16, each the sum of two of bf16."""

    kind = "f16-matrix-unit"

    @property
    def multiplied_type(self) -> str:
        return F16.name

    @property
    def part_products(self) -> Sequence[tuple[int, int]]:
        return F16_PRODUCTS

    @property
    def left_out_type(self) -> str:
        """The product of the lower parts is far below what a result of f16 is rounded to."""
        return BF16.name

    @property
    def summed_block(self) -> int:
        """A third of a tile's channels: these are summed three times, and added to those before."""
        return TILE_CHANNELS // len(F16_PRODUCTS)
