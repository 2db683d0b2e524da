"""Transform constant filters at compile time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from math import prod

from iree.winograd.dialect import ops, reference
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.constants import SharedConstants
from iree.winograd.passes.build.groups import merged
from iree.winograd.passes.infrastructure.algorithm import TAKES_FILTER_ATTRIBUTE_NAME
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.option import check_options, is_positive, option
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_analysis
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.passes.match.convolutions.filters import filter_array
from iree.winograd.passes.match.navigation import defining_operation, transforms
from iree.winograd.passes.match.values.constant_identity import constant_identity
from iree.winograd.passes.match.values.constants import AT_LOAD_ATTRIBUTE, Array, constant_array, is_constant
from iree.winograd.passes.rewrite.erasure import erase_if_unused

PASS_NAME = "winograd-fold-filter"
MOST_GROWTH = 256 << 20
"""Bytes by which transformed filters may exceed filters in a file, if that isn't decided by a user: those of
VGG-16 do by 200 MB, of a VAE decoder by 730 MB. Transforming them takes memory, too, three times as much."""


@register_pass(PASS_NAME)
@dataclass(frozen=True)
class FoldFilter:
    """Transform constant filters at compile time.

    A filter that is a constant, also one that is transposed or reshaped, is transformed in float64 and
    rounded once. The result is a resource, which takes alpha^D / kernel size times the memory of the filter.
    One tap for tiles of one output is as it was, in another shape: that is not copied. A filter that the op
    reads permuted or flipped is transformed as it reads it. One known only at run time keeps its op. Of one
    filter that several convolutions transform alike there is one resource. Those that a kernel transforms
    in each call stay. Where all together would be larger
    than the filters by more than `most_growth` bytes, they stay, and the module says so: they are transformed
    when the program is loaded.

        %w = arith.constant dense_resource<w> : tensor<3x3x8x4xf32>
        %u = "winograd.filter_transform"(%w) : (tensor<3x3x8x4xf32>) -> tensor<36x8x4xf32>
      becomes
        %u = arith.constant dense_resource<winograd_filter> : tensor<36x8x4xf32>
    """

    most_growth: int | None = option(
        None,
        "a positive integer",
        "leave filters as they are where they would grow by more bytes",
        auto="any number",
        accepts=is_positive,
    )

    def __post_init__(self) -> None:
        check_options(self)

    def run(self, module: ir.Operation) -> None:
        filters = [each for each in transforms(module, ops.FilterTransformOp) if not _is_taken(each)]
        if self.most_growth is not None and (growth := _growth(filters)) > self.most_growth:
            module.attributes[AT_LOAD_ATTRIBUTE] = ir.UnitAttr.get(module.context)
            message = f"filters are transformed when the program is loaded: they grow by {growth >> 20} MiB"
            remark_analysis(module, PASS_NAME, message)
            return
        constants = SharedConstants()
        rewrite_each("filter transform", filters, partial(_fold, constants))
        rewrite_each("convolution", list(convolutions(module)), partial(_fold_layout, constants))


def _is_taken(transform: ops.FilterTransformOp) -> bool:
    """Whether kernels take the filter as it is."""
    uses = list(transform.result.uses)
    return bool(uses) and all(TAKES_FILTER_ATTRIBUTE_NAME in use.owner.attributes for use in uses)


def _growth(filters: Iterable[ops.FilterTransformOp]) -> int:
    """Bytes by which constant filters grow together, each once for all that transform it alike."""
    distinct = {
        (constant_identity(each.filter), _manner(each)): each
        for each in filters
        if is_constant(each.filter) and not _is_identity(each)
    }
    grown = (prod(each.result.type.shape) - prod(each.filter.type.shape) for each in distinct.values())
    of_element = 4
    return of_element * int(sum(grown))


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

    return constants.computed(transform.filter, _manner(transform), "winograd_filter", compute)


def _manner(transform: ops.FilterTransformOp) -> Hashable:
    """How a filter is transformed."""
    return transform.decomposition, transform.groups, tuple(transform.permutation), transform.flipped


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
