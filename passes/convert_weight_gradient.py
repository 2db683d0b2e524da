"""Rewrite annotated gradients of filters to winograd ops."""

from __future__ import annotations

from operator import itemgetter

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir, linalg
from iree.winograd.passes.build.groups import merged, split
from iree.winograd.passes.build.named import build_named
from iree.winograd.passes.build.tensors import zero_filled
from iree.winograd.passes.infrastructure.algorithm import Algorithm, annotated_algorithm, hand_over_schedule
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import PassError, register_pass
from iree.winograd.passes.infrastructure.remarks import remark_applied
from iree.winograd.passes.infrastructure.unit import Unit, keep_origin
from iree.winograd.passes.match.convolutions.weight_gradient import (
    WeightGradient,
    match_weight_gradient,
    tile_product_maps,
    weight_gradients,
)
from iree.winograd.passes.match.layouts.padding import Padding
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.rewrite.erasure import erase_if_unused
from iree.winograd.passes.rewrite.grouped import fold_merged
from iree.winograd.passes.rewrite.weight_gradient import rewrite_weight_gradient

PASS_NAME = "winograd-convert-weight-gradient"


@register_pass(PASS_NAME)
class ConvertWeightGradient:
    """Rewrite annotated gradients of filters to winograd ops.

    The gradient by the filter of a convolution that is computed by F(m, p) takes the transposes of its
    transforms (Huang et al., AAAI 2020, equation 15): images are transformed as they are for the convolution,
    the gradients of its outputs by the transpose of the output transform, their products are summed over the
    tiles of all images, and the transpose of the filter transform gives the gradients of the taps.

        %g = linalg.generic {winograd.algorithm = {
               output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>}}
               ins(%x, %dy : tensor<8x8x16x16xf32>, tensor<8x4x14x14xf32>) outs(%zeros : tensor<4x8x3x3xf32>)
      becomes
        %v = "winograd.input_transform"(%x') : (tensor<8x16x16x8xf32>) -> tensor<36x128x8xf32>
        %z = "winograd.gradient_transform"(%dy') : (tensor<8x14x14x4xf32>) -> tensor<36x128x4xf32>
        %m = linalg.batch_matmul indexing_maps = [...] ins(%v, %z)     %v transposed: summed over tiles
        %w = "winograd.filter_gradient"(%m) : (tensor<36x8x4xf32>) -> tensor<3x3x8x4xf32>
        %g = linalg.transpose ins(%w) permutation = [3, 2, 0, 1]
    """

    def run(self, module: ir.Operation) -> None:
        rewrite_each(
            "weight gradient",
            enumerate(list(weight_gradients(module))),
            _convert,
            operation_of=itemgetter(1),
            leaves_out_origin=True,
        )


def _convert(numbered: tuple[int, ir.Operation]) -> None:
    number, operation = numbered
    algorithm = annotated_algorithm(operation)
    if algorithm is None:
        return
    keep_origin(operation, Unit(PASS_NAME, "weight gradient", number))
    operation = rewrite_weight_gradient(operation)
    found = match_weight_gradient(operation)
    if isinstance(found, NoMatch) or len(algorithm.output_tile) != found.spatial_rank:
        reason = str(found) if isinstance(found, NoMatch) else f"it has {found.spatial_rank} dimensions"
        operation.location.emit_error(f"an annotated gradient can't be converted by {algorithm}: {reason}")
        raise PassError
    with operation.location, ir.InsertionPoint(operation):
        result = _build_winograd_ops(found, algorithm)
    remark_applied(operation, PASS_NAME, f"weight gradient {number} ({found.problem}) by {algorithm}")
    operation.results[0].replace_all_uses_with(result)
    erase_if_unused([operation])
    fold_merged(result)


def _build_winograd_ops(found: WeightGradient, algorithm: Algorithm) -> ir.Value:
    decomposition, groups = algorithm.decompose(found), found.groups
    unpadded = (0,) * found.spatial_rank
    padding = found.padding or Padding(found.image, unpadded, unpadded)
    image, gradient = padding.source, found.gradient
    is_grouped = "g" in found.image_layout
    if is_grouped:
        image, gradient = (merged(each, found.spatial_rank + 1) for each in (image, gradient))
    images = ops.input_transform(image, decomposition, padding.low, padding.high, groups)
    gradients = ops.gradient_transform(gradient, decomposition, groups)
    product = _tile_product(images.result, gradients.result)
    hand_over_schedule(found.operation, product.owner)
    group_channels = found.group_inputs
    result_type = ir.RankedTensorType.get(
        [*found.kernel_size, group_channels, found.output_channels], image.type.element_type
    )
    result = ops.filter_gradient(result_type, product, decomposition, groups).result
    if is_grouped:
        result = split(result, found.spatial_rank + 1, (groups, found.group_outputs))
    return result


def _tile_product(images: ir.Value, gradients: ir.Value) -> ir.Value:
    """Build the product of [A*g, T, C], transposed, and [A*g, T, K]: [A*g, C, K]."""
    points, _, channels = images.type.shape
    zeros = zero_filled([points, channels, gradients.type.shape[2]], images.type.element_type)
    return build_named(linalg.BatchMatmulOp, [images, gradients], zeros, indexing_maps=tile_product_maps())
