"""Compute pointwise convolutions of resized images before these are resized."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from math import prod

from iree.winograd.dialect.bindings import ir, linalg, tensor
from iree.winograd.passes.build.generic import build_sum
from iree.winograd.passes.build.named import build_windowed
from iree.winograd.passes.build.resampling import resampled
from iree.winograd.passes.build.slices import extracted
from iree.winograd.passes.build.tensors import zero_filled
from iree.winograd.passes.infrastructure.algorithm import ATTRIBUTE_NAME, copy_annotations
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.constants import is_known_at_load, is_zero
from iree.winograd.passes.match.convolution import Convolution, match_convolution
from iree.winograd.passes.match.convolution_form import convolutions
from iree.winograd.passes.match.navigation import defining_operation, only_user
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.resampling import Resampling, match_resampling
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.module_backend import supported_backend

_CONVOLUTION = "linalg.conv_2d_nhwc_hwcf"
_SPATIAL = {1, 2}
_CHANNELS = 3
_ELEMENT_COST = 32
"""Multiply-adds that take as long as an element of an image that is resized and added."""


@register_pass("winograd-move-resizing")
class MoveResizing:
    """Compute pointwise convolutions of resized images before these are resized, on CPUs.

    Networks for segmentation and detection resize images of several resolutions to the largest one, and mix
    their channels by a pointwise convolution. Resizing adds pixels by weights, the convolution channels: they
    may change places, and the convolution has as many pixels as there were before. Of images that are
    concatenated each gets the filter's rows of its channels; what isn't resized is concatenated as before.
    Rewritten are convolutions of channels-last images in two dimensions where this is expected to save time.

        %r = (%x resized) : tensor<1x56x56x256xf32>
        %c = tensor.concat dim(3) %y, %r : ... -> tensor<1x56x56x512xf32>
        %z = linalg.conv_2d_nhwc_hwcf ins(%c, %f : ..., tensor<1x1x512x256xf32>)
      becomes
        %g = tensor.extract_slice %f[0, 0, 0, 0] [1, 1, 256, 256]
        %h = tensor.extract_slice %f[0, 0, 256, 0] [1, 1, 256, 256]
        %d = linalg.conv_2d_nhwc_hwcf ins(%y, %g)
        %e = linalg.conv_2d_nhwc_hwcf ins(%x, %h) -> tensor<1x7x7x256xf32>
        %r = (%e resized) : tensor<1x56x56x256xf32>
        %z = linalg.generic ins(%d, %r) { arith.addf }

    An infinite pixel makes NaN of those that it has no weight in, as it does where images are resized first.
    """

    def run(self, module: ir.Operation) -> None:
        found = [each for each in convolutions(module) if each.name == _CONVOLUTION]
        backend = supported_backend(module) if found else None
        if backend is not None and backend.iree_code.vectorizes_loops:
            rewrite_each("convolution", found, _move)


@dataclass(frozen=True)
class _Part:
    """Channels of a convolution's image, of which `resizing` is what they are made by, where it is moved."""

    image: ir.Value
    first: int
    """Of its channels the first one in the image."""
    resizing: Resampling | None

    @property
    def channels(self) -> int:
        return int(self.image.type.shape[-1])


def _move(operation: ir.Operation) -> None:
    convolution = _match(operation)
    if convolution is None:
        return
    parts = list(_parts(convolution))
    resized = [(each, each.resizing) for each in parts if each.resizing is not None]
    if not resized:
        return
    with operation.location, ir.InsertionPoint(operation):
        # What is resized is added up by itself, in one operation: the rest is convolutions' epilogues.
        small = [
            resampled(_convolved(convolution, resizing.source, part.first), resizing.axes)
            for part, resizing in resized
        ]
        terms = [build_sum(small) if len(small) > 1 else small[0]]
        init: ir.Value | None = None if is_zero(convolution.init) else convolution.init
        for run in _kept(parts):
            terms.append(_convolved(convolution, _concatenated(run), run[0].first, init))
            init = None
        if init is not None:
            terms.append(init)
        result = build_sum(terms) if len(terms) > 1 else terms[0]
    operation.results[0].replace_all_uses_with(result)
    erase_if_unused([operation])


def _match(operation: ir.Operation) -> Convolution | None:
    """A pointwise convolution of all pixels, of constant filters."""
    # One that a user annotated is computed as it is.
    if ATTRIBUTE_NAME in operation.attributes:
        return None
    convolution = match_convolution(operation)
    if isinstance(convolution, NoMatch) or convolution.unknown_sizes or convolution.batch is None:
        return None
    is_pointwise = convolution.kernel_size == (1, 1) and convolution.strides == (1, 1)
    is_single = isinstance(convolution.element_type, ir.F32Type)
    return convolution if is_pointwise and is_single and is_known_at_load(convolution.filter) else None


def _parts(convolution: Convolution) -> Iterator[_Part]:
    """The images that are concatenated to that of a convolution, or that one alone."""
    image = convolution.input
    first = 0
    for value in _joined(image) if only_user(image) is not None else [image]:
        yield _Part(value, first, _resizing(value, convolution.output_channels))
        first += value.type.shape[-1]


def _joined(image: ir.Value) -> list[ir.Value]:
    definition = defining_operation(image)
    if definition is None or definition.name != "tensor.concat":
        return [image]
    return list(definition.operands) if definition.attributes["dim"].value == _CHANNELS else [image]


def _resizing(image: ir.Value, channels: int) -> Resampling | None:
    """What makes an image of fewer pixels, where a convolution to so many channels is best computed of it."""
    definition = defining_operation(image)
    if definition is None or only_user(image) is None:
        return None
    match = match_resampling(definition)
    if not isinstance(match, Resampling) or not match.axes or not set(match.axes) <= _SPATIAL:
        return None
    _, *pixels, read = image.type.shape
    _, *source_pixels, _ = match.source.type.shape
    saved = (prod(pixels) - prod(source_pixels)) * read * channels
    return match if saved > _ELEMENT_COST * prod(pixels) * channels else None


def _kept(parts: list[_Part]) -> Iterator[list[_Part]]:
    """What isn't resized, neighbours together: their rows of the filter are."""
    for is_kept, run in groupby(parts, lambda part: part.resizing is None):
        if is_kept:
            yield list(run)


def _concatenated(parts: list[_Part]) -> ir.Value:
    if len(parts) == 1:
        return parts[0].image
    type_ = ir.RankedTensorType(parts[0].image.type)
    shape = [*type_.shape[:-1], sum(each.channels for each in parts)]
    images = [each.image for each in parts]
    return tensor.concat(ir.RankedTensorType.get(shape, type_.element_type), type_.rank - 1, images)


def _convolved(
    convolution: Convolution, image: ir.Value, first: int, init: ir.Value | None = None
) -> ir.Value:
    """The convolution of an image of its input channels from `first` on alone, added to `init`."""
    batch, *pixels, read = image.type.shape
    channels = convolution.output_channels
    rows = extracted(convolution.filter, [0, 0, first, 0], [1, 1, read, channels])
    if init is None:
        init = zero_filled([batch, *pixels, channels], convolution.element_type)
    built = build_windowed(
        linalg.Conv2DNhwcHwcfOp, [image, rows], init, convolution.strides, convolution.dilations
    )
    copy_annotations(convolution.operation, built.owner)
    return built
