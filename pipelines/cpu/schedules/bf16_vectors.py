"""The schedule of the kernel that multiplies vectors of pairs of bf16."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.processor.matrix_unit import ROW_BYTES
from iree.winograd.pipelines.cpu.processor.product import RegisterBlock
from iree.winograd.pipelines.emission.numbers.bf16 import BF16
from iree.winograd.pipelines.problems.cache_line import L1_WAY_BYTES
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .tiled import Bf16TileSchedule, merged_taps

_L1_WAYS = 8
"""Of Zen's processors."""


@dataclass(frozen=True)
class Bf16VectorSchedule(Bf16TileSchedule):
    """That of the kernel on vectors: a register block is one tile of pixels, in vector registers.

    So `pixel_tiles` and `row_tiles` are 1, and `tile_pixels` as many as registers hold.
    """

    kind = "bf16-vectors"

    def joins_open_rows(self, shape: ConvolutionShape) -> bool:
        """A register block has outputs of a row alone."""
        return False

    @property
    def summed_block(self) -> int | None:
        """Sums run on."""
        return None

    @property
    def product(self) -> RegisterBlock:
        """The block of sums."""
        return RegisterBlock(self.tile_pixels, self.channel_tiles, self.vector_width, filter_prefetch=1)

    def _finishing_bytes(self) -> int:
        """Sums that wait for functions of the epilogue."""
        return self.tile_pixels * self.channel_tiles * ROW_BYTES

    def pairs(self, shape: ConvolutionShape) -> int:
        """Pairs of the reduction dimension that are multiplied: none of those that fill up a tile."""
        return self.taps(shape) * ceil_div(merged_taps(shape) * shape.input_channels, 2)

    def takes_channels(self, shape: ConvolutionShape) -> bool:
        """Whether channels of an image are multiplied where they are: in pairs, if L1 holds a line of each
        pixel of a register block. Those of 2048 channels share a set, and would be read from L2 for each
        pair.
        """
        step = shape.strides[-1] * shape.input_channels * BF16.bytes
        lines = _L1_WAYS * (L1_WAY_BYTES // gcd(step, L1_WAY_BYTES))
        return shape.input_channels % 2 == 0 and merged_taps(shape) == 1 and self.tile_pixels <= lines
