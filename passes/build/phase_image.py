"""Images as phases of transposed convolutions read them."""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.build.groups import split
from iree.winograd.passes.build.slices import extracted, padded
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.match.convolutions.transposed_convolution import (
    DimensionPhase,
    TransposedConvolution,
)
from iree.winograd.passes.match.groups import merged_layout
from iree.winograd.passes.match.sizes import is_dynamic


def phase_image(transposed: TransposedConvolution, phase: Sequence[DimensionPhase]) -> ir.Value:
    """What the phase reads of the image, padded with zeros or cropped."""
    convolution, image = transposed.convolution, transposed.image
    layout = merged_layout(convolution.input_layout)
    shape = list(image.type.shape)
    low, high, start = [0] * len(shape), [0] * len(shape), [0] * len(shape)
    for d, dimension in enumerate(phase):
        axis, size = layout.index(str(d)), transposed.image_size[d]
        start[axis] = max(0, dimension.offset)
        end = min(size, dimension.read_end)
        low[axis], high[axis] = max(0, -dimension.offset), max(0, dimension.read_end - size)
        if not is_dynamic(shape[axis]):
            shape[axis] = end - start[axis]
    if shape != list(image.type.shape):
        sizes = [size_of(image, axis) if is_dynamic(size) else size for axis, size in enumerate(shape)]
        image = extracted(image, start, sizes)
    if any(low) or any(high):
        image = _padded_with_zeros(image, low, high)
    if layout == convolution.input_layout:
        return image
    groups = convolution.groups
    return split(image, layout.index("g"), (groups, convolution.input_channels // groups))


def _padded_with_zeros(value: ir.Value, low: list[int], high: list[int]) -> ir.Value:
    value_type = ir.RankedTensorType(value.type)
    shape = [
        size if is_dynamic(size) else before + size + after
        for before, size, after in zip(low, value_type.shape, high, strict=True)
    ]
    return padded(value, shape, low, high, arith.constant(value_type.element_type, 0.0))
