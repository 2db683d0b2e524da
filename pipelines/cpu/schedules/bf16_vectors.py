"""The schedule of the kernel that multiplies vectors of pairs of bf16."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.pipelines.cpu.processor.matrix_unit import ROW_BYTES
from iree.winograd.pipelines.cpu.processor.product import RegisterBlock
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .tiled import Bf16TileSchedule


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
