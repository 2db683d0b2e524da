"""Typed views and builders of the winograd ops.

The wheels' bindings can't load the dialect's IRDL definition, so these classes are what gives the ops their
types in Python; contexts have to allow unregistered dialects (`register_dialect` below sees to that).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from iree.winograd.dialect.attributes import (
    decomposition_attribute,
    decomposition_of,
    sizes_attribute,
    sizes_of,
)
from iree.winograd.dialect.bindings import dialect_registry, ir, vector
from iree.winograd.dialect.decomposition import Decomposition

MAX_EPILOGUE_OPERANDS = 8

CHANNELS_FIRST = "channels_first"
"""The attribute, a unit, of transforms whose image has its channels before its spatial dimensions."""

FILTER_PERMUTATION = "permutation"
"""The attribute of filter transforms and filter gradients: which dimension of the filter in memory each of
R... x C/g x K is."""

FLIPPED = "flipped"
"""The attribute, a unit, of filter transforms that read taps from the last to the first in each dimension."""


# The bindings import a module for the dialect of each operation that they meet, and try again until there is
# one: ours is the package itself.
dialect_registry.globals.append_dialect_search_prefix("iree")


@dialect_registry.register_dialect
class WinogradDialect(ir.Dialect):
    """Convolutions in the Winograd domain, on tensors."""

    DIALECT_NAMESPACE = "winograd"


class TransformOp(ir.OpView):
    """What all transforms have in common."""

    _ODS_REGIONS = (0, True)

    @property
    def decomposition(self) -> Decomposition:
        """How the convolution is decomposed. Raises ValueError when the attribute is malformed."""
        return decomposition_of(self.attributes["decomposition"])

    @property
    def groups(self) -> int:
        """Groups of the convolution."""
        return int(ir.IntegerAttr(self.attributes["groups"]).value)

    @property
    def channels_first(self) -> bool:
        """Whether the image is N x C x H... instead of N x H... x C."""
        return CHANNELS_FIRST in self.attributes

    @property
    def in_domain(self) -> ir.Value:
        """What the op has in the Winograd domain: its result, or the operand if it leaves the domain."""
        return self.results[0]

    @property
    def domain_type(self) -> ir.Type:
        """Of elements in the Winograd domain, whatever type those in memory have."""
        return ir.RankedTensorType(self.in_domain.type).element_type


@dialect_registry.register_operation(WinogradDialect)
class InputTransformOp(TransformOp):
    """`winograd.input_transform`: N x H... x C, or N x C x H..., -> [A*g, T, V*C/g]."""

    OPERATION_NAME = "winograd.input_transform"

    @property
    def input(self) -> ir.Value:
        """The convolution's input, not padded."""
        return self.operands[0]

    @property
    def image_type(self) -> ir.RankedTensorType:
        """The type of the input with its channels last, N x H... x C."""
        return _channels_last_type(self.input.type, self.channels_first)

    @property
    def padding_low(self) -> tuple[int, ...]:
        """Zeros before the first element of each spatial dimension."""
        return sizes_of(self.attributes["padding_low"])

    @property
    def padding_high(self) -> tuple[int, ...]:
        """Zeros after the last element of each spatial dimension."""
        return sizes_of(self.attributes["padding_high"])


@dialect_registry.register_operation(WinogradDialect)
class FilterTransformOp(TransformOp):
    """`winograd.filter_transform`: R... x C/g x K, maybe permuted or flipped, -> [A*g, V*C/g, K/g]."""

    OPERATION_NAME = "winograd.filter_transform"

    @property
    def filter(self) -> ir.Value:
        """The convolution's filter, as it lies in memory."""
        return self.operands[0]

    @property
    def permutation(self) -> tuple[int, ...]:
        """Of each dimension of R... x C/g x K, which one of the filter it is."""
        return _filter_permutation(self, self.filter.type)

    @property
    def flipped(self) -> bool:
        """Whether tap `r` of a dimension of R is the filter's `R - 1 - r`."""
        return FLIPPED in self.attributes

    @property
    def filter_type(self) -> ir.RankedTensorType:
        """The type of the filter with its output channels last, R... x C/g x K."""
        return _permuted_type(self.filter.type, self.permutation)


