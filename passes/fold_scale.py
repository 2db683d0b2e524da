"""Move constant per-channel factors of the epilogue into the filter."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.dialect.reference import copy_matrices
from iree.winograd.passes.build.bodies import inline_operations
from iree.winograd.passes.build.constants import SharedConstants, resource_constant
from iree.winograd.passes.infrastructure.algorithm import KEEPS_FILTER_ATTRIBUTE_NAME
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_left
from iree.winograd.passes.match.convolutions.filters import filter_array
from iree.winograd.passes.match.epilogues.channel_affine import ChannelAffine
from iree.winograd.passes.match.navigation import defining_operation, transforms
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.values.constants import Array, constant_array, is_constant, scalar_constant
from iree.winograd.passes.match.values.conversions import rounded_type
from iree.winograd.passes.rewrite.erasure import erase_if_unused

PASS_NAME = "winograd-fold-scale"
_WIDENS = "arith.extf"


@register_pass(PASS_NAME)
class FoldScale:
    """Move constant per-channel factors of the epilogue into the filter.

    An epilogue that begins with additions, subtractions, multiplications and divisions by constants per
    channel, as a batch norm does, computes `scale * output + shift`. Convolution is linear, so the scale can
    multiply the filter: what is left is one addition. Both are computed in float64 and rounded once. Needs a
    filter that is a constant and that no other operation uses. One that a kernel rounds, by which it isn't,
    is left: `winograd-select-algorithm` says so.

        %y = "winograd.output_transform"(%m, %mean, %deviation, %weight, %bias) ({
          ^bb0(%a: f32, %b: f32, %c: f32, %d: f32, %e: f32):
            %p = arith.subf %a, %b : f32
            %q = arith.mulf %p, %c : f32
            %r = arith.mulf %q, %d : f32
            %s = arith.addf %r, %e : f32
            vector.yield %s : f32
        })
      becomes, with a filter multiplied by deviation * weight,
        %y = "winograd.output_transform"(%m, %shift) ({
          ^bb0(%a: f32, %b: f32):
            %s = arith.addf %a, %b : f32
            vector.yield %s : f32
        })

    Where the result is of half precision, and the filter can't be scaled, the same becomes one multiplication
    and one addition: `number * scale + shift`. So it does behind a number that was rounded to half precision.
    What the program rounds in f32 there is far less than what these numbers are rounded by.
    """

    def run(self, module: ir.Operation) -> None:
        rewrite_each(
            "output transform", transforms(module, ops.OutputTransformOp), partial(_fold, SharedConstants())
        )
        rewrite_each("output transform", transforms(module, ops.OutputTransformOp), _combine)


@dataclass
class Affine:
    """What operations of an epilogue compute of a number, and these operations."""

    number: ir.Value
    function: ChannelAffine
    result: ir.Value
    operations: list[ir.Operation] = field(default_factory=list)


def _fold(constants: SharedConstants, transform: ops.OutputTransformOp) -> None:
    affine = _affine_of(transform.body.arguments[0], transform, _channel_constants(transform))
    if not affine.operations:
        return
    weights = _match_filter(transform, affine)
    if isinstance(weights, NoMatch):
        remark_left(PASS_NAME, weights)
        return
    if affine.function.scales and not _scale_filter(constants, weights, affine.function.scale):
        remark_left(PASS_NAME, _not_constant(transform))
        return
    with transform.location, ir.InsertionPoint(transform):
        shifted = _build(transform, affine, scales=False)
    transform.result.replace_all_uses_with(shifted.result)
    erase_if_unused([weights.operation, transform.operation])


def _combine(transform: ops.OutputTransformOp) -> None:
    """Have what is computed of a number that was rounded, or for a result that is, be two operations."""
    constants = _channel_constants(transform)
    *operations, end = [view.operation for view in transform.body.operations]
    rounded = [operation.results[0] for operation in operations if operation.name == _WIDENS]
    if rounded_type(end.operands[0]) is not None:
        rounded.insert(0, transform.body.arguments[0])
    for number in rounded:
        affine = _affine_of(number, transform, constants)
        function = affine.function
        if not function.is_finite or len(affine.operations) <= function.scales + function.shifts:
            continue
        with transform.location, ir.InsertionPoint(transform):
            combined = _build(transform, affine, scales=function.scales)
        transform.result.replace_all_uses_with(combined.result)
        erase_if_unused([transform.operation])
        return


def _match_filter(transform: ops.OutputTransformOp, affine: Affine) -> ops.FilterTransformOp | NoMatch:
    """The transform of the filter to be scaled: a constant's, whose products nothing else reads."""
    operation, product = transform.operation, defining_operation(transform.accumulator)
    if product is None or product.name != "linalg.batch_matmul":
        return NoMatch(operation, "its operand is not the result of linalg.batch_matmul")
    if affine.function.scales and KEEPS_FILTER_ATTRIBUTE_NAME in product.attributes:
        return NoMatch(operation, "its filter, once scaled, would be rounded")
    weights = defining_operation(product.operands[1])
    if weights is None or weights.name != ops.FilterTransformOp.OPERATION_NAME:
        return NoMatch(operation, "its products are not with the result of winograd.filter_transform")
    if any(len(list(value.uses)) != 1 for value in (transform.accumulator, weights.results[0])):
        return NoMatch(operation, "something else uses its products or their filter")
    if not np.isfinite(affine.function.scale).all():
        return NoMatch(operation, "its factors are not all finite")
    matched = ops.FilterTransformOp(weights)
    return matched if is_constant(matched.filter) else _not_constant(transform)


