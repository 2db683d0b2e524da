"""The CPU kernel that makes a channels-first image channels last, or the other way round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

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
from iree.winograd.pipelines.emission.control_flow import loop, when
from iree.winograd.pipelines.emission.index import Index, ceildiv
from iree.winograd.pipelines.emission.sized_shape import product
from iree.winograd.pipelines.emission.work import Sizes, Work

BLOCK_ELEMENTS = 4096
"""Of a workgroup: what it reads and what it writes stay in L1 while it does so."""


@dataclass(frozen=True)
class ImageTransposition:
    """`N x C x H...` to `N x H... x C`; a workgroup takes all channels of neighbouring pixels of an image.

    Of small images it takes several, the shuffled channels of pixels for one. Or the other way round.
    """

    channels: int
    pixels: int | None
    """Of an image; None where they are known only at run time."""
    images: int
    """Of a workgroup."""
    target: CpuTarget
    makes_first: bool = False
    """Whether channels are last, and it makes them first."""

    @staticmethod
    def of(image: ir.RankedTensorType, target: CpuTarget) -> ImageTransposition:
        """That of `N x C x H...`, of which C is static."""
        batch, channels, *size = image.shape
        pixels = None if any(map(is_dynamic, size)) else prod(size)
        if pixels is None or is_dynamic(batch):
            return ImageTransposition(channels, pixels, 1, target)
        most = max(1, BLOCK_ELEMENTS // (channels * pixels))
        images = next(images for images in range(most, 0, -1) if batch % images == 0)
        return ImageTransposition(channels, pixels, images, target)

    @property
    def name(self) -> str:
        place = "first" if self.makes_first else "last"
        return f"winograd_channels_{place}_{self.pixels or 'any'}x{self.channels}"

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of pixels of all images."""
        return sizes.batch // self.images * self._blocks(sizes), Index(1)

    def emit(self, work: Work, image: Buffer, output: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point."""
        blocks, pixels = self._blocks(work.sizes), self._pixels(work.sizes)
        number, block = work.workgroup[0] // blocks, work.workgroup[0] % blocks
        with loop(self.images, name="image") as i:
            first_image = (number * self.images + i) * (pixels * self.channels)

            def copy(pixel: Index, count: int) -> None:
                first, last = (output, image) if self.makes_first else (image, output)
                channels = Lines(first, first_image + pixel, pixels.known or pixels)
                self._copy(channels, Lines(last, first_image + pixel * self.channels, self.channels), count)

            # The last block overlaps its neighbour rather than be cut short.
            pixel = block * self._block
            when(
                pixels.at_least(self._block),
                lambda: copy(pixel.minimum(pixels - self._block), self._block),
                lambda: self._copy_few(pixels, copy),
            )

    def _copy_few(self, pixels: Index, copy: Callable[[Index, int], None]) -> None:
        """Emits it for an image of fewer pixels than a workgroup takes, by vectors or one by one."""
        width = self.target.vector_width

        def by_vectors() -> None:
            with loop(pixels, width, "pixel") as pixel:
                copy(pixel.minimum(pixels - width), width)

        def one_by_one() -> None:
            with loop(pixels, name="pixel") as pixel:
                copy(pixel, 1)

        when(pixels.at_least(width), by_vectors, one_by_one)

    def _copy(self, channels: Lines, pixels: Lines, count: int) -> None:
        """Copies so many pixels between lines that are channels and lines that are pixels."""
        width = self.target.vector_width
        if self.makes_first:
            copy_transposed(pixels, channels, (count, self.channels), width)
            return
        is_interleaved = self.channels <= MAX_INTERLEAVED_CHANNELS and count >= width
        copy = copy_interleaved if is_interleaved else copy_transposed
        copy(channels, pixels, (self.channels, count), width)

    def _pixels(self, sizes: Sizes) -> Index:
        return product(sizes.spatial("input")) if self.pixels is None else Index(self.pixels)

    @property
    def _block(self) -> int:
        """Pixels of a workgroup: whole vectors, but for images smaller than one."""
        width = self.target.vector_width
        block = max(1, BLOCK_ELEMENTS // self.channels // width) * width
        return block if self.pixels is None else min(self.pixels, block)

    def _blocks(self, sizes: Sizes) -> Index:
        return ceildiv(self._pixels(sizes), self._block)
