"""Compute pointwise convolutions of resized images before these are resized."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from math import prod

from iree.winograd.dialect.attributes import sizes_attribute
from iree.winograd.dialect.bindings import ir, linalg, tensor
from iree.winograd.passes.build.conversions import converted
from iree.winograd.passes.build.generic import build_elementwise, build_sum
from iree.winograd.passes.build.named import build_windowed
from iree.winograd.passes.build.resampling import resampled
from iree.winograd.passes.build.selected_pixels import resized
from iree.winograd.passes.build.slices import Size, extracted
from iree.winograd.passes.build.tensors import shape_of, zero_filled
from iree.winograd.passes.infrastructure.algorithm import ATTRIBUTE_NAME, copy_annotations
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.option import check_options, same_option
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.convolutions.convolution import Convolution, match_convolution
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.passes.match.elementwise import broadcast_source
from iree.winograd.passes.match.navigation import defining_operation, readers
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.pixels.resampling import Resampling, as_one, match_resampling
from iree.winograd.passes.match.pixels.selected_pixels import ResizedPixels, is_read_by, match_resized_pixels
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.unknown_sizes.expected_size import EXPECTED_SIZE_ATTRIBUTE_NAME, expected_size
from iree.winograd.passes.match.values.constants import is_known_at_load, is_zero
from iree.winograd.passes.match.values.conversions import rounding_type
from iree.winograd.passes.rewrite.erasure import erase_if_unused

from ..backends.module_backend import supported_backend
from ..selection.expect_sizes import ExpectedSizes
from ..selection.options import WinogradOptions

_CONVOLUTION = "linalg.conv_2d_nhwc_hwcf"
_SPATIAL = {1, 2}
_CHANNELS = 3
_ELEMENT_COST = 32
"""Multiply-adds that take as long as an element of an image that is resized, or resized and added."""


@register_pass("winograd-move-resizing")
@dataclass(frozen=True)
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
    Images of sizes known only at run time are resized by the program's own positions and weights, and what
    is expected of their sizes says whether time is saved. What is concatenated with them has to be certain
    to have the same sizes: kernels are told those of one. A bias is added before images are resized, where
    the weights of each pixel add up to 1. Outputs that are rounded to half precision are before each becomes
    several pixels.
    """

    size_hint: tuple[int, ...] = same_option(WinogradOptions, "size_hint")

    def __post_init__(self) -> None:
        check_options(self)

    def run(self, module: ir.Operation) -> None:
        found = [each for each in convolutions(module) if each.name == _CONVOLUTION]
        backend = supported_backend(module) if found else None
        if backend is None or not backend.iree_code.vectorizes_loops:
            return
        functions = dict.fromkeys(each.parent.operation for each in found if expected_size(each) is not None)
        expected = {function: ExpectedSizes.of(function, self.size_hint) for function in functions}
        rewrite_each("convolution", found, lambda each: _move(each, expected.get(each.parent.operation)))


@dataclass(frozen=True)
class _Part:
    """Channels of a convolution's image, of which `resizing` is what they are made by, where it is moved."""

    image: ir.Value
    first: int
    """Of its channels the first one in the image."""
    resizing: Resampling | ResizedPixels | None

    @property
    def channels(self) -> int:
        return int(self.image.type.shape[-1])


