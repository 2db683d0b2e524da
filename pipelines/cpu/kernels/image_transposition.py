"""The CPU kernel that makes a channels-first image channels last."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.processor.transposition import Lines, copy_interleaved, copy_transposed
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.index import Index

BLOCK_ELEMENTS = 4096
"""Of a workgroup: what it reads and what it writes stay in L1 while it does so."""
MAX_INTERLEAVED_CHANNELS = 3
"""Of an image whose pixels are written by whole vectors; each channel more is one more shuffle of each."""


@dataclass(frozen=True)
class ImageTransposition:
    """`N x C x H...` to `N x H... x C`; a workgroup takes all channels of neighbouring pixels of an image."""

    channels: int
    pixels: int
    """Of an image."""
    target: CpuTarget

    @staticmethod
    def of(image: ir.RankedTensorType, target: CpuTarget) -> ImageTransposition:
        """That of `N x C x H...`, of which only N may be dynamic."""
        _, channels, *size = image.shape
        return ImageTransposition(channels, prod(size), target)

    @property
    def name(self) -> str:
        return f"winograd_channels_last_{self.pixels}x{self.channels}"

    def workgroups(self, batch: Index) -> tuple[Index, Index]:
        """Blocks of pixels of all images."""
        return batch * self._blocks, Index(1)

    def emit(self, workgroup: tuple[Index, ...], image: Buffer, output: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point."""
        number, block = workgroup[0] // self._blocks, workgroup[0] % self._blocks
        # The last block overlaps its neighbour rather than be cut short.
        pixel = (block * self._block).minimum(self.pixels - self._block)
        first_image = number * (self.channels * self.pixels)
        source = Lines(image, first_image + pixel, self.pixels)
        target = Lines(output, first_image + pixel * self.channels, self.channels)
        extents, width = (self.channels, self._block), self.target.vector_width
        if self.channels <= MAX_INTERLEAVED_CHANNELS and self._block >= width:
            copy_interleaved(source, target, extents, width)
        else:
            copy_transposed(source, target, extents, width)

    @property
    def _block(self) -> int:
        """Pixels of a workgroup: whole vectors, but for images smaller than one."""
        width = self.target.vector_width
        return min(self.pixels, max(1, BLOCK_ELEMENTS // self.channels // width) * width)

    @property
    def _blocks(self) -> int:
        return -(-self.pixels // self._block)
