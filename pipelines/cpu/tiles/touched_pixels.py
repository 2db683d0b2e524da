"""Which pixels of images a workgroup touches: what it reads other workgroups must have written before.

Pixels are numbered row-major over images and spatial dimensions, those of a batch one image after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.pipelines.problems.shape import ConvolutionShape


@dataclass(frozen=True)
class ImageRow:
    """Row `row`, along the first spatial dimension, of image `number`."""

    number: int
    row: int

    def pixel(self, size: tuple[int, ...]) -> int:
        """The first one of it, or of the nearest row that there is, in images of this size."""
        row = min(max(self.row, 0), size[0] - 1)
        return (self.number * size[0] + row) * prod(size[1:])


@dataclass(frozen=True)
class TouchedPixels:
    """From the first to the last pixel that a workgroup reads of its image, and writes."""

    read: range
    written: range


def read_pixels(shape: ConvolutionShape, outputs: range) -> range:
    """The pixels that outputs are computed from, among which may be others."""
    one = (1,) * shape.spatial_rank
    is_pointwise = (shape.kernel_size, shape.strides) == (one, one)
    if is_pointwise and not shape.pads and shape.output_size == shape.input_size:
        return outputs
    rows, inner = shape.output_size[0], prod(shape.output_size[1:])
    first, last = (ImageRow(*divmod(each // inner, rows)) for each in (outputs.start, outputs.stop - 1))
    return read_by_rows(shape, first, last)


def read_by_rows(shape: ConvolutionShape, first: ImageRow, last: ImageRow) -> range:
    """The same of the outputs from one row to another, which may be past those of its image."""
    stride, low = shape.strides[0], shape.padding_low[0]
    last_tap = (shape.kernel_size[0] - 1) * shape.dilations[0]
    begin = ImageRow(first.number, first.row * stride - low)
    end = ImageRow(last.number, last.row * stride - low + last_tap)
    return range(begin.pixel(shape.input_size), end.pixel(shape.input_size) + prod(shape.input_size[1:]))
