"""Where a workgroup of the direct kernel reads its input: in the image, or in a copy of what it needs."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.index import Index, IndexLike, unflatten
from iree.winograd.pipelines.problems.shape import ConvolutionShape


@dataclass(frozen=True)
class DirectInput:
    """An image, or the copy of what a workgroup needs of it, and how far apart what is read lies there."""

    shape: ConvolutionShape
    buffer: Buffer
    tap_strides: list[IndexLike]
    """Elements from one outer tap to the next, per outer dimension; in a copy one for all of them."""
    last_tap_stride: IndexLike
    """The same of the last dimension."""
    pixel_stride: IndexLike
    """The same from what one output reads to what the next one does."""
    is_copy: bool

    @staticmethod
    def in_place(shape: ConvolutionShape, image: Buffer) -> DirectInput:
        """N x H... x C."""
        dilations = shape.decomposition.dilation[:-1]
        strides = [dilation * image.stride(1 + d) for d, dilation in enumerate(dilations)]
        return DirectInput(shape, image, strides, *_last_strides(shape, image), is_copy=False)

    @staticmethod
    def of_staged_rows(shape: ConvolutionShape, rows: Buffer) -> DirectInput:
        """What `Staging` has copied."""
        return DirectInput(shape, rows, [rows.stride(1)], *_last_strides(shape, rows), is_copy=True)

    @staticmethod
    def of_patches(shape: ConvolutionShape, patches: Buffer) -> DirectInput:
        """What `Patches` has copied."""
        strides = [patches.stride(0)]
        return DirectInput(shape, patches, strides, shape.input_channels, patches.stride(1), is_copy=True)

    def origin(self, number: Index, position: tuple[Index, ...], row: Index, pixel: Index) -> Index:
        """The first element that outputs of image `number` from `position` on read, of it or of staged rows.

        `row` and `pixel` are theirs within the workgroup's outputs.
        """
        steps = self.shape.decomposition.step
        if self.is_copy:
            return self.buffer.offset([row, 0, pixel * steps[-1], 0])
        coordinates = [
            output * step - low
            for output, step, low in zip(position, steps, self.shape.padding_low, strict=True)
        ]
        return self.buffer.offset([number, *coordinates, 0])

    def tap_offset(self, tap_row: Index) -> Index:
        """Elements from the first row of taps to another one."""
        if len(self.tap_strides) == 1:
            return tap_row * self.tap_strides[0]
        offset = Index(0)
        taps = unflatten(tap_row, self.shape.decomposition.kernel_size[:-1])
        for coordinate, stride in zip(taps, self.tap_strides, strict=True):
            offset = offset + coordinate * stride
        return offset


def _last_strides(shape: ConvolutionShape, rows: Buffer) -> tuple[IndexLike, IndexLike]:
    """From one tap of the last dimension to the next, and from one output, of rows as images have."""
    decomposition, column = shape.decomposition, rows.stride(-2)
    return decomposition.dilation[-1] * column, decomposition.step[-1] * column
