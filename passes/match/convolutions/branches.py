"""Branches: convolutions of one image, scaled and shifted per channel, whose results are added up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.convolutions.convolution import Convolution, match_convolution
from iree.winograd.passes.match.convolutions.convolution_form import is_convolution
from iree.winograd.passes.match.convolutions.exact_type import exact_type
from iree.winograd.passes.match.elementwise import (
    Elementwise,
    broadcast_source,
    captures,
    match_elementwise,
)
from iree.winograd.passes.match.epilogues.channel_affine import ChannelAffine
from iree.winograd.passes.match.groups import merging, reassociation_of, split_source
from iree.winograd.passes.match.layouts.padding import match_paddings
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.values.constants import (
    Array,
    constant_array,
    is_constant,
    is_zero,
    scalar_constant,
)
from iree.winograd.passes.match.values.evaluate import spread


@dataclass(frozen=True)
class Image:
    """A tensor of which an image, channels last, is a transposition."""

    source: ir.Value
    order: tuple[int, ...]
    """The dimension of the image that each dimension of the tensor is."""

    @staticmethod
    def of(value: ir.Value, order: Sequence[int]) -> Image:
        """The first of the tensors that are transposed to `value`."""
        while (transposition := _transposition(value)) is not None:
            value, order = transposition.operands[0], _order_before(transposition, order)
        return Image(value, tuple(order))


@dataclass(frozen=True, eq=False)
class Branch:
    """`scale * convolution + shift` of an image, one term of a sum; or `scale * image + shift`.

    The latter is a pointwise convolution with a group per channel.
    """

    term: ir.Value
    convolution: Convolution | None
    image: Image
    affine: ChannelAffine
    """A convolution's bias is part of the shift."""
    strides: tuple[int, ...]
    groups: int
    taps: tuple[tuple[int, ...], ...]
    """Per spatial dimension, the elements of the image that the first output reads; negative in padding."""

    @cached_property
    def filter(self) -> Array | None:
        """That of the term, the scale included, R... x C/g x K in float64; None where it isn't known."""
        channels = len(self.affine.scale)
        if self.convolution is None:
            return self.affine.scale.reshape(*(1 for _ in self.taps), 1, channels)
        array = constant_array(self.convolution.filter)
        if array is None:
            return None
        # Spatial dimensions, input channels, and groups outside of output channels: those are channels last.
        array = array.reshape(*self.convolution.kernel_size, self.convolution.group_inputs, channels)
        scaled: Array = array * self.affine.scale
        return scaled

    def contains(self, other: Branch) -> bool:
        """Whether a filter with the taps and groups of this one can be that of `other`, too."""
        return (
            (self.image, self.strides) == (other.image, other.strides)
            and other.groups % self.groups == 0
            and all(set(inner) <= set(outer) for inner, outer in zip(other.taps, self.taps, strict=True))
        )


def is_image_sum(operation: ir.Operation) -> bool:
    """Whether `operation` adds two images of f32, channels last or not, element by element.

    What may be channels has a known size.
    """
    if operation.name != "linalg.generic" or len(operation.operands) != 3:
        return False
    elementwise = match_elementwise(operation)
    if isinstance(elementwise, NoMatch) or elementwise.result.type.rank < 3:
        return False
    if is_dynamic(elementwise.result.type.shape[-1]):
        return False
    if not isinstance(elementwise.result.type.element_type, ir.F32Type):
        return False
    if any(indexing_map != elementwise.indexing_maps[-1] for _, indexing_map in elementwise.reads):
        return False
    (*computed, terminator) = (view.operation for view in elementwise.body.operations)
    return (
        [each.name for each in computed] == ["arith.addf"]
        and set(computed[0].operands) == set(list(elementwise.body.arguments)[:2])
        and terminator.operands[0] == computed[0].results[0]
    )


def terms_of(total: ir.Operation) -> list[ir.Value]:
    """What is added up to the result of `total`, a sum of images, first to last: sums that it alone reads
    are taken apart."""
    terms: list[ir.Value] = []
    for operand in list(total.operands)[:2]:
        definition = defining_operation(operand)
        if definition is not None and is_image_sum(definition) and _has_one_use(operand):
            terms += terms_of(definition)
        else:
            terms.append(operand)
    return terms


def match_branch(term: ir.Value) -> Branch | NoMatch | None:
    """The branch that computes `term`, channels last; None where it is an image as it is."""
    rank, channels = term.type.rank, term.type.shape[-1]
    value, order, affine = term, list(range(rank)), ChannelAffine.identity(channels)
    while (definition := defining_operation(value)) is not None and _has_one_use(value):
        if (transposition := _transposition(value)) is not None:
            value, order = transposition.operands[0], _order_before(transposition, order)
            continue
        step = _match_affine(definition, order.index(rank - 1), channels)
        if step is None:
            break
        value, inner = step
        affine = affine.after(inner)
    convolution = _convolution_of(value)
    if convolution is not None and _has_one_use(value) and order == sorted(order):
        return _match_convolution_branch(term, convolution, affine)
    if not (affine.scales or affine.shifts):
        return None
    none = ((0,),) * (rank - 2)
    return Branch(term, None, Image.of(value, order), affine, (1,) * (rank - 2), channels, none)


