"""Permute channels that become pixels, so that neighbours stay neighbours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np
from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.passes.build.bodies import inline_block
from iree.winograd.passes.build.constants import resource_constant
from iree.winograd.passes.build.generic import Read, build_elementwise
from iree.winograd.passes.build.groups import merged_to_counts, split
from iree.winograd.passes.build.pixel_shuffle import shuffled
from iree.winograd.passes.build.tensors import shape_of
from iree.winograd.passes.build.transpositions import transposed
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_applied
from iree.winograd.passes.match.convolutions.convolution import Convolution, match_convolution
from iree.winograd.passes.match.convolutions.convolution_form import is_convolution
from iree.winograd.passes.match.elementwise import (
    Elementwise,
    broadcast_source,
    captures,
    match_elementwise,
)
from iree.winograd.passes.match.layouts.pixel_shuffle import PixelShuffle, match_pixel_shuffle
from iree.winograd.passes.match.navigation import defining_operation, only_user, walk
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.values.constants import constant_array, is_constant, is_known_at_load
from iree.winograd.passes.rewrite.erasure import erase_if_unused

PASS_NAME = "winograd-permute-shuffled"

_CHANNEL = 1
"""The dimension of an image that is channels first."""


@register_pass(PASS_NAME)
class PermuteShuffled:
    """Permute channels that become pixels, so that neighbours stay neighbours.

    Networks that enlarge images make more channels by a convolution, and pixels of these (pixel shuffle).
    Torch has those of a pixel beside each other, so that of a channels-last image single elements are moved.
    The order of a convolution's channels is that of its filter, which is a constant, as are the vectors of
    elementwise operations before the shuffle: with all channels of a pixel beside each other in these, runs
    of channels are moved as they are. What is computed elementwise behind the shuffle, by constants, is
    computed before it, where it becomes the convolution's epilogue.

        %c = linalg.conv_2d_nchw_fchw ins(%x, %w : ..., tensor<256x64x3x3xf32>)
        %e = tensor.expand_shape %c [[0], [1, 2, 3], [4], [5]] : ... into tensor<1x64x2x2x32x32xf32>
        %t = linalg.transpose ins(%e) permutation = [0, 1, 4, 2, 5, 3]
        %s = tensor.collapse_shape %t [[0], [1], [2, 3], [4, 5]] : ... into tensor<1x64x64x64xf32>
        %r = linalg.generic ins(%s) { arith.maximumf }
      becomes
        %v = (%w, channel c of pixel p as channel 64 * p + c) : tensor<256x64x3x3xf32>
        %c = linalg.conv_2d_nchw_fchw ins(%x, %v : ..., tensor<256x64x3x3xf32>)
        %m = linalg.generic ins(%c) { arith.maximumf }
        %e = tensor.expand_shape %m [[0], [1, 2, 3], [4], [5]] : ... into tensor<1x2x2x64x32x32xf32>
        %t = linalg.transpose ins(%e) permutation = [0, 3, 4, 1, 5, 2]
        %r = tensor.collapse_shape %t [[0], [1], [2, 3], [4, 5]] : ... into tensor<1x64x64x64xf32>

    What only leaves the program, whose pixels are neighbours there, stays.
    """

    def run(self, module: ir.Operation) -> None:
        found = [match_pixel_shuffle(each) for each in walk(module)]
        shuffles = [each for each in found if each is not None and not each.leaves]
        rewrite_each(
            "pixel shuffle", shuffles, _permute, operation_of=lambda each: each.result.owner.operation
        )


@dataclass(frozen=True)
class _Made:
    """What makes an image: a convolution, and elementwise operations on its result alone."""

    convolution: Convolution
    elementwise: tuple[Elementwise, ...]
    """The last one first."""


def _permute(shuffle: PixelShuffle) -> None:
    made = _made(shuffle.source)
    if made is None:
        return
    last = shuffle.result.owner.operation
    permuted = shuffle
    if not shuffle.keeps_neighbours:
        remark_applied(last, PASS_NAME, "channels that become pixels were permuted")
        with last.location, ir.InsertionPoint(last):
            permuted = _in_order(shuffle, made)
    while (consumer := _consumer(permuted)) is not None:
        operation = consumer.operation
        with operation.location, ir.InsertionPoint(operation):
            permuted = _computed_before(permuted, consumer)


def _made(image: ir.Value) -> _Made | None:
    """What makes an image of a convolution, in any order of its channels; None for other images."""
    found: list[Elementwise] = []
    while (operation := defining_operation(image)) is not None and only_user(image) is not None:
        if is_convolution(operation):
            convolution = match_convolution(operation)
            if isinstance(convolution, NoMatch) or not _is_permutable(convolution):
                return None
            return _Made(convolution, tuple(found))
        elementwise = _elementwise(operation)
        if elementwise is None or (source := _image(elementwise)) is None:
            return None
        found.append(elementwise)
        image = source
    return None


def _is_permutable(convolution: Convolution) -> bool:
    if (
        convolution.groups != 1
        or convolution.output_layout[:2] != "nf"
        or "f" not in convolution.filter_layout
    ):
        return False
    return is_known_at_load(convolution.filter) and _is_init_permutable(convolution.init)


def _is_init_permutable(init: ir.Value) -> bool:
    definition = defining_operation(init)
    if definition is not None and definition.name == "linalg.fill":
        return True
    rank = ir.RankedTensorType(init.type).rank
    source, read = broadcast_source(init, ir.AffineMap.get_identity(rank))
    return _is_read_by_channels(read) and is_known_at_load(source)


def _elementwise(operation: ir.Operation) -> Elementwise | None:
    elementwise = match_elementwise(operation)
    if isinstance(elementwise, NoMatch) or not elementwise.is_pure or elementwise.reads_init:
        return None
    return None if captures(elementwise.body) else elementwise


def _image(elementwise: Elementwise) -> ir.Value | None:
    """The only image that an operation reads beside what constants it spreads over it."""
    images: set[ir.Value] = set()
    identity = ir.AffineMap.get_identity(ir.RankedTensorType(elementwise.result.type).rank)
    for value, indexing_map in elementwise.reads:
        source, read = broadcast_source(value, indexing_map)
        if not _is_read_by_channels(read):
            if read != identity or source.type.shape != elementwise.result.type.shape:
                return None
            images.add(source)
        elif not is_known_at_load(source):
            return None
    return images.pop() if len(images) == 1 else None


def _is_read_by_channels(read: ir.AffineMap) -> bool:
    """Whether an operand has an element for each channel, or one for all of them."""
    channel = ir.AffineExpr.get_dim(_CHANNEL)
    return all(index == channel or isinstance(index, ir.AffineConstantExpr) for index in read.results)


def _in_order(shuffle: PixelShuffle, made: _Made) -> PixelShuffle:
    """Build the shuffle of the image with its channels in the order in which neighbours stay such."""
    convolution = made.convolution
    operation = convolution.operation
    with operation.location, ir.InsertionPoint(operation):
        filter_ = _permuted(convolution.filter, convolution.filter_layout.index("f"), shuffle)
        init = _permuted_init(convolution.init, shuffle)
        moved = operation.clone()
        moved.operands[1], moved.operands[2] = filter_, init
    image = moved.results[0]
    for elementwise in reversed(made.elementwise):
        with elementwise.operation.location, ir.InsertionPoint(elementwise.operation):
            reads = [_permuted_read(*read, image, shuffle) for read in elementwise.reads]
            image = _computed(elementwise, reads, elementwise.inputs[-1])
    sizes = [shuffle.digits[number] for number in (*shuffle.pixel, shuffle.channel)]
    return _replaced(shuffle, image, tuple(sizes))


def _replaced(shuffle: PixelShuffle, image: ir.Value, digits: tuple[int, ...]) -> PixelShuffle:
    """Build the shuffle of `image`, whose neighbours stay such, in place of another."""
    last = len(digits) - 1
    permuted = replace(shuffle, source=image, digits=digits, channel=last, pixel=tuple(range(last)))
    result = shuffled(permuted, image, channels_last=False)
    shuffle.result.replace_all_uses_with(result)
    erase_if_unused([shuffle.result.owner.operation])
    return replace(permuted, result=result)


def _permuted(value: ir.Value, dimension: int, shuffle: PixelShuffle) -> ir.Value:
    """Build a constant whose elements along a dimension are in the new order of channels."""
    divided = split(value, dimension, shuffle.digits)
    rank, count = divided.type.rank, len(shuffle.digits)
    order = [dimension + number for number in (*shuffle.pixel, shuffle.channel)]
    moved = transposed(divided, [*range(dimension), *order, *range(dimension + count, rank)])
    return merged_to_counts(moved, [1] * dimension + [count] + [1] * (rank - dimension - count))


def _permuted_init(init: ir.Value, shuffle: PixelShuffle) -> ir.Value:
    definition = defining_operation(init)
    if definition is not None and definition.name == "linalg.fill":
        return init
    rank = ir.RankedTensorType(init.type).rank
    read = _permuted_read(init, ir.AffineMap.get_identity(rank), None, shuffle)
    empty = tensor.empty(shape_of(init), init.type.element_type)
    return build_elementwise([read], empty, lambda elements: elements[0])


def _permuted_read(
    value: ir.Value, indexing_map: ir.AffineMap, image: ir.Value | None, shuffle: PixelShuffle
) -> Read:
    """What is read in place of `value`: `image` for the one of the former order, or a permuted constant."""
    source, read = broadcast_source(value, indexing_map)
    if not _is_read_by_channels(read):
        assert image is not None
        return image, read
    for dimension in _along_channels(read):
        source = _permuted(source, dimension, shuffle)
    return source, read


def _computed(elementwise: Elementwise, reads: list[Read], init: ir.Value) -> ir.Value:
    return build_elementwise(reads, init, lambda elements: inline_block(elementwise.body, elements)[0])


def _consumer(shuffle: PixelShuffle) -> Elementwise | None:
    """What is computed of the shuffle's result next, by constants, if nothing else reads it."""
    user = only_user(shuffle.result)
    elementwise = None if user is None else _elementwise(user)
    image = None if elementwise is None else _image(elementwise)
    if elementwise is None or image is None or image != shuffle.result:
        return None
    for value, indexing_map in elementwise.reads:
        source, read = broadcast_source(value, indexing_map)
        if source != shuffle.result and _along_channels(read) and not is_constant(source):
            return None
    return elementwise


def _along_channels(read: ir.AffineMap) -> list[int]:
    """The dimensions of a constant that has an element for each channel."""
    channel = ir.AffineExpr.get_dim(_CHANNEL)
    return [dimension for dimension, index in enumerate(read.results) if index == channel]


def _computed_before(shuffle: PixelShuffle, consumer: Elementwise) -> PixelShuffle:
    """Build the shuffle of what `consumer` computes, instead of what it computes of the shuffle."""
    image, pixels = shuffle.source, prod(shuffle.digits[number] for number in shuffle.pixel)
    reads = []
    for value, indexing_map in consumer.reads:
        source, read = broadcast_source(value, indexing_map)
        if source == shuffle.result:
            source = image
        for dimension in _along_channels(read) if source != image else []:
            array = constant_array(source)
            assert array is not None
            counts = [pixels if axis == dimension else 1 for axis in range(array.ndim)]
            source = resource_constant(np.tile(array, counts), "repeated")
        reads.append((source, read))
    type_ = ir.RankedTensorType(consumer.result.type)
    computed = _computed(consumer, reads, tensor.empty(shape_of(image), type_.element_type))
    return _replaced(replace(shuffle, result=consumer.result), computed, shuffle.digits)
