"""Compute only those pixels of an image that strided pointwise convolutions read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir, linalg, tensor
from iree.winograd.passes.build.bodies import inline_block
from iree.winograd.passes.build.generic import build_elementwise
from iree.winograd.passes.build.named import build_windowed
from iree.winograd.passes.build.slices import extracted
from iree.winograd.passes.build.tensors import filled, size_of
from iree.winograd.passes.infrastructure.algorithm import ATTRIBUTE_NAME, copy_annotations
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.convolutions.convolution import Convolution, match_convolution
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.passes.match.elementwise import Elementwise, captures, match_elementwise
from iree.winograd.passes.match.navigation import defining_operation, only_user
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.rewrite.erasure import erase_if_unused

_CONVOLUTION = "linalg.conv_2d_nhwc_hwcf"
_RANK = 4
_SPATIAL = (1, 2)


@register_pass("winograd-move-strides")
class MoveStrides:
    """Compute only those pixels of an image that strided pointwise convolutions read.

    A stage of a ResNet ends with an image of which the next one reads every other row and column, by the
    pointwise convolutions that it begins with. Where nothing else reads it, what computes the image does so
    for these alone: elementwise operations of parts of their operands, and convolutions by larger strides, of
    which pointwise ones leave pixels of their own images unread in turn. Of other images that elementwise
    operations read a part is copied. Rewritten are convolutions of channels-last images in two dimensions.

        %c = linalg.conv_2d_nhwc_hwcf ins(%x, %f) -> tensor<1x56x56x64xf32>
        %r = linalg.generic ins(%c, %y : tensor<1x56x56x64xf32>, tensor<1x56x56x64xf32>) { arith.addf }
        %s = linalg.conv_2d_nhwc_hwcf {strides = 2} ins(%r, %g : ..., tensor<1x1x64x128xf32>)
      becomes
        %c = linalg.conv_2d_nhwc_hwcf {strides = 2} ins(%x, %f) -> tensor<1x28x28x64xf32>
        %p = tensor.extract_slice %y[0, 0, 0, 0] [1, 28, 28, 64] [1, 2, 2, 1]
        %r = linalg.generic ins(%c, %p : tensor<1x28x28x64xf32>, tensor<1x28x28x64xf32>) { arith.addf }
        %s = linalg.conv_2d_nhwc_hwcf ins(%r, %g : ..., tensor<1x1x64x128xf32>)
    """

    def run(self, module: ir.Operation) -> None:
        rewrite_each("program", [module], _move_all, operation_of=lambda each: each)


@dataclass(frozen=True)
class _Image:
    """What pointwise convolutions, all of its users, read with the same strides."""

    value: ir.Value
    readers: tuple[Convolution, ...]

    @property
    def strides(self) -> tuple[int, ...]:
        return self.readers[0].strides


def _move_all(module: ir.Operation) -> None:
    # Each image leaves others, of convolutions that got its strides.
    while (image := next(_images(module), None)) is not None:
        _move(image)


def _images(module: ir.Operation) -> Iterator[_Image]:
    """Those that are computed by convolutions."""
    for operation in convolutions(module):
        if (first := _pointwise(operation)) is None:
            continue
        readers = [_pointwise(use.owner.operation) for use in first.input.uses]
        image = _Image(first.input, tuple(each for each in readers if each is not None))
        is_all = len(image.readers) == len(readers)
        if is_all and len({each.strides for each in image.readers}) == 1 and _is_computed(image.value):
            yield image


def _pointwise(operation: ir.Operation) -> Convolution | None:
    """A strided pointwise convolution."""
    convolution = _match(operation)
    if convolution is None or convolution.kernel_size != (1, 1) or convolution.strides == (1, 1):
        return None
    return convolution


def _match(operation: ir.Operation) -> Convolution | None:
    # One that a user annotated keeps its strides.
    if operation.name != _CONVOLUTION or ATTRIBUTE_NAME in operation.attributes:
        return None
    convolution = match_convolution(operation)
    return None if isinstance(convolution, NoMatch) or convolution.unknown_sizes else convolution


def _is_computed(value: ir.Value) -> bool:
    """Whether a convolution, maybe with elementwise operations after it, need not compute all of it."""
    definition = defining_operation(value)
    if definition is None:
        return False
    if _match(definition) is not None:
        return True
    elementwise = _elementwise(definition)
    return elementwise is not None and any(_is_left(operand, definition) for operand, _ in elementwise.reads)


def _is_left(operand: ir.Value, reader: ir.Operation) -> bool:
    """Whether an operand need not be computed where its reader needs only a part of it."""
    user = only_user(operand)
    return user is not None and user == reader and _is_computed(operand)


def _elementwise(operation: ir.Operation) -> Elementwise | None:
    """An elementwise operation of images of the result's size and of what is the same for all pixels."""
    elementwise = match_elementwise(operation)
    if isinstance(elementwise, NoMatch) or not elementwise.is_pure or elementwise.reads_init:
        return None
    if ir.RankedTensorType(elementwise.result.type).rank != _RANK or captures(elementwise.body):
        return None
    return elementwise if all(_is_image(each) or _is_uniform(each) for _, each in elementwise.reads) else None