@dialect_registry.register_operation(WinogradDialect)
class OutputTransformOp(TransformOp):
    """`winograd.output_transform`: [A*g, T, K/g], epilogue operands -> N x OH... x K, or N x K x OH...."""

    OPERATION_NAME = "winograd.output_transform"
    _ODS_REGIONS = (1, True)

    @property
    def accumulator(self) -> ir.Value:
        """The products, in the Winograd domain."""
        return self.operands[0]

    @property
    def in_domain(self) -> ir.Value:
        return self.accumulator

    @property
    def image_type(self) -> ir.RankedTensorType:
        """The type of the result with its channels last, N x OH... x K."""
        return _channels_last_type(self.result.type, self.channels_first)

    @property
    def epilogue_operands(self) -> tuple[ir.Value, ...]:
        """What the epilogue reads beside the convolution's outputs."""
        return tuple(self.operands)[1:]

    @property
    def indexing_maps(self) -> tuple[ir.AffineMap, ...]:
        """From an output's index `(n, spatial..., k)` to that in each epilogue operand."""
        return tuple(ir.AffineMapAttr(attribute).value for attribute in self.attributes["indexing_maps"])

    @property
    def body(self) -> ir.Block:
        """The epilogue: from one output and the operands' elements to what the terminator yields."""
        return self.regions[0].blocks[0]


@dialect_registry.register_operation(WinogradDialect)
class GradientTransformOp(TransformOp):
    """`winograd.gradient_transform`: N x OH... x K, or N x K x OH..., -> [A*g, T, K/g].

    It is an output transform transposed.
    """

    OPERATION_NAME = "winograd.gradient_transform"

    @property
    def gradient(self) -> ir.Value:
        """That of a loss by the convolution's outputs."""
        return self.operands[0]

    @property
    def gradient_type(self) -> ir.RankedTensorType:
        """The type of the gradient with its channels last, N x OH... x K."""
        return _channels_last_type(self.gradient.type, self.channels_first)


@dialect_registry.register_operation(WinogradDialect)
class FilterGradientOp(TransformOp):
    """`winograd.filter_gradient`: [A*g, V*C/g, K/g] -> R... x C/g x K, maybe permuted.

    It is a filter transform transposed.
    """

    OPERATION_NAME = "winograd.filter_gradient"

    @property
    def accumulator(self) -> ir.Value:
        """The products, in the Winograd domain."""
        return self.operands[0]

    @property
    def in_domain(self) -> ir.Value:
        return self.accumulator

    @property
    def permutation(self) -> tuple[int, ...]:
        """Of each dimension of R... x C/g x K, which one of the result it is."""
        return _filter_permutation(self, self.result.type)

    @property
    def filter_type(self) -> ir.RankedTensorType:
        """The type of the result with its output channels last, R... x C/g x K."""
        return _permuted_type(self.result.type, self.permutation)


def register_dialect(context: ir.Context) -> None:
    """Lets `context` hold winograd ops."""
    context.allow_unregistered_dialects = True


def _channels_last_type(image: ir.Type, channels_first: bool) -> ir.RankedTensorType:
    image = ir.RankedTensorType(image)
    if not channels_first:
        return image
    batch, channels, *spatial = image.shape
    return ir.RankedTensorType.get([batch, *spatial, channels], image.element_type)


def _filter_permutation(transform: TransformOp, filter_type: ir.Type) -> tuple[int, ...]:
    if FILTER_PERMUTATION in transform.attributes:
        return sizes_of(transform.attributes[FILTER_PERMUTATION])
    return tuple(range(ir.RankedTensorType(filter_type).rank))


def _permutation_attribute(permutation: Sequence[int] | None) -> dict[str, ir.Attribute]:
    if permutation is None or list(permutation) == sorted(permutation):
        return {}
    return {FILTER_PERMUTATION: sizes_attribute(permutation)}


def _permuted_type(type_: ir.Type, permutation: Sequence[int]) -> ir.RankedTensorType:
    tensor_type = ir.RankedTensorType(type_)
    return ir.RankedTensorType.get([tensor_type.shape[d] for d in permutation], tensor_type.element_type)


