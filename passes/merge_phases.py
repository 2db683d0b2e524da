"""Rewrite transposed convolutions of long strides to convolutions whose output channels are the phases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.constants import resource_constant
from iree.winograd.passes.build.convolution import build_convolution
from iree.winograd.passes.build.generic import build_sum
from iree.winograd.passes.build.groups import merged, split
from iree.winograd.passes.build.phase_image import phase_image
from iree.winograd.passes.build.slices import extracted
from iree.winograd.passes.build.tensors import size_of, zero_filled
from iree.winograd.passes.build.transpositions import transposed
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_applied, remark_left
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.passes.match.convolutions.transposed_convolution import (
    DimensionPhase,
    TransposedConvolution,
    match_transposed,
)
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.values.constants import Array, constant_array, is_zero
from iree.winograd.passes.rewrite.erasure import erase_if_unused

PASS_NAME = "winograd-merge-phases"

MIN_STRIDE = 16
"""From which a single product is faster than one for each phase, and compiles faster."""
_IMAGE, _FILTER = "n0c", "0cf"


@register_pass(PASS_NAME)
class MergePhases:
    """Rewrite transposed convolutions of long strides to convolutions whose output channels are the phases.

    A transposed convolution of stride s, an inverse Fourier transform of overlapping frames for example, adds
    frames of taps at every s-th output. An output meets every s-th tap, ceil(taps / s) of them at most, and
    its s - 1 neighbours others of the same elements of the image: these s outputs are channels of a
    convolution of the image with so few taps,

        out[s*q + phase] = sum over k of  image[q + offset + k] * filter[base + s*k - phase]

    where taps that don't exist are zero. That is one product of matrices, where `winograd-split-transposed`
    makes a convolution for each phase. Rewritten are those in one dimension, without groups, whose stride is
    at least 16 and whose filter is a constant. Where fewer taps result, outputs are computed from some before
    the first one on.

        %z = tensor.insert_slice %x into %zeros[0, 0, 399] [1, 402, 50] [1, 1, 160] : tensor<1x402x8638xf32>
        %r = linalg.conv_1d_ncw_fcw ins(%z, %w : ..., tensor<1x402x400xf32>) outs(%y : tensor<1x1x8239xf32>)
      becomes
        %p = tensor.pad %x low[0, 0, 2] high[0, 0, 2]
        %t = linalg.transpose ins(%p : tensor<1x402x54xf32>) permutation = [0, 2, 1]
        %q = linalg.generic ins(%t, %phases : ..., tensor<3x402x160xf32>) outs(%zeros : tensor<1x52x160xf32>)
        %m = tensor.collapse_shape %q : tensor<1x52x160xf32> into tensor<1x8320xf32>
        %r = tensor.extract_slice %m[0, 0] [1, 8239] [1, 1]
    """

    def run(self, module: ir.Operation) -> None:
        rewrite_each("convolution", list(convolutions(module)), _merge)


@dataclass(frozen=True)
class _Window:
    """What the outputs `s*q + phase - skipped` of all phases read: `taps` elements from `q + offset` on."""

    skipped: int
    offset: int
    taps: int
    base: int
    """The tap that phase 0 multiplies with the first of these elements."""

    @staticmethod
    def of(transposed_: TransposedConvolution) -> _Window:
        """The one of fewest taps, that skips as few outputs as possible."""
        (stride,), (start,) = transposed_.strides, transposed_.starts
        (kernel,) = transposed_.convolution.kernel_size

        def window(skipped: int) -> _Window:
            first = start + skipped
            offset = -(first // stride)
            last = (stride - 1 + kernel - 1 - first) // stride
            return _Window(skipped, offset, last - offset + 1, first + stride * offset)

        return min(map(window, range(stride)), key=lambda each: (each.taps, each.skipped))


def _merge(operation: ir.Operation) -> None:
    matched = match_transposed(operation)
    if not isinstance(matched, TransposedConvolution) or not _is_long(matched):
        return
    if not _reads_image(matched):
        return
    filters = constant_array(matched.convolution.filter)
    if filters is None:
        remark_left(PASS_NAME, NoMatch(operation, "its filter is not a constant"))
        return
    with operation.location, ir.InsertionPoint(operation):
        result = _build(matched, filters)
        if not is_zero(matched.convolution.init):
            result = build_sum([result, matched.convolution.init])
    remark_applied(operation, PASS_NAME, "the phases of a transposed convolution became channels of one")
    operation.results[0].replace_all_uses_with(result)
    erase_if_unused([operation])


def _is_long(matched: TransposedConvolution) -> bool:
    """Whether this is of one dimension, without groups, of a long stride, that its filter reaches."""
    convolution = matched.convolution
    if convolution.spatial_rank != 1 or convolution.groups != 1 or convolution.dilations != (1,):
        return False
    if any(len(layout) != len(_IMAGE) for layout in _layouts(matched)):
        return False
    return MIN_STRIDE <= matched.strides[0] <= convolution.kernel_size[0]


def _reads_image(matched: TransposedConvolution) -> bool:
    """Whether the outputs read anything but padding."""
    phase = _phase(matched, _Window.of(matched))
    length = matched.convolution.input_layout.index("0")
    return phase.offset < matched.image.type.shape[length] and phase.read_end > 0


def _phase(matched: TransposedConvolution, window: _Window) -> DimensionPhase:
    """What all phases read together, as one."""
    (stride,), (outputs,) = matched.strides, matched.convolution.output_size
    of_phase = ceil_div(outputs + window.skipped, stride)
    return DimensionPhase(0, of_phase, window.offset, window.base, stride, window.taps, 1)


def _layouts(matched: TransposedConvolution) -> tuple[str, str, str]:
    convolution = matched.convolution
    return convolution.input_layout, convolution.filter_layout, convolution.output_layout


def _build(matched: TransposedConvolution, filters: Array) -> ir.Value:
    """The outputs, in the layout that the convolution has them in."""
    input_layout, filter_layout, output_layout = _layouts(matched)
    window, (stride,) = _Window.of(matched), matched.strides
    (outputs,) = matched.convolution.output_size
    phase = _phase(matched, window)
    image = phase_image(matched, [phase])
    image = transposed(image, [input_layout.index(letter) for letter in _IMAGE])
    taps = filters.transpose([filter_layout.index(letter) for letter in _FILTER])
    channels = taps.shape[-1]
    weights = resource_constant(_by_phase(taps, window, stride), "phase_filter")
    sizes = [size_of(image, 0), phase.outputs, stride * channels]
    init = zero_filled(sizes, matched.convolution.element_type)
    phases = build_convolution((_IMAGE, _FILTER, "n0f"), [1], [1], (image, weights, init))
    line = merged(split(phases, 2, (stride, channels)), 1)
    line = extracted(line, [0, window.skipped, 0], [size_of(image, 0), outputs, channels])
    return transposed(line, ["n0f".index(letter) for letter in output_layout])


def _by_phase(taps: Array, window: _Window, stride: int) -> Array:
    """The filter of all phases, window.taps x C x (phases * F), of one that is taps x C x F."""
    kernel, inputs, channels = taps.shape
    tap = window.base + stride * np.arange(window.taps)[:, None] - np.arange(stride)
    exists = (tap >= 0) & (tap < kernel)
    chosen = np.where(exists[..., None, None], taps[np.clip(tap, 0, kernel - 1)], 0)
    by_phase: Array = chosen.swapaxes(1, 2).reshape(window.taps, inputs, stride * channels)
    return by_phase