def _match_convolution_branch(
    term: ir.Value, operation: ir.Operation, affine: ChannelAffine
) -> Branch | NoMatch:
    convolution = match_convolution(operation)
    if isinstance(convolution, NoMatch):
        return convolution
    if not convolution.is_channels_last:
        return NoMatch(operation, "it isn't channels last")
    if not is_constant(convolution.filter):
        return NoMatch(operation, "its filter is not a constant")
    if exact_type(convolution.input, convolution.filter) is not None:
        return NoMatch(operation, "its filter, once added to others, would be rounded")
    image = convolution.image
    bias = _bias(convolution)
    if image is None or bias is None:
        return NoMatch(operation, "what it is added to is not a constant per channel")
    padding, _ = match_paddings(image)
    taps = tuple(
        tuple(dilation * tap - low for tap in range(size))
        for dilation, size, low in zip(
            convolution.dilations, convolution.kernel_size, padding.low, strict=True
        )
    )
    return Branch(
        term,
        convolution,
        Image.of(padding.source, range(padding.source.type.rank)),
        ChannelAffine(affine.scale, affine.scale * bias + affine.shift),
        convolution.strides,
        convolution.groups,
        taps,
    )


def _bias(convolution: Convolution) -> Array | None:
    """The constants per channel that the outputs are added to."""
    init, channels = convolution.init, convolution.output_channels
    if is_zero(init):
        return np.zeros(channels)
    rank = convolution.spatial_rank + 2
    if init.type.rank != rank:
        source = split_source(init, rank - 1)
        if source is None:
            return None
        init = source
    return _per_channel(init, ir.AffineMap.get_identity(rank), rank - 1, channels)


def _convolution_of(value: ir.Value) -> ir.Operation | None:
    """The convolution whose outputs, channels of groups merged, are `value`."""
    definition = defining_operation(value)
    if definition is not None and definition.name == "tensor.collapse_shape":
        source = definition.operands[0]
        if reassociation_of(definition) != merging(source.type.rank, source.type.rank - 2):
            return None
        definition = defining_operation(source) if _has_one_use(source) else None
    return definition if definition is not None and is_convolution(definition) else None


def _match_affine(
    operation: ir.Operation, channel: int, channels: int
) -> tuple[ir.Value, ChannelAffine] | None:
    """What an elementwise operation computes of one image and constants along dimension `channel`."""
    elementwise = match_elementwise(operation)
    if isinstance(elementwise, NoMatch) or not elementwise.is_pure or elementwise.reads_init:
        return None
    if captures(elementwise.body):
        return None
    constants: dict[ir.Value, Array] = {}
    images: list[tuple[ir.Value, ir.Value]] = []
    for argument, (operand, indexing_map) in zip(elementwise.body.arguments, elementwise.reads, strict=False):
        array = _per_channel(operand, indexing_map, channel, channels)
        if array is not None:
            constants[argument] = array
        elif indexing_map == elementwise.indexing_maps[-1] and operand.type == elementwise.result.type:
            images.append((argument, operand))
        else:
            return None
    if len(images) != 1:
        return None
    ((argument, image),) = images
    affine = _affine_of(elementwise, argument, constants, channels)
    return None if affine is None else (image, affine)


def _affine_of(
    elementwise: Elementwise, number: ir.Value, constants: dict[ir.Value, Array], channels: int
) -> ChannelAffine | None:
    """What a body computes of its argument `number`."""
    affine: ChannelAffine | None = ChannelAffine.identity(channels)
    while number != elementwise.yielded:
        users = [use.owner.operation for use in number.uses]
        if affine is None or len(users) != 1 or len(users[0].operands) != 2:
            return None
        left, right = users[0].operands
        other = right if left == number else left
        element = constants.get(other, scalar_constant(other))
        if element is None:
            return None
        affine = affine.then(users[0], np.asarray(element, np.float64), is_left=left == number)
        number = users[0].results[0]
    return affine


def _per_channel(value: ir.Value, indexing_map: ir.AffineMap, channel: int, channels: int) -> Array | None:
    """The elements, in float64, of a constant that is read at the index of `channel` alone."""
    source, source_map = broadcast_source(value, indexing_map)
    array = constant_array(source)
    elements = None if array is None else spread(array.astype(np.float64), source_map)
    if elements is None:
        return None
    if any(size != 1 for dimension, size in enumerate(elements.shape) if dimension != channel):
        return None
    return np.broadcast_to(elements.reshape(-1), (channels,))


def _transposition(value: ir.Value) -> ir.Operation | None:
    definition = defining_operation(value)
    return definition if definition is not None and definition.name == "linalg.transpose" else None


def _order_before(transposition: ir.Operation, order: Sequence[int]) -> list[int]:
    """`order`, that of a transposition's result, for its operand."""
    before = list(order)
    for dimension, source in zip(order, transposition.attributes["permutation"], strict=True):
        before[source] = dimension
    return before


def _has_one_use(value: ir.Value) -> bool:
    return len(list(value.uses)) == 1
