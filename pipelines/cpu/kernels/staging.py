"""Copies of the input that direct kernels read instead of the image: between zeros, rows apart."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.processor.transposition import Lines, copy_interleaved
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule, column_padding, input_columns
from iree.winograd.pipelines.emission.buffer import Buffer, clear_elements, copy_elements
from iree.winograd.pipelines.emission.control_flow import loop, when
from iree.winograd.pipelines.emission.index import Condition, Index, all_of, unflatten
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .output_blocks import OutputBlock


@dataclass(frozen=True)
class Staging:
    """The copy of the input of a block of outputs: what one row of taps reads, for each row of outputs and
    each outer tap, zeros where the convolution pads.
    """

    sized: SizedShape
    schedule: DirectSchedule
    target: CpuTarget

    @property
    def shape(self) -> ConvolutionShape:
        return self.sized.shape

    @property
    def extents(self) -> tuple[int, int, int, int]:
        """Of the memory that it takes: rows x outer taps x columns x (C, padded)."""
        return (
            self.schedule.row_block,
            prod(self.shape.decomposition.kernel_size[:-1]),
            self._columns,
            self.shape.input_channels + column_padding(self.shape),
        )

    def emit(self, image: Buffer, outputs: OutputBlock, staged: Buffer) -> None:
        """Emits the copy of N x H... x C, or N x C x H..., to memory of `extents`."""
        decomposition = self.shape.decomposition
        outer_taps = decomposition.kernel_size[:-1]
        first_column = outputs.first_pixel * decomposition.step[-1] - self.shape.padding_low[-1]
        begin = (Index(0) - first_column).maximum(0).minimum(self._columns)
        end = (self.sized.input_size[-1] - first_column).minimum(self._columns).maximum(begin)
        with loop(outputs.rows, name="row") as row, loop(prod(outer_taps), name="tap") as tap:
            output_row = unflatten(outputs.first_row + row, self.sized.output_size[:-1])
            position, exists = input_row(self.sized, output_row, unflatten(tap, outer_taps))
            target = staged.offset([row, tap, 0, 0])
            when(
                exists,
                lambda: self._copy_row(
                    image,
                    self._place(image, outputs.number, [*position, first_column + begin]),
                    staged,
                    target,
                    begin,
                    end,
                ),
                lambda: self._clear(staged, target, Index(staged.stride(1))),
            )

    def _place(self, image: Buffer, number: Index, position: list[Index]) -> Index:
        """The first channel of a pixel."""
        if self.shape.input_channels_first:
            return image.offset([number, 0, *position])
        return image.offset([number, *position, 0])

    def _copy_row(
        self,
        image: Buffer,
        source: Index,
        staged: Buffer,
        target: Index,
        begin: Index,
        end: Index,
    ) -> None:
        """Copies the columns from `begin` to `end`, which start at `source` of the image, between zeros."""
        stride = staged.stride(2)
        self._clear(staged, target, begin * stride)
        self._copy_columns(image, source, staged, target, begin, end)
        self._clear(staged, target + end * stride, (Index(self._columns) - end) * stride)

    def _copy_columns(
        self, image: Buffer, source: Index, staged: Buffer, target: Index, begin: Index, end: Index
    ) -> None:
        channels, width = self.shape.input_channels, self.target.vector_width
        if self.shape.input_channels_first:
            lines = Lines(image, source, image.stride(1))
            pixels = Lines(staged, target + begin * channels, channels)
            copy_interleaved(lines, pixels, (channels, end - begin), width)
            return
        stride, source_stride = staged.stride(2), image.stride(-2)
        if stride == source_stride == channels:
            rest = (end - begin) * channels
            copy_elements(image, source, staged, target + begin * channels, rest, width)
            return
        with loop(end - begin, name="column") as column:
            copied = target + (begin + column) * stride
            copy_elements(image, source + column * source_stride, staged, copied, Index(channels), width)

    def _clear(self, staged: Buffer, first: Index, count: Index) -> None:
        clear_elements(staged, first, count, self.target.vector_width)

    @property
    def _columns(self) -> int:
        return input_columns(self.shape, self.schedule.pixel_block)


def input_row(
    sized: SizedShape, output_row: tuple[Index, ...], tap: tuple[Index, ...]
) -> tuple[list[Index], Condition]:
    """The outer input coordinates of an outer tap of a row of outputs, and whether they exist."""
    decomposition = sized.decomposition
    position, conditions = [], []
    for d, (output, tap_index) in enumerate(zip(output_row, tap, strict=True)):
        coordinate = (
            output * decomposition.step[d] + tap_index * decomposition.dilation[d] - sized.padding_low[d]
        )
        position.append(coordinate)
        conditions.append(coordinate.within(sized.input_size[d]))
    return position, all_of(conditions)
