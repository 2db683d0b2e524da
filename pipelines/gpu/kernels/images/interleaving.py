"""The GPU kernel that takes channels of images in turns, as a channel shuffle does with its groups."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer, quad_of, thread_id

from .channel_range import ChannelRange

INTERLEAVING_THREADS = 256


@dataclass(frozen=True)
class InterleavingKernel:
    """`pixels x channels x parts` of as many channels of each part. A thread takes a quad of neighbours.

    The parts are of an image each if these divide a quad, so that which one a thread reads is known, and else
    neighbouring channels of one image.
    """

    pixels: int
    channels: int
    parts: int
    ranges: tuple[ChannelRange, ...]
    """Of each image that is read, from its part's first channel on."""

    @property
    def name(self) -> str:
        return f"winograd_interleave_{self.pixels}x{self.parts}x{self.channels}"

    @property
    def fits(self) -> bool:
        """Whether there are whole quads, in each of which parts of several images come in the same order."""
        if len(self.ranges) > 1:
            return QUAD % self.parts == 0 and self._row % QUAD == 0
        return self.pixels * self._row % QUAD == 0

    def workgroups(self, sizes: Sizes) -> tuple[Index]:
        """Blocks of quads of the result."""
        return (Index(ceil_div(self._quads, INTERLEAVING_THREADS)),)

    def emit(self, work: Work, *images_and_output: GlobalBuffer) -> None:
        """Emits the work of one workgroup."""
        *images, output = images_and_output
        number, exists = work.workgroup[0] * INTERLEAVING_THREADS + thread_id(), Condition(True)
        if self._quads % INTERLEAVING_THREADS:
            number, exists = number.minimum(self._quads - 1), number.less_than(self._quads)
        place = number * QUAD
        output.store(quad_of([self._load(images, place, i) for i in range(QUAD)]), place, exists)

    def _load(self, images: list[GlobalBuffer], place: Index, element: int) -> ir.Value:
        """An element of the quad of the result from `place` on."""
        if len(images) > 1:
            pixel, channel = place // self._row, place % self._row // self.parts
            part = element % self.parts
            own = self.ranges[part]
            return images[part].load_scalar(pixel * own.row + channel + (own.first + element // self.parts))
        (own,) = self.ranges
        place = place + element
        pixel, number = place // self._row, place % self._row
        offset = number % self.parts * self.channels + number // self.parts
        return images[0].load_scalar(pixel * own.row + offset + own.first)

    @property
    def _row(self) -> int:
        return self.parts * self.channels

    @property
    def _quads(self) -> int:
        return self.pixels * self._row // QUAD