def _not_constant(transform: ops.OutputTransformOp) -> NoMatch:
    return NoMatch(transform.operation, "its filter is not a constant")


def _scale_filter(constants: SharedConstants, weights: ops.FilterTransformOp, scale: Array) -> bool:
    """Give the products a filter R... x C/g x K that is multiplied by `scale`; False if it isn't known."""

    def compute() -> Array | None:
        array = filter_array(weights)
        if array is None:
            return None
        scaled = np.empty(array.shape, np.float32)
        copy_matrices(array, scaled)
        # In float64 and rounded once, without a copy in float64.
        np.multiply(scaled, scale, out=scaled, casting="same_kind")
        return scaled

    how = tuple(weights.permutation), weights.flipped, scale.tobytes()
    with weights.location, ir.InsertionPoint(weights):
        scaled = constants.computed(weights.filter, how, "scaled_filter", compute)
        if scaled is None:
            return False
        rebuilt = ops.filter_transform(scaled, weights.decomposition, weights.groups)
    weights.result.replace_all_uses_with(rebuilt.result)
    return True


def _affine_of(
    number: ir.Value, transform: ops.OutputTransformOp, constants: dict[ir.Value, Array]
) -> Affine:
    """What the epilogue does to a number before anything that isn't a constant per channel comes in."""
    channels = transform.result.type.shape[-1]
    affine = Affine(number, ChannelAffine.identity(channels), number)
    while True:
        users = [use.owner.operation for use in affine.result.uses]
        if len(users) != 1 or len(list(users[0].operands)) != 2 or not _apply(affine, users[0], constants):
            return affine
        affine.operations.append(users[0])
        affine.result = users[0].results[0]


def _apply(affine: Affine, operation: ir.Operation, constants: dict[ir.Value, Array]) -> bool:
    """Extend `affine` by one operation of the epilogue, if that is possible."""
    left, right = operation.operands
    is_left = left == affine.result
    other = _constant_element(right if is_left else left, constants)
    extended = None if other is None else affine.function.then(operation, other, is_left=is_left)
    if extended is None:
        return False
    affine.function = extended
    return True


def _channel_constants(transform: ops.OutputTransformOp) -> dict[ir.Value, Array]:
    """The block arguments that are constants per channel, as float64 arrays with one element per channel."""
    channel = ir.AffineExpr.get_dim(ir.RankedTensorType(transform.result.type).rank - 1)
    constants = {}
    for argument, operand, indexing_map in zip(
        list(transform.body.arguments)[1:], transform.epilogue_operands, transform.indexing_maps, strict=True
    ):
        if list(indexing_map.results) != [channel]:
            continue
        array = constant_array(operand)
        if array is not None:
            constants[argument] = array.astype(np.float64)
    return constants


def _constant_element(value: ir.Value, constants: dict[ir.Value, Array]) -> Array | None:
    if value in constants:
        return constants[value]
    scalar = scalar_constant(value)
    return None if scalar is None else np.float64(scalar)


def _build(transform: ops.OutputTransformOp, affine: Affine, *, scales: bool) -> ops.OutputTransformOp:
    """Build `transform` with a multiplication by the scale, if it `scales`, and an addition of the shift, for
    the operations of `affine`."""
    folded = set(affine.operations)
    is_single = ir.RankedTensorType(transform.result.type).shape[-1] == 1
    rank = ir.RankedTensorType(transform.result.type).rank
    channel = ir.AffineMap.get(rank, 0, [ir.AffineExpr.get_dim(rank - 1)])
    kept = [
        (argument, operand, indexing_map)
        for argument, operand, indexing_map in zip(
            list(transform.body.arguments)[1:],
            transform.epilogue_operands,
            transform.indexing_maps,
            strict=True,
        )
        if any(use.owner.operation not in folded for use in argument.uses)
    ]
    factors = {"scale": affine.function.scale} if scales else {}
    terms = {"shift": affine.function.shift} if affine.function.shifts else {}
    # Of one channel they are numbers: IREE copies a constant of one element in each call.
    numbers = {**factors, **terms} if is_single else {}
    added = [resource_constant(each, name) for name, each in {**factors, **terms}.items() if not is_single]
    built = ops.output_transform(
        ir.RankedTensorType(transform.result.type),
        transform.accumulator,
        transform.decomposition,
        transform.groups,
        [*added, *(operand for _, operand, _ in kept)],
        [*([channel] * len(added)), *(indexing_map for _, _, indexing_map in kept)],
        channels_first=transform.channels_first,
    )
    accumulated, *arguments = built.body.arguments
    values = dict(zip((argument for argument, _, _ in kept), arguments[len(added) :], strict=True))
    values[transform.body.arguments[0]] = accumulated
    operations = [view.operation for view in transform.body.operations]
    first = operations.index(affine.operations[0])
    with ir.InsertionPoint(built.body):
        inline_operations(operations[: first + 1], values)
        number, given = values[affine.number], iter(arguments[: len(added)])
        for name, operation in (("scale", arith.mulf), ("shift", arith.addf)):
            if name in factors or name in terms:
                known = numbers.get(name)
                constant = None if known is None else arith.constant(number.type, known.item())
                number = operation(number, next(given) if constant is None else constant)
        values[affine.result] = number
        rest = [each for each in operations[first + 1 :] if each not in folded]
        (result,) = inline_operations(rest, values)
        ops.yield_value(result)
    return built
