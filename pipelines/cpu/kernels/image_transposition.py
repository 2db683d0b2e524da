"""The CPU kernel that makes a channels-first image channels last, or the other way round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.convolutions.element_types import element_bytes
from iree.winograd.passes.match.layouts.image_layout import to_channels_first
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.processor.transposition import (
    EXCHANGED_HALVES,
    MAX_INTERLEAVED_CHANNELS,
    Lines,
    LineSource,
    copy_interleaved,
    copy_transposed,
)
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop, when
from iree.winograd.pipelines.emission.index import Index, ceildiv
from iree.winograd.pipelines.emission.numbers.bits import HALF_BITS
from iree.winograd.pipelines.emission.sized_shape import product
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.machines.units import KIBIBYTE

BLOCK_BYTES = 16 * KIBIBYTE
"""Of a workgroup: what it reads and what it writes stay in L1 while it does so."""


@dataclass(frozen=True)
class RegisterBlock:
    """What registers hold at once: so many lines, the elements of a vector that is written, of `length`."""

    lines: int
    length: int

    @staticmethod
    def of(element_bytes: int, target: CpuTarget) -> RegisterBlock:
        """That of elements of so many bytes, 2 or 4."""
        width = target.vector_width
        if element_bytes == 2:
            return RegisterBlock(2 * width, EXCHANGED_HALVES)
        return RegisterBlock(width, width)


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
    element: str = "f32"
    """MLIR's name of its type. Those of half precision are moved as bits."""
    makes_first: bool = False
    """Whether channels are last, and it makes them first."""

    @staticmethod
    def of(image: ir.RankedTensorType, target: CpuTarget, *, makes_first: bool = False) -> ImageTransposition:
        """That of `N x C x H...`, or of `N x H... x C`, of which C is static."""
        order = to_channels_first(image.rank) if makes_first else range(image.rank)
        batch, channels, *size = (image.shape[dimension] for dimension in order)
        pixels = None if any(map(is_dynamic, size)) else prod(size)
        kernel = ImageTransposition(channels, pixels, 1, target, str(image.element_type), makes_first)
        if pixels is None or is_dynamic(batch):
            return kernel
        most = max(1, kernel._most_elements // (channels * pixels))
        images = next(images for images in range(most, 0, -1) if batch % images == 0)
        return replace(kernel, images=images)

    @property
    def name(self) -> str:
        place = "first" if self.makes_first else "last"
        return f"winograd_channels_{place}_{self.pixels or 'any'}x{self.channels}"

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of pixels of all images."""
        return sizes.batch // self.images * self._blocks(sizes), Index(1)

    def emit(self, work: Work, image: Buffer, output: Buffer) -> None:
        """Emits the work of one workgroup at the insertion point."""
        image, output = (each.with_numbers({**each.numbers, **HALF_BITS}) for each in (image, output))
        first, last = (output, image) if self.makes_first else (image, output)
        pixels = self._pixels(work.sizes)

        def copy(number: Index, pixel: Index, count: int) -> None:
            channels = Lines(first, number * (pixels * self.channels) + pixel, pixels.known or pixels)
            pixel_lines = Lines(last, (number * pixels + pixel) * self.channels, self.channels)
            if self.makes_first:
                self._copy_first(pixel_lines, channels, count)
            else:
                self._copy_last(channels, pixel_lines, count)

        self._for_each_block(work, copy)

    def emit_computed(
        self, work: Work, pixel_lines: Callable[[Index, Index], LineSource], output: Buffer
    ) -> None:
        """The same where the lines of an image's pixels, from one on, are what `pixel_lines` says."""
        pixels = self._pixels(work.sizes)

        def copy(number: Index, pixel: Index, count: int) -> None:
            channels = Lines(output, number * (pixels * self.channels) + pixel, pixels.known or pixels)
            self._copy_first(pixel_lines(number, pixel), channels, count)

        self._for_each_block(work, copy)

    def _for_each_block(self, work: Work, copy: Callable[[Index, Index, int], None]) -> None:
        """Has `copy` move all pixels of a workgroup: of an image, from a pixel on, so many."""
        blocks, pixels = self._blocks(work.sizes), self._pixels(work.sizes)
        number, block = work.workgroup[0] // blocks, work.workgroup[0] % blocks
        with loop(self.images, name="image") as i:
            copy_of = partial(copy, number * self.images + i)
            # The last block overlaps its neighbour rather than be cut short.
            pixel = block * self._block
            when(
                pixels.at_least(self._block),
                lambda: copy_of(pixel.minimum(pixels - self._block), self._block),
                lambda: self._copy_few(pixels, copy_of),
            )

    def _copy_few(self, pixels: Index, copy: Callable[[Index, int], None]) -> None:
        """Emits it for an image of fewer pixels than a workgroup takes, by vectors or one by one."""
        width = min(self._registers.lines, self._registers.length)

        def by_vectors() -> None:
            with loop(pixels, width, "pixel") as pixel:
                copy(pixel.minimum(pixels - width), width)

        def one_by_one() -> None:
            with loop(pixels, name="pixel") as pixel:
                copy(pixel, 1)

        when(pixels.at_least(width), by_vectors, one_by_one)

    def _copy_first(self, pixels: LineSource, channels: Lines, count: int) -> None:
        """Copies so many lines that are pixels to lines that are channels."""
        block = self._registers
        copy_transposed(pixels, channels, (count, self.channels), block.lines, longest=block.length)

    def _copy_last(self, channels: Lines, pixels: Lines, count: int) -> None:
        """Copies lines that are channels to so many lines that are pixels."""
        block = self._registers
        if self.channels <= MAX_INTERLEAVED_CHANNELS and count >= block.length:
            copy_interleaved(channels, pixels, (self.channels, count), block.length)
        else:
            copy_transposed(channels, pixels, (self.channels, count), block.lines, longest=block.length)

    def _pixels(self, sizes: Sizes) -> Index:
        return product(sizes.spatial("output")) if self.pixels is None else Index(self.pixels)

    @property
    def _registers(self) -> RegisterBlock:
        return RegisterBlock.of(element_bytes(self.element), self.target)

    @property
    def _most_elements(self) -> int:
        """Of a workgroup."""
        return BLOCK_BYTES // element_bytes(self.element)

    @property
    def _block(self) -> int:
        """Pixels of a workgroup: whole vectors, but for images smaller than one."""
        width = max(self._registers.lines, self._registers.length)
        block = max(1, self._most_elements // self.channels // width) * width
        return block if self.pixels is None else min(self.pixels, block)

    def _blocks(self, sizes: Sizes) -> Index:
        return ceildiv(self._pixels(sizes), self._block)