def _is_image(indexing_map: ir.AffineMap) -> bool:
    return bool(indexing_map == ir.AffineMap.get_identity(_RANK))


def _is_uniform(indexing_map: ir.AffineMap) -> bool:
    """Whether all pixels read the same."""
    dimensions = [ir.AffineExpr.get_dim(dimension) for dimension in _SPATIAL]
    return not any(dimension in indexing_map.results for dimension in dimensions) and all(
        isinstance(each, ir.AffineDimExpr | ir.AffineConstantExpr) for each in indexing_map.results
    )


def _move(image: _Image) -> None:
    part = _part(image.value, image.strides)
    for reader in image.readers:
        operation = reader.operation
        with operation.location, ir.InsertionPoint(operation):
            read = _build(reader, part, reader.init, (1, 1))
        operation.results[0].replace_all_uses_with(read)
        erase_if_unused([operation])


def _part(value: ir.Value, strides: tuple[int, ...]) -> ir.Value:
    """Build the image of the pixels of `value` that are read with `strides`, which nothing else reads."""
    definition = defining_operation(value)
    assert definition is not None
    convolution = _match(definition)
    with definition.location, ir.InsertionPoint(definition):
        if convolution is not None:
            init = _initial(convolution.init, strides)
            both = tuple(one * other for one, other in zip(convolution.strides, strides, strict=True))
            return _build(convolution, convolution.input, init, both)
        elementwise = _elementwise(definition)
        assert elementwise is not None
        parts = {
            operand: _part(operand, strides)
            if _is_left(operand, definition)
            else _copied_part(operand, strides)
            for operand in dict.fromkeys(
                each for each, indexing_map in elementwise.reads if _is_image(indexing_map)
            )
        }
        reads = [
            (parts[operand] if _is_image(indexing_map) else operand, indexing_map)
            for operand, indexing_map in elementwise.reads
        ]
        init = tensor.empty(_sizes(value, strides), value.type.element_type)
        return build_elementwise(reads, init, lambda elements: inline_block(elementwise.body, elements)[0])


def _initial(init: ir.Value, strides: tuple[int, ...]) -> ir.Value:
    """Build the part of what a convolution is added to."""
    definition = defining_operation(init)
    if definition is not None and definition.name == "linalg.fill":
        return filled(definition.operands[0], _sizes(init, strides), init.type.element_type)
    elementwise = None if definition is None else _elementwise(definition)
    if elementwise is None or any(_is_image(each) for _, each in elementwise.reads):
        return _copied_part(init, strides)
    empty = tensor.empty(_sizes(init, strides), init.type.element_type)
    return build_elementwise(
        elementwise.reads, empty, lambda elements: inline_block(elementwise.body, elements)[0]
    )


def _copied_part(value: ir.Value, strides: tuple[int, ...]) -> ir.Value:
    return extracted(value, [0] * _RANK, _sizes(value, strides), [1, *strides, 1])


def _sizes(value: ir.Value, strides: tuple[int, ...]) -> list[int | ir.Value]:
    """Those of the part of an image."""
    batch, *pixels, channels = (size_of(value, dimension) for dimension in range(_RANK))
    return [
        batch,
        *(ceil_div(size, stride) for size, stride in zip(pixels, strides, strict=True)),
        channels,
    ]


def _build(convolution: Convolution, image: ir.Value, init: ir.Value, strides: tuple[int, ...]) -> ir.Value:
    operands = image, convolution.filter
    built = build_windowed(linalg.Conv2DNhwcHwcfOp, operands, init, strides, convolution.dilations)
    copy_annotations(convolution.operation, built.owner)
    return built