def _move(operation: ir.Operation, expected: ExpectedSizes | None) -> None:
    convolution = _match(operation)
    if convolution is None:
        return
    parts = list(_parts(convolution, expected))
    moved = [(each, each.resizing) for each in parts if each.resizing is not None]
    if not moved or not _have_same_sizes(parts, expected):
        return
    with operation.location, ir.InsertionPoint(operation):
        init: ir.Value | None = None if is_zero(convolution.init) else convolution.init
        kept = list(_kept(parts))
        bias = None
        if init is not None and not kept and all(map(_keeps_constants, (resizing for _, resizing in moved))):
            bias = _bias(init)
        is_alone = len(parts) == 1 and (init is None or bias is not None)
        rounding = _rounding(operation) if is_alone and _selects(moved[0][1]) else None
        half = None if rounding is None else rounding_type(rounding)
        # What is resized is added up by itself, in one operation: the rest is convolutions' epilogues.
        small = []
        for number, (part, resizing) in enumerate(moved):
            added = bias if number == 0 else None
            convolved = _convolved(convolution, _source(resizing), part.first, expected, bias=added)
            if half is not None:
                convolved = converted(convolved, half, convolution.element_type)
            small.append(_resized(convolved, resizing))
        terms = [build_sum(small) if len(small) > 1 else small[0]]
        for run in kept:
            terms.append(_convolved(convolution, _concatenated(run), run[0].first, expected, init))
            init = None
        if init is not None and bias is None:
            terms.append(init)
        result = build_sum(terms) if len(terms) > 1 else terms[0]
    last = operation if rounding is None else rounding
    last.results[0].replace_all_uses_with(result)
    # Bodies read elements of what is no operand. What is used last is looked at first.
    steps = [
        each for _, resizing in moved if isinstance(resizing, ResizedPixels) for each in resizing.operations
    ]
    erase_if_unused([*reversed(steps), operation, last])


def _match(operation: ir.Operation) -> Convolution | None:
    """A pointwise convolution of all pixels, of constant filters."""
    # One that a user annotated is computed as it is.
    if ATTRIBUTE_NAME in operation.attributes:
        return None
    convolution = match_convolution(operation)
    if isinstance(convolution, NoMatch) or (convolution.batch is None and not convolution.unknown_sizes):
        return None
    is_pointwise = convolution.kernel_size == (1, 1) and convolution.strides == (1, 1)
    is_single = isinstance(convolution.element_type, ir.F32Type)
    return convolution if is_pointwise and is_single and is_known_at_load(convolution.filter) else None


def _parts(convolution: Convolution, expected: ExpectedSizes | None) -> Iterator[_Part]:
    """The images that are concatenated to that of a convolution, or that one alone."""
    image = convolution.input
    first = 0
    for value in _joined(image) if _only_reader(image) is not None else [image]:
        yield _Part(value, first, _resizing(value, convolution, expected))
        first += value.type.shape[-1]


def _only_reader(image: ir.Value) -> ir.Operation | None:
    """The one operation that uses `image`, but for what asks for its sizes."""
    users = readers(image)
    return users[0] if len(users) == 1 else None


def _joined(image: ir.Value) -> list[ir.Value]:
    definition = defining_operation(image)
    if definition is None or definition.name != "tensor.concat":
        return [image]
    return list(definition.operands) if definition.attributes["dim"].value == _CHANNELS else [image]


def _resizing(
    image: ir.Value, convolution: Convolution, expected: ExpectedSizes | None
) -> Resampling | ResizedPixels | None:
    """What makes an image of fewer pixels, where a convolution is best computed of it."""
    definition = defining_operation(image)
    if definition is None or _only_reader(image) is None:
        return None
    match = match_resized_pixels(definition) if convolution.unknown_sizes else _resampling(definition)
    if not isinstance(match, Resampling | ResizedPixels) or not _channels_are_known(_source(match)):
        return None
    source_pixels = _spatial_sizes(_source(match), expected)
    if source_pixels is None:
        return None
    pixels, read, channels = prod(convolution.input_size), image.type.shape[-1], convolution.output_channels
    saved = (pixels - prod(source_pixels)) * read * channels
    # By itself it is resized either way; beside others it would be part of what the convolution reads.
    more = channels - read if image == convolution.input else channels
    return match if saved > _ELEMENT_COST * pixels * more else None


def _resampling(operation: ir.Operation) -> Resampling | None:
    """What resamples rows and columns of an image at once or, as in models of ONNX, one after the other."""
    match = match_resampling(operation)
    if not isinstance(match, Resampling) or not match.axes or not set(match.axes) <= _SPATIAL:
        return None
    before = defining_operation(match.source)
    if before is None or not is_read_by(match.source, [operation]) or (inner := _resampling(before)) is None:
        return match
    return as_one(inner, match) or match


