"""The CPU kernel that makes a channels-first image channels last."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.processor.transposition import (
    MAX_INTERLEAVED_CHANNELS,
    Lines,
    copy_interleaved,
    copy_transposed,
)
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.work import Sizes, Work

BLOCK_ELEMENTS = 4096
"""Of a workgroup: what it reads and what it writes stay in L1 while it does so."""


@dataclass(frozen=True)
class ImageTransposition:
    """`N x C x H...` to `N x H... x C`; a workgroup takes all channels of neighbouring pixels of an image.

    Of small images it takes several, the shuffled channels of pixels for one.
    """

    channels: int
    pixels: int
    """Of an image."""
    images: int
    """Of a workgroup."""
    target: CpuTarget

    @staticmethod
    def of(image: ir.RankedTensorType, target: CpuTarget) -> ImageTransposition:
        """That of `N x C x H...`, of which only N may be dynamic."""
        batch, channels, *size = image.shape
        most = 1 if is_dynamic(batch) else max(1, BLOCK_ELEMENTS // (channels * prod(size)))
        images = next(images for images in range(most, 0, -1) if batch % images == 0)
        return ImageTransposition(channels, prod(size), images, target)

    @property
    def name(self) -> str:
        return f"winograd_channels_last_{self.pixels}x{self.channels}"

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of pixels of all images."""
        return sizes.batch // self.images * self._blocks, Index(1)

    def emit(self, work: Work, image: Buffer, output: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point."""
        number, block = work.workgroup[0] // self._blocks, work.workgroup[0] % self._blocks
        # The last block overlaps its neighbour rather than be cut short.
        pixel = (block * self._block).minimum(self.pixels - self._block)
        extents, width = (self.channels, self._block), self.target.vector_width
        is_interleaved = self.channels <= MAX_INTERLEAVED_CHANNELS and self._block >= width
        copy = copy_interleaved if is_interleaved else copy_transposed
        with loop(self.images, name="image") as i:
            first_image = (number * self.images + i) * (self.channels * self.pixels)
            source = Lines(image, first_image + pixel, self.pixels)
            target = Lines(output, first_image + pixel * self.channels, self.channels)
            copy(source, target, extents, width)

    @property
    def _block(self) -> int:
        """Pixels of a workgroup: whole vectors, but for images smaller than one."""
        width = self.target.vector_width
        return min(self.pixels, max(1, BLOCK_ELEMENTS // self.channels // width) * width)

    @property
    def _blocks(self) -> int:
        return ceil_div(self.pixels, self._block)
