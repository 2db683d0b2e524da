"""Rewrite annotated convolutions to winograd ops."""

from __future__ import annotations

from operator import itemgetter

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import arith, ir, linalg
from iree.winograd.passes.build.epilogue_operand import build_epilogue_operand
from iree.winograd.passes.build.groups import merged, split
from iree.winograd.passes.build.named import build_named
from iree.winograd.passes.build.tensors import size_of, zero_filled
from iree.winograd.passes.build.transpositions import inverse_permutation, permuted_map, transposed
from iree.winograd.passes.infrastructure.algorithm import Algorithm, annotated_algorithm, hand_over_schedule
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import PassError, register_pass
from iree.winograd.passes.infrastructure.remarks import remark_applied
from iree.winograd.passes.infrastructure.unit import Unit, keep_origin
from iree.winograd.passes.match.convolutions.convolution import Convolution, match_convolution
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.passes.match.convolutions.weight_gradient import is_weight_gradient
from iree.winograd.passes.match.epilogues.epilogue_operand import EpilogueOperand, match_epilogue_operand
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.values.constants import is_zero
from iree.winograd.passes.rewrite.erasure import erase_if_unused
from iree.winograd.passes.rewrite.grouped import fold_merged

PASS_NAME = "winograd-convert-conv"


@register_pass(PASS_NAME)
class ConvertConv:
    """Rewrite annotated convolutions to winograd ops.

    With the symbols of docs/explanation/architecture.md, a convolution of N x H... x C with R... x C x K
    becomes transforms of its operands to the Winograd domain, A products there, and a transform of the
    products to its result. A convolution that adds to something else than zeros, its bias for one, does so in
    the output transform's epilogue.

        %r = linalg.conv_2d_nhwc_hwcf {winograd.algorithm = {
               output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>}}
               ins(%x, %w : tensor<1x16x16x8xf32>, tensor<3x3x8x4xf32>) outs(%zeros : tensor<1x14x14x4xf32>)
      becomes
        %u = "winograd.filter_transform"(%w) : (tensor<3x3x8x4xf32>) -> tensor<36x8x4xf32>
        %v = "winograd.input_transform"(%x) : (tensor<1x16x16x8xf32>) -> tensor<36x16x8xf32>
        %m = linalg.batch_matmul ins(%v, %u : ...) outs(%zeros : ...) -> tensor<36x16x4xf32>
        %r = "winograd.output_transform"(%m) ({ ^bb0(%a: f32): vector.yield %a : f32 })
               : (tensor<36x16x4xf32>) -> tensor<1x14x14x4xf32>
    """

    def run(self, module: ir.Operation) -> None:
        rewrite_each(
            "convolution",
            enumerate([each for each in convolutions(module) if not is_weight_gradient(each)]),
            _convert,
            operation_of=itemgetter(1),
            leaves_out_origin=True,
        )


def _convert(numbered: tuple[int, ir.Operation]) -> None:
    number, operation = numbered
    algorithm = annotated_algorithm(operation)
    if algorithm is None:
        return
    keep_origin(operation, Unit(PASS_NAME, "convolution", number))
    _convert_annotated(operation, number, algorithm)


def _convert_annotated(operation: ir.Operation, number: int, algorithm: Algorithm) -> None:
    convolution = match_convolution(operation)
    if isinstance(convolution, NoMatch):
        operation.location.emit_error(f"an annotated convolution can't be converted: {convolution}")
        raise PassError
    if not isinstance(convolution.element_type, ir.F32Type):
        operation.location.emit_error(
            f"an annotated convolution can't be converted: its element type is {convolution.element_type}, "
            "not f32"
        )
        raise PassError
    if len(algorithm.output_tile) != convolution.spatial_rank:
        operation.location.emit_error(
            f"winograd.algorithm has {len(algorithm.output_tile)} dimensions, "
            f"but the convolution has {convolution.spatial_rank}"
        )
        raise PassError
    with operation.location, ir.InsertionPoint(operation):
        result = _build_winograd_ops(convolution, algorithm)
    remark_applied(
        operation, PASS_NAME, f"convolution {number} ({_description(convolution)}) became {algorithm}"
    )
    operation.results[0].replace_all_uses_with(result)
    erase_if_unused([operation])
    fold_merged(result)


