"""Transform constant filters at compile time."""

from __future__ import annotations

from functools import partial

from iree.winograd.dialect import ops, reference
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.constants import SharedConstants
from iree.winograd.passes.build.groups import merged
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.constants import Array, constant_array, is_constant
from iree.winograd.passes.match.convolution_form import convolutions
from iree.winograd.passes.match.filters import filter_array
from iree.winograd.passes.match.navigation import defining_operation, transforms
from iree.winograd.passes.rewrite.erasure import erase_if_unused


@register_pass("winograd-fold-filter")
class FoldFilter:
    """Transform constant filters at compile time.

    A filter that is a constant, also one that is transposed or reshaped, is transformed in float64 and
    rounded once. The result is a resource, which takes alpha^D / kernel size times the memory of the filter.
    One tap for tiles of one output is as it was, in another shape: that is not copied. A filter that the op
    reads permuted or flipped is transformed as it reads it. One known only at run time keeps its op. Of one
    filter that several convolutions transform alike there is one resource.

        %w = arith.constant dense_resource<w> : tensor<3x3x8x4xf32>
        %u = "winograd.filter_transform"(%w) : (tensor<3x3x8x4xf32>) -> tensor<36x8x4xf32>
      becomes
        %u = arith.constant dense_resource<winograd_filter> : tensor<36x8x4xf32>
    """

    def run(self, module: ir.Operation) -> None:
        constants = SharedConstants()
        filters = transforms(module, ops.FilterTransformOp)
        rewrite_each("filter transform", filters, partial(_fold, constants))
        rewrite_each("convolution", list(convolutions(module)), partial(_fold_layout, constants))


def _fold(constants: SharedConstants, transform: ops.FilterTransformOp) -> None:
    if not is_constant(transform.filter):
        return
    with transform.location, ir.InsertionPoint(transform):
        folded = _reshaped(transform) if _is_identity(transform) else _transformed(constants, transform)
    if folded is not None:
        transform.result.replace_all_uses_with(folded)
        erase_if_unused([transform.operation])


def _is_identity(transform: ops.FilterTransformOp) -> bool:
    """Whether elements stay what and where they are: of one tap, of one group, for tiles of one output."""
    decomposition = transform.decomposition
    if list(transform.permutation) != sorted(transform.permutation):
        return False
    return decomposition.point_count == decomposition.view_count == transform.groups == 1


def _reshaped(transform: ops.FilterTransformOp) -> ir.Value:
    filters: ir.Value = transform.filter
    for _ in transform.decomposition.kernel_size[1:]:
        filters = merged(filters, 0)
    return filters


def _transformed(constants: SharedConstants, transform: ops.FilterTransformOp) -> ir.Value | None:
    decomposition, groups = transform.decomposition, transform.groups

    def compute() -> Array | None:
        weights = filter_array(transform)
        return None if weights is None else reference.filter_transform(weights, decomposition, groups)

    how = decomposition, groups, tuple(transform.permutation), transform.flipped
    return constants.computed(transform.filter, how, "winograd_filter", compute)


def _fold_layout(constants: SharedConstants, convolution: ir.Operation) -> None:
    """Give a constant filter of a convolution that stays one the layout that it is transposed to."""
    weights = convolution.operands[1]
    definition = defining_operation(weights)
    if definition is None or definition.name != "linalg.transpose":
        return
    if not is_constant(weights):
        return
    with definition.location, ir.InsertionPoint(definition):
        folded = constants.computed(
            weights, "in its layout", "channels_last_filter", lambda: constant_array(weights)
        )
    if folded is not None:
        weights.replace_all_uses_with(folded)
        erase_if_unused([definition])
