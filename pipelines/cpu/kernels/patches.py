"""What outputs of short rows read of the image, side by side: an implicit product over all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.processor.transposition import Lines, copy_interleaved
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule, patch_elements, patch_pixels
from iree.winograd.pipelines.emission.buffer import Buffer, clear_elements, copy_elements
from iree.winograd.pipelines.emission.control_flow import loop, when
from iree.winograd.pipelines.emission.index import Index, unflatten
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .staging import input_row


@dataclass(frozen=True)
class Patches:
    """A copy of what outputs read, those of a row behind those of the row before: outer taps x outputs x
    (taps of the last dimension x C, padded), zeros where the convolution pads.

    A register block then has neighbours of several rows, where rows are shorter than it, or would leave much
    of their last one empty.
    """

    sized: SizedShape
    schedule: DirectSchedule
    target: CpuTarget

    @property
    def shape(self) -> ConvolutionShape:
        return self.sized.shape

    @property
    def extents(self) -> tuple[int, int, int]:
        """Of the memory that it takes."""
        outer_taps = prod(self.shape.decomposition.kernel_size[:-1])
        return outer_taps, patch_pixels(self.shape, self.schedule), patch_elements(self.shape)

    def emit(self, image: Buffer, number: Index, first: Index, count: Index, patches: Buffer) -> None:
        """Emits the copy of N x H... x C, or N x C x H..., for `count` outputs of image `number`, numbered
        row-major, from `first` on."""
        outer_taps = self.shape.decomposition.kernel_size[:-1]
        with loop(count, name="patch") as pixel:
            *row, column = unflatten(first + pixel, self.sized.output_size)
            with loop(prod(outer_taps), name="tap") as tap:
                position, exists = input_row(self.sized, tuple(row), unflatten(tap, outer_taps))
                origin, target = self._row(image, number, position), patches.offset([tap, pixel, 0])
                when(
                    exists,
                    partial(self._copy, image, origin, column, patches, target),
                    partial(self._clear, patches, target, Index(self._row_elements)),
                )

    def _row(self, image: Buffer, number: Index, position: list[Index]) -> Index:
        """The first element of a row of the image, of the first channel."""
        if self.shape.input_channels_first:
            return image.offset([number, 0, *position, 0])
        return image.offset([number, *position, 0, 0])

    def _copy(self, image: Buffer, origin: Index, column: Index, patches: Buffer, target: Index) -> None:
        """Copies what a row of taps reads for an output, of the row of the image that begins at `origin`."""
        decomposition, size = self.shape.decomposition, self.sized.input_size[-1]
        taps, dilation = decomposition.kernel_size[-1], decomposition.dilation[-1]
        channels, copy = self.shape.input_channels, partial(self._copy_pixels, image, origin, patches)
        first = column * decomposition.step[-1] - self.shape.padding_low[-1]
        if dilation == 1 and self._has_pixels_side_by_side(image):
            begin = (Index(0) - first).maximum(0).minimum(taps)
            end = (size - first).minimum(taps).maximum(begin)
            self._clear(patches, target, begin * channels)
            copy(first + begin, target + begin * channels, end - begin)
            self._clear(patches, target + end * channels, (Index(taps) - end) * channels)
            return
        with loop(taps, name="column") as tap:
            read, written = first + tap * dilation, target + tap * channels
            when(
                read.within(size),
                partial(copy, read, written, Index(1)),
                partial(self._clear, patches, written, Index(channels)),
            )

    def _has_pixels_side_by_side(self, image: Buffer) -> bool:
        """Whether all that neighbours in a row have lies side by side, or an element of all of them does."""
        return self.shape.input_channels_first or image.stride(-2) == self.shape.input_channels

    def _copy_pixels(
        self, image: Buffer, origin: Index, patches: Buffer, column: Index, target: Index, count: Index
    ) -> None:
        """Copies neighbours in a row from `column` on, of which there is one where they lie apart."""
        channels, width = self.shape.input_channels, self.target.vector_width
        if self.shape.input_channels_first:
            lines = Lines(image, origin + column, image.stride(1))
            copy_interleaved(lines, Lines(patches, target, channels), (channels, count), width)
            return
        source = origin + column * image.stride(-2)
        copy_elements(image, source, patches, target, count * channels, width)

    def _clear(self, patches: Buffer, first: Index, count: Index) -> None:
        clear_elements(patches, first, count, self.target.vector_width)

    @property
    def _row_elements(self) -> int:
        return self.shape.decomposition.kernel_size[-1] * self.shape.input_channels
