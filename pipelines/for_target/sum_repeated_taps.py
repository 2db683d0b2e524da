"""Convolve images before their pixels are repeated, by filters whose taps are summed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.constants import resource_constant
from iree.winograd.passes.build.convolution import build_convolution
from iree.winograd.passes.build.slices import inserted
from iree.winograd.passes.build.tensors import zero_filled
from iree.winograd.passes.infrastructure.algorithm import copy_annotations
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_applied
from iree.winograd.passes.match.convolutions.convolution import Convolution, match_convolution
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.passes.match.convolutions.exact_type import exact_type
from iree.winograd.passes.match.navigation import defining_operation, only_user
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.pixels.resampling import Resampling, match_resampling
from iree.winograd.passes.match.values.constants import Array, constant_array, is_zero
from iree.winograd.passes.match.values.evaluate import rounded_to_half
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.module_backend import supported_backend

PASS_NAME = "winograd-sum-repeated-taps"

_FEWEST_PIXELS = 512
"""Of the image before it is repeated: with fewer a GPU waits for filters, which have more taps in all."""
_LEAST_SAVED = 2e9
"""Multiply-adds that a GPU takes longer for than for the kernels of further phases."""


@register_pass(PASS_NAME)
class SumRepeatedTaps:
    """Convolve images before their pixels are repeated, by filters whose taps are summed, on GPUs.

    Decoders repeat each pixel s times in both dimensions, then convolve. Several taps of the filter meet the
    same pixel, and their sum is all that it is multiplied by. Pixels that are repeated are a convolution by s
    ones of the image with s - 1 zeros between its elements, so both together are a transposed convolution of
    stride s whose filter has R + s - 1 taps. `winograd-split-transposed` makes a convolution of
    ceil((R + s - 1) / s) taps of each phase: 2x2 for the 3x3 of an image at twice the size, 4/9 of the
    products, and the large image isn't there.

        %r = (%x repeated twice) : tensor<1x512x256x256xf32>
        %p = tensor.pad %r low[0, 0, 1, 1] high[0, 0, 1, 1]
        %y = linalg.conv_2d_nchw_fchw ins(%p, %w : ..., tensor<512x512x3x3xf32>)
      becomes
        %z = tensor.insert_slice %x into %zeros[0, 0, 2, 2] [1, 512, 128, 128] [1, 1, 2, 2]
        %y = linalg.generic ins(%z, %sums : tensor<1x512x259x259xf32>, tensor<512x512x4x4xf32>)

    Filters are constants. Sums of taps of half precision are rounded to it, as the products are of it: that
    is an error of the size of the result's own rounding. Small images stay, for which the filter is what a
    GPU reads, and so do such that save little.
    """

    def run(self, module: ir.Operation) -> None:
        found = list(convolutions(module))
        backend = supported_backend(module) if found else None
        if backend is not None and not backend.iree_code.vectorizes_loops:
            rewrite_each("convolution", found, _sum_taps)


@dataclass(frozen=True)
class _Repeated:
    """A convolution of an image whose pixels were repeated before it was padded."""

    convolution: Convolution
    image: ir.Value
    times: tuple[int, ...]
    """By spatial dimension."""
    low: tuple[int, ...]
    """Zeros before the first element, by spatial dimension."""

    @property
    def is_faster(self) -> bool:
        """Whether a GPU is expected to take less time for the phases of the image."""
        layout = self.convolution.input_layout
        pixels: int = prod(
            size for size, letter in zip(self.image.type.shape, layout, strict=True) if letter != "c"
        )
        taps = prod(self.convolution.kernel_size)
        summed = prod(
            ceil_div(size + times - 1, times)
            for size, times in zip(self.convolution.kernel_size, self.times, strict=True)
        )
        channels = self.convolution.input_channels * self.convolution.output_channels
        saved: int = pixels * prod(self.times) * (taps - summed) * channels
        return pixels >= _FEWEST_PIXELS and saved >= _LEAST_SAVED


def _sum_taps(operation: ir.Operation) -> None:
    repeated = _match(operation)
    filters = None if repeated is None else constant_array(repeated.convolution.filter)
    if repeated is None or filters is None or not repeated.is_faster:
        return
    convolution = repeated.convolution
    sums = _summed(filters, convolution.filter_layout, repeated.times)
    half = exact_type(convolution.input, convolution.filter)
    if half is not None:
        sums = rounded_to_half(sums, ir.F16Type.get() if half == "f16" else ir.BF16Type.get())
    if not np.isfinite(sums).all():
        return
    with operation.location, ir.InsertionPoint(operation):
        layouts = convolution.input_layout, convolution.filter_layout, convolution.output_layout
        operands = _spread(repeated), resource_constant(sums, "summed_filter"), convolution.init
        result = build_convolution(layouts, convolution.strides, convolution.dilations, operands)
    copy_annotations(operation, result.owner.operation)
    remark_applied(operation, PASS_NAME, "taps that meet the same pixel of a repeated image were summed")
    operation.results[0].replace_all_uses_with(result)
    erase_if_unused([operation])


def _match(operation: ir.Operation) -> _Repeated | None:
    convolution = match_convolution(operation)
    if isinstance(convolution, NoMatch) or convolution.unknown_sizes or convolution.groups != 1:
        return None
    layout = convolution.input_layout
    if {*convolution.strides, *convolution.dilations} != {1} or "g" in layout + convolution.filter_layout:
        return None
    spatial = [layout.index(str(dimension)) for dimension in range(convolution.spatial_rank)]
    image, low = convolution.input, [0] * len(layout)
    definition = defining_operation(image)
    if definition is not None and definition.name == "tensor.pad":
        padding = _zeros_before(definition, spatial)
        if padding is None or only_user(image) is None:
            return None
        image, low = definition.operands[0], padding
        definition = defining_operation(image)
    resampling = None if definition is None else match_resampling(definition)
    if not isinstance(resampling, Resampling) or only_user(image) is None:
        return None
    repetitions = resampling.repetitions
    if repetitions is None or not repetitions.keys() <= set(spatial):
        return None
    times = tuple(repetitions.get(dimension, 1) for dimension in spatial)
    return _Repeated(convolution, resampling.source, times, tuple(low[dimension] for dimension in spatial))


def _zeros_before(pad: ir.Operation, spatial: Sequence[int]) -> list[int] | None:
    """By dimension, if zeros are all that surrounds an image, and only there."""
    low, high = (list(pad.attributes[name]) for name in ("static_low", "static_high"))
    (element,) = pad.regions[0].blocks[0].operations[-1].operation.operands
    others = [each for each in range(len(low)) if each not in spatial]
    is_static = len(pad.operands) == 1 and min(low + high) >= 0
    return low if is_static and is_zero(element) and not any(low[d] + high[d] for d in others) else None


def _summed(filters: Array, layout: str, times: Sequence[int]) -> Array:
    """The filter, of R + s - 1 taps in each dimension, of the image with s - 1 zeros between its elements."""
    sums = filters.astype(np.float64)
    for dimension, count in enumerate(times):
        axis = layout.index(str(dimension))
        around = [(0, 0)] * sums.ndim
        shifted = []
        for first in range(count):
            around[axis] = (first, count - 1 - first)
            shifted.append(np.pad(sums, around))
        sums = np.sum(shifted, axis=0)
    return sums


def _spread(repeated: _Repeated) -> ir.Value:
    """The padded image with zeros between its elements, which the convolution of summed taps reads."""
    convolution, image = repeated.convolution, repeated.image
    sizes, shape = list(image.type.shape), list(image.type.shape)
    offsets, strides = [0] * len(sizes), [1] * len(sizes)
    for dimension, times in enumerate(repeated.times):
        place = convolution.input_layout.index(str(dimension))
        taps = convolution.kernel_size[dimension] + times - 1
        shape[place] = convolution.output_size[dimension] + taps - 1
        offsets[place], strides[place] = repeated.low[dimension] + times - 1, times
    return inserted(image, zero_filled(shape, image.type.element_type), offsets, sizes, strides)
