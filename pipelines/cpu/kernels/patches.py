"""What outputs of short rows read of the image, side by side: an implicit product over all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from iree.winograd.pipelines.cpu.processor.target import CpuTarget
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
        """Emits the copy of N x H... x C for `count` outputs of image `number`, numbered row-major, from
        `first` on."""
        outer_taps = self.shape.decomposition.kernel_size[:-1]
        with loop(count, name="patch") as pixel:
            *row, column = unflatten(first + pixel, self.sized.output_size)
            with loop(prod(outer_taps), name="tap") as tap:
                position, exists = input_row(self.sized, tuple(row), unflatten(tap, outer_taps))
                origin, target = image.offset([number, *position, 0, 0]), patches.offset([tap, pixel, 0])
                when(
                    exists,
                    partial(self._copy, image, origin, column, patches, target),
                    partial(self._clear, patches, target, Index(self._row_elements)),
                )

    def _copy(self, image: Buffer, origin: Index, column: Index, patches: Buffer, target: Index) -> None:
        """Copies what a row of taps reads for an output, of the row of the image that begins at `origin`."""
        decomposition, size = self.shape.decomposition, self.sized.input_size[-1]
        taps, dilation = decomposition.kernel_size[-1], decomposition.dilation[-1]
        channels, width = self.shape.input_channels, self.target.vector_width
        stride = image.stride(-2)
        first = column * decomposition.step[-1] - self.shape.padding_low[-1]
        if dilation == 1 and stride == channels:
            begin = (Index(0) - first).maximum(0).minimum(taps)
            end = (size - first).minimum(taps).maximum(begin)
            copied = (origin + (first + begin) * channels, patches, target + begin * channels)
            self._clear(patches, target, begin * channels)
            copy_elements(image, *copied, (end - begin) * channels, width)
            self._clear(patches, target + end * channels, (Index(taps) - end) * channels)
            return
        with loop(taps, name="column") as tap:
            read, written = first + tap * dilation, target + tap * channels
            when(
                read.within(size),
                lambda: copy_elements(
                    image, origin + read * stride, patches, written, Index(channels), width
                ),
                lambda: self._clear(patches, written, Index(channels)),
            )

    def _clear(self, patches: Buffer, first: Index, count: Index) -> None:
        clear_elements(patches, first, count, self.target.vector_width)

    @property
    def _row_elements(self) -> int:
        return self.shape.decomposition.kernel_size[-1] * self.shape.input_channels