def default_domain_type(element_type: ir.Type) -> ir.Type:
    """The type in which numbers of a type are transformed, multiplied and summed, if no other is asked for.

    Products don't overflow there, and rounding is seldom seen in results: half precision is widened.
    """
    return ir.F32Type.get() if isinstance(element_type, ir.F16Type | ir.BF16Type) else element_type


def input_transform_type(
    input_type: ir.RankedTensorType,
    decomposition: Decomposition,
    padding_low: Sequence[int],
    padding_high: Sequence[int],
    groups: int,
    domain: ir.Type | None = None,
) -> ir.RankedTensorType:
    """The type `[A*g, T, V*C/g]` of an input's transform; T is dynamic when a size it depends on is.

    `input_type` is N x H... x C.
    """
    batch, *spatial, channels = input_type.shape
    dynamic = ir.ShapedType.get_dynamic_size()
    tile_count = dynamic
    if dynamic not in (batch, *spatial):
        padded = [
            low + size + high for low, size, high in zip(padding_low, spatial, padding_high, strict=True)
        ]
        tile_count = batch * prod(decomposition.tiles(decomposition.output_shape(padded)))
    shape = [decomposition.point_count * groups, tile_count, decomposition.view_count * channels // groups]
    return ir.RankedTensorType.get(shape, domain or default_domain_type(input_type.element_type))


def filter_transform_type(
    filter_type: ir.RankedTensorType, decomposition: Decomposition, groups: int, domain: ir.Type | None = None
) -> ir.RankedTensorType:
    """The type `[A*g, V*C/g, K/g]` of a filter's transform."""
    *_, group_channels, filters = filter_type.shape
    shape = [decomposition.point_count * groups, decomposition.view_count * group_channels, filters // groups]
    return ir.RankedTensorType.get(shape, domain or default_domain_type(filter_type.element_type))


def accumulator_type(
    result_type: ir.RankedTensorType, decomposition: Decomposition, groups: int, domain: ir.Type | None = None
) -> ir.RankedTensorType:
    """The type `[A*g, T, K/g]` of what gives an output of `result_type`; T is dynamic when a size is.

    `result_type` is N x OH... x K.
    """
    batch, *spatial, filters = result_type.shape
    dynamic = ir.ShapedType.get_dynamic_size()
    is_static = dynamic not in (batch, *spatial)
    tile_count = batch * prod(decomposition.tiles(spatial)) if is_static else dynamic
    shape = [decomposition.point_count * groups, tile_count, filters // groups]
    return ir.RankedTensorType.get(shape, domain or default_domain_type(result_type.element_type))


def input_transform(
    activation: ir.Value,
    decomposition: Decomposition,
    padding_low: Sequence[int],
    padding_high: Sequence[int],
    groups: int = 1,
    *,
    channels_first: bool = False,
    domain: ir.Type | None = None,
) -> InputTransformOp:
    """Builds a `winograd.input_transform` of `activation`, at the current insertion point and location.

    Its result is of type `domain`, by default of `default_domain_type`, as those of other transforms.
    """
    image_type = _channels_last_type(activation.type, channels_first)
    result_type = input_transform_type(image_type, decomposition, padding_low, padding_high, groups, domain)
    attributes = {
        "decomposition": decomposition_attribute(decomposition),
        "padding_low": sizes_attribute(padding_low),
        "padding_high": sizes_attribute(padding_high),
        "groups": _groups_attribute(groups),
        **_layout_attribute(channels_first),
    }
    return InputTransformOp(
        ir.Operation.create(InputTransformOp.OPERATION_NAME, [result_type], [activation], attributes)
    )


def filter_transform(
    weights: ir.Value,
    decomposition: Decomposition,
    groups: int = 1,
    *,
    permutation: Sequence[int] | None = None,
    flipped: bool = False,
    domain: ir.Type | None = None,
) -> FilterTransformOp:
    """Builds a `winograd.filter_transform` of `weights`, at the current insertion point and location.

    Without a `permutation` they are R... x C/g x K.
    """
    order = list(range(ir.RankedTensorType(weights.type).rank)) if permutation is None else list(permutation)
    result_type = filter_transform_type(_permuted_type(weights.type, order), decomposition, groups, domain)
    attributes = _shared_attributes(decomposition, groups) | _permutation_attribute(order)
    if flipped:
        attributes[FLIPPED] = ir.UnitAttr.get()
    return FilterTransformOp(
        ir.Operation.create(FilterTransformOp.OPERATION_NAME, [result_type], [weights], attributes)
    )


def output_transform(
    result_type: ir.RankedTensorType,
    accumulator: ir.Value,
    decomposition: Decomposition,
    groups: int = 1,
    epilogue_operands: Sequence[ir.Value] = (),
    indexing_maps: Sequence[ir.AffineMap] = (),
    *,
    channels_first: bool = False,
) -> OutputTransformOp:
    """Builds a `winograd.output_transform` whose body has its block arguments but no operations yet.

    The caller ends the body with `yield_value`. Raises ValueError for more than `MAX_EPILOGUE_OPERANDS`.
    """
    if len(epilogue_operands) > MAX_EPILOGUE_OPERANDS:
        raise ValueError(f"{len(epilogue_operands)} epilogue operands are more than {MAX_EPILOGUE_OPERANDS}")
    attributes = {
        "decomposition": decomposition_attribute(decomposition),
        "groups": _groups_attribute(groups),
        "indexing_maps": ir.ArrayAttr.get(
            [ir.AffineMapAttr.get(indexing_map) for indexing_map in indexing_maps]
        ),
        "operandSegmentSizes": segment_sizes_attribute(len(epilogue_operands)),
        **_layout_attribute(channels_first),
    }
    operation = ir.Operation.create(
        OutputTransformOp.OPERATION_NAME,
        [result_type],
        [accumulator, *epilogue_operands],
        attributes,
        regions=1,
    )
    element_types = [operand.type.element_type for operand in operation.operands]
    operation.regions[0].blocks.append(*element_types, arg_locs=[operation.location] * len(element_types))
    return OutputTransformOp(operation)


def gradient_transform(
    gradient: ir.Value,
    decomposition: Decomposition,
    groups: int = 1,
    *,
    channels_first: bool = False,
    domain: ir.Type | None = None,
) -> GradientTransformOp:
    """Builds a `winograd.gradient_transform` of `gradient`, at the current insertion point and location."""
    gradient_type = _channels_last_type(gradient.type, channels_first)
    result_type = accumulator_type(gradient_type, decomposition, groups, domain)
    return GradientTransformOp(
        ir.Operation.create(
            GradientTransformOp.OPERATION_NAME,
            [result_type],
            [gradient],
            _shared_attributes(decomposition, groups) | _layout_attribute(channels_first),
        )
    )


def filter_gradient(
    result_type: ir.RankedTensorType,
    accumulator: ir.Value,
    decomposition: Decomposition,
    groups: int = 1,
    *,
    permutation: Sequence[int] | None = None,
) -> FilterGradientOp:
    """Builds a `winograd.filter_gradient` of `result_type`, at the current insertion point and location.

    Without a `permutation` that is R... x C/g x K.
    """
    return FilterGradientOp(
        ir.Operation.create(
            FilterGradientOp.OPERATION_NAME,
            [result_type],
            [accumulator],
            _shared_attributes(decomposition, groups) | _permutation_attribute(permutation),
        )
    )


def yield_value(value: ir.Value) -> None:
    """Ends an epilogue with `value`, at the current insertion point and location.

    The terminator is `vector.yield`, whose meaning is what the operation around it says: IRDL can't declare
    terminators, so the dialect has none of its own.
    """
    vector.YieldOp([value])


def segment_sizes_attribute(epilogue_operand_count: int) -> ir.DenseI32ArrayAttr:
    """Which of the operands that the IRDL definition knows an output transform has.

    IRDL asks the operands of one variadic to be of one type, so each operand is an optional one.
    one.
    """
    absent = MAX_EPILOGUE_OPERANDS - epilogue_operand_count
    return ir.DenseI32ArrayAttr.get([1] + [1] * epilogue_operand_count + [0] * absent)


def _shared_attributes(decomposition: Decomposition, groups: int) -> dict[str, ir.Attribute]:
    return {"decomposition": decomposition_attribute(decomposition), "groups": _groups_attribute(groups)}


def _groups_attribute(groups: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), groups)


def _layout_attribute(channels_first: bool) -> dict[str, ir.Attribute]:
    return {CHANNELS_FIRST: ir.UnitAttr.get()} if channels_first else {}