def _build_winograd_ops(convolution: Convolution, algorithm: Algorithm) -> ir.Value:
    decomposition = algorithm.decompose(convolution)
    groups = convolution.groups
    input_layout, _, output_layout = convolution.channels_last_layouts
    unpadded = [0] * convolution.spatial_rank
    activation = _with_merged_channels(
        transposed(convolution.input, _permutation(convolution.input_layout, input_layout)), input_layout
    )
    filter_transform = ops.filter_transform(_channels_last_filter(convolution), decomposition, groups)
    input_transform = ops.input_transform(activation, decomposition, unpadded, unpadded, groups)
    accumulator = _batch_matmul(convolution, input_transform, filter_transform)
    to_channels_last = _permutation(convolution.output_layout, output_layout)
    *image, channels = [ir.RankedTensorType(convolution.init.type).shape[d] for d in to_channels_last]
    is_merged = _has_merged_channels(output_layout)
    if is_merged:
        channels *= image.pop()
    result_type = ir.RankedTensorType.get([*image, channels], convolution.element_type)
    addends = [] if is_zero(convolution.init) else [_addend(convolution, to_channels_last, result_type)]
    output_transform = ops.output_transform(
        result_type,
        accumulator,
        decomposition,
        groups,
        [addend.value for addend in addends],
        [addend.indexing_map for addend in addends],
    )
    with ir.InsertionPoint(output_transform.body):
        elements = list(output_transform.body.arguments)
        ops.yield_value(arith.addf(*elements) if addends else elements[0])
    result = output_transform.result
    if is_merged:
        result = split(result, result_type.rank - 1, (groups, convolution.output_channels // groups))
    return transposed(result, inverse_permutation(to_channels_last))


def _addend(
    convolution: Convolution, to_channels_last: list[int], result_type: ir.RankedTensorType
) -> EpilogueOperand:
    """What the convolution is added to, as small as it is where an epilogue can read that."""
    identity = ir.AffineMap.get_identity(result_type.rank)
    if len(to_channels_last) == result_type.rank:
        in_place = permuted_map(identity, to_channels_last)
        operand = match_epilogue_operand(convolution.operation, convolution.init, in_place, result_type)
        if isinstance(operand, EpilogueOperand):
            return build_epilogue_operand(operand)
    _, _, layout = convolution.channels_last_layouts
    init = _with_merged_channels(transposed(convolution.init, to_channels_last), layout)
    operand = match_epilogue_operand(convolution.operation, init, identity, result_type)
    if isinstance(operand, NoMatch):
        return EpilogueOperand(init, identity)
    return build_epilogue_operand(operand)


def _channels_last_filter(convolution: Convolution) -> ir.Value:
    """The filter as R... x C/g x K."""
    _, layout, _ = convolution.channels_last_layouts
    weights = transposed(convolution.filter, _permutation(convolution.filter_layout, layout))
    weights = _with_merged_channels(weights, layout)
    if "c" in layout:
        return weights
    rank = ir.RankedTensorType(weights.type).rank
    return split(weights, rank - 1, (1, convolution.output_channels))


def _has_merged_channels(layout: str) -> bool:
    """Whether the last two dimensions are groups and the channels of each."""
    return layout[-2] == "g"


def _with_merged_channels(value: ir.Value, layout: str) -> ir.Value:
    """`value` of `layout` with the channels of all groups in its last dimension."""
    return merged(value, len(layout) - 2) if _has_merged_channels(layout) else value


def _batch_matmul(
    convolution: Convolution, activation: ops.InputTransformOp, weights: ops.FilterTransformOp
) -> ir.Value:
    products, tiles, _ = activation.result.type.shape
    filters = weights.result.type.shape[2]
    if convolution.unknown_sizes:
        tiles = size_of(activation.result, 1)
    elif convolution.batch is None:
        tiles_per_image = activation.decomposition.tiles(convolution.output_size)
        tiles = _times(size_of(activation.input, 0), tiles_per_image)
    init = zero_filled([products, tiles, filters], convolution.element_type)
    product = build_named(linalg.BatchMatmulOp, [activation.result, weights.result], init)
    hand_over_schedule(convolution.operation, product.owner)
    return product


def _times(batch: ir.Value, tiles_per_image: tuple[int, ...]) -> ir.Value:
    """The number of tiles of all images, as an `index` value."""
    for tiles in tiles_per_image:
        batch = arith.muli(batch, arith.constant(ir.IndexType.get(), tiles))
    return batch


def _permutation(layout: str, target: str) -> list[int]:
    return [layout.index(letter) for letter in target]


def _description(convolution: Convolution) -> str:
    kernel = "x".join(map(str, convolution.kernel_size))
    channels = f"{convolution.input_channels} to {convolution.output_channels} channels"
    return f"{kernel}, {channels}" + (f" in {convolution.groups} groups" if convolution.groups > 1 else "")