def _source(resizing: Resampling | ResizedPixels) -> ir.Value:
    return resizing.source if isinstance(resizing, Resampling) else resizing.image


def _channels_are_known(image: ir.Value) -> bool:
    return not is_dynamic(image.type.shape[-1])


def _spatial_sizes(image: ir.Value, expected: ExpectedSizes | None) -> tuple[int, ...] | None:
    """Those that an image has, or is expected to have."""
    if image.type.has_static_shape:
        return tuple(image.type.shape[1:-1])
    return None if expected is None else expected.spatial(image)


def _have_same_sizes(parts: list[_Part], expected: ExpectedSizes | None) -> bool:
    """Whether images are certain to have the same sizes, but for channels."""
    first, *others = (each.image for each in parts)
    if all(each.type.has_static_shape for each in (first, *others)):
        return True
    return not others or (expected is not None and all(expected.are_same(first, each) for each in others))


def _keeps_constants(resizing: Resampling | ResizedPixels) -> bool:
    """Whether what all pixels have is in all that it makes of them: the weights of each add up to 1."""
    return isinstance(resizing, Resampling) or resizing.keeps_constants


def _selects(resizing: Resampling | ResizedPixels) -> bool:
    """Whether each pixel that it makes is one of the image."""
    if isinstance(resizing, Resampling):
        return all(axis.taps == 1 for axis in resizing.axes.values())
    return all(len(step.taps) == 1 and step.taps[0].weights is None for step in resizing.steps)


def _rounding(operation: ir.Operation) -> ir.Operation | None:
    """What rounds a convolution's outputs to half precision, if nothing else reads them."""
    reader = _only_reader(operation.results[0])
    return None if reader is None or rounding_type(reader) is None else reader


def _resized(image: ir.Value, resizing: Resampling | ResizedPixels) -> ir.Value:
    return resampled(image, resizing.axes) if isinstance(resizing, Resampling) else resized(image, resizing)


def _bias(init: ir.Value) -> ir.Value | None:
    """The vector of what all pixels have in each channel; None where they have different elements."""
    source, read = broadcast_source(init, ir.AffineMap.get_identity(init.type.rank))
    channel = ir.AffineExpr.get_dim(init.type.rank - 1)
    return source if source.type.rank == 1 and list(read.results) == [channel] else None


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
    convolution: Convolution,
    image: ir.Value,
    first: int,
    expected: ExpectedSizes | None,
    init: ir.Value | None = None,
    *,
    bias: ir.Value | None = None,
) -> ir.Value:
    """The convolution of an image of its input channels from `first` on alone, added to `init`, or a bias."""
    read, channels = image.type.shape[-1], convolution.output_channels
    rows = extracted(convolution.filter, [0, 0, first, 0], [1, 1, read, channels])
    if init is None:
        sizes = [*shape_of(image)[:-1], channels]
        element_type = convolution.element_type
        init = zero_filled(sizes, element_type) if bias is None else _spread(bias, sizes, element_type)
    built = build_windowed(
        linalg.Conv2DNhwcHwcfOp, [image, rows], init, convolution.strides, convolution.dilations
    )
    copy_annotations(convolution.operation, built.owner)
    if convolution.unknown_sizes:
        pixels = _spatial_sizes(image, expected)
        built.owner.attributes[EXPECTED_SIZE_ATTRIBUTE_NAME] = sizes_attribute(
            pixels or convolution.input_size
        )
    return built


def _spread(bias: ir.Value, sizes: list[Size], element_type: ir.Type) -> ir.Value:
    """Build the image all of whose pixels are `bias`."""
    channel = ir.AffineMap.get(len(sizes), 0, [ir.AffineExpr.get_dim(len(sizes) - 1)])
    return build_elementwise(
        [(bias, channel)], tensor.empty(sizes, element_type), lambda elements: elements[0]
    )
