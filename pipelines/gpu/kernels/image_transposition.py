"""Images with their channels made last: a copy by blocks that a workgroup's threads share."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Index, all_of, ceildiv
from iree.winograd.pipelines.gpu.device.matrix_unit import WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer, SharedScalars, barrier, thread_id

TRANSPOSITION_THREADS = 256
_BLOCK_ELEMENTS = WARP_THREADS**2


@dataclass(frozen=True)
class ImageTransposition:
    """`N x C x H...` to `N x H... x C`.

    A block has as many channels and pixels as a warp has threads, or fewer channels and more pixels where
    there are no more: it is read row by row of pixels, and written row by row of channels.
    """

    channels: int
    pixels: int
    """Of an image."""

    @staticmethod
    def of(image: ir.RankedTensorType) -> ImageTransposition:
        """That of `N x C x H...`, of which only N may be dynamic."""
        _, channels, *size = image.shape
        return ImageTransposition(channels, prod(size))

    @property
    def name(self) -> str:
        return f"winograd_channels_last_{self.pixels}x{self.channels}"

    def workgroups(self, batch: Index) -> tuple[Index, Index, Index]:
        """Blocks of pixels, blocks of channels, images."""
        return ceildiv(self.pixels, self._block_pixels), ceildiv(self.channels, self._block_channels), batch

    def emit(self, workgroup: tuple[Index, ...], image: GlobalBuffer, output: GlobalBuffer) -> None:
        """Emits the work of one workgroup."""
        block_pixels, block_channels = self._block_pixels, self._block_channels
        first_pixel, first_channel = workgroup[0] * block_pixels, workgroup[1] * block_channels
        origin = workgroup[2] * (self.channels * self.pixels)
        # Behind each row is one element more: those of a column are in different banks.
        shared = SharedScalars.allocate((block_channels, block_pixels + 1), "block")
        thread = thread_id()
        for first in range(0, _BLOCK_ELEMENTS, TRANSPOSITION_THREADS):
            row, column = (thread + first) // block_pixels, (thread + first) % block_pixels
            channel = (first_channel + row).minimum(self.channels - 1)
            pixel = (first_pixel + column).minimum(self.pixels - 1)
            shared.store(image.load_scalar(origin + channel * self.pixels + pixel), [row, column])
        barrier()
        for first in range(0, _BLOCK_ELEMENTS, TRANSPOSITION_THREADS):
            column, row = (thread + first) // block_channels, (thread + first) % block_channels
            channel, pixel = first_channel + row, first_pixel + column
            exists = all_of([channel.less_than(self.channels), pixel.less_than(self.pixels)])

            def write(
                row: Index = row, column: Index = column, place: Index = pixel * self.channels + channel
            ) -> None:
                output.store_scalar(shared.load([row, column]), origin + place)

            when(exists, write)

    @property
    def _block_channels(self) -> int:
        """A power of two."""
        return min(WARP_THREADS, 1 << (self.channels - 1).bit_length())

    @property
    def _block_pixels(self) -> int:
        return _BLOCK_ELEMENTS // self._block_channels
