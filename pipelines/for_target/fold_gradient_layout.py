"""Have kernels of weight gradients read channels-first images, and write filters, as they are."""

from __future__ import annotations

from dataclasses import replace

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.transpositions import inverse_permutation
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_left
from iree.winograd.passes.match.layouts.image_layout import comes_channels_first
from iree.winograd.passes.match.navigation import defining_operation, only_user, transforms
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.rewrite.channels_first import read_channels_first
from iree.winograd.passes.rewrite.erasure import erase_if_unused
from iree.winograd.pipelines.backends.schedules import schedule_of
from iree.winograd.pipelines.backends.search_space import SearchSpace
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.shape import WeightGradientShape
from iree.winograd.pipelines.problems.weight_gradient_group import match_weight_gradient_group

from ..selection.module_space import module_space

PASS_NAME = "winograd-fold-gradient-layout"


@register_pass(PASS_NAME)
class FoldGradientLayout:
    """Have kernels of weight gradients read channels-first images, and write filters, as they are.

    A weight gradient is computed of channels-last images, and gives R... x C/g x K. Where the program has
    them in another layout, they are transposed. A transposition that only the gradient reads, or that is all
    that reads the result, becomes part of a transform, if the target's kernels take it so.

        %t = linalg.transpose ins(%x : tensor<8x16x14x14xf32>) permutation = [0, 2, 3, 1]
        %d = linalg.transpose ins(%y : tensor<8x4x12x12xf32>) permutation = [0, 2, 3, 1]
        %v = "winograd.input_transform"(%t) : (tensor<8x14x14x16xf32>) -> tensor<36x72x16xf32>
        %z = "winograd.gradient_transform"(%d) : (tensor<8x12x12x4xf32>) -> tensor<36x72x4xf32>
        %m = linalg.batch_matmul {winograd.schedule = ...} ins(%v, %z : ...)
        %w = "winograd.filter_gradient"(%m) : (tensor<36x16x4xf32>) -> tensor<3x3x16x4xf32>
        %g = linalg.transpose ins(%w) permutation = [3, 2, 0, 1]
      becomes
        %v = "winograd.input_transform"(%x) {channels_first}
               : (tensor<8x16x14x14xf32>) -> tensor<36x72x16xf32>
        %z = "winograd.gradient_transform"(%y) {channels_first}
               : (tensor<8x4x12x12xf32>) -> tensor<36x72x4xf32>
        %m = linalg.batch_matmul {winograd.schedule = ...} ins(%v, %z : ...)
        %g = "winograd.filter_gradient"(%m) {permutation = array<i64: 2, 3, 1, 0>}
               : (tensor<36x16x4xf32>) -> tensor<4x16x3x3xf32>
    """

    def run(self, module: ir.Operation) -> None:
        gradients = transforms(module, ops.FilterGradientOp)
        if not gradients:
            return
        space = module_space(module, machine=None, threads=1)
        rewrite_each("filter gradient", gradients, lambda gradient: _fold(gradient, space))


def _fold(filter_gradient: ops.FilterGradientOp, space: SearchSpace) -> None:
    group = match_weight_gradient_group(filter_gradient)
    schedule = None if isinstance(group, NoMatch) else schedule_of(group.product)
    if isinstance(group, NoMatch) or schedule is None:
        # The lowering reports these.
        return
    transposition = _channels_last_transposition(group.input_transform.input)
    if transposition is not None and _is_taken(
        transposition, replace(group.shape, input_channels_first=True), space, schedule
    ):
        group = replace(group, input_transform=read_channels_first(group.input_transform, transposition))
    transposition = _channels_last_transposition(group.gradient_transform.gradient)
    if transposition is not None and _is_taken(
        transposition, replace(group.shape, output_channels_first=True), space, schedule
    ):
        group = replace(group, gradient_transform=_fold_gradient(group.gradient_transform, transposition))
    # Torch has a filter's channels first, and a program with channels-last tensors transposes them again.
    while (transposition := _filter_transposition(group.filter_gradient)) is not None and _is_taken(
        transposition, replace(group.shape, permutes_filter=True), space, schedule
    ):
        group = replace(group, filter_gradient=_fold_filter(group.filter_gradient, transposition))


def _channels_last_transposition(image: ir.Value) -> ir.Operation | None:
    """What transposes a channels-first image for one operation only."""
    return defining_operation(image) if comes_channels_first(image) else None


def _filter_transposition(gradient: ops.FilterGradientOp) -> ir.Operation | None:
    """What transposes the result, if that is all that reads it."""
    user = only_user(gradient.result)
    return user if user is not None and user.name == "linalg.transpose" else None


def _is_taken(
    transposition: ir.Operation, shape: WeightGradientShape, space: SearchSpace, schedule: Schedule
) -> bool:
    """Whether the kernels compute `shape`, which has the transposition as a part."""
    reason = space.misfit(shape, schedule)
    if reason is not None:
        remark_left(PASS_NAME, NoMatch(transposition, reason))
    return reason is None


def _fold_gradient(
    transform: ops.GradientTransformOp, transposition: ir.Operation
) -> ops.GradientTransformOp:
    with transform.location, ir.InsertionPoint(transform):
        folded = ops.gradient_transform(
            transposition.operands[0], transform.decomposition, transform.groups, channels_first=True
        )
    transform.result.replace_all_uses_with(folded.result)
    erase_if_unused([transform.operation])
    return folded


def _fold_filter(gradient: ops.FilterGradientOp, transposition: ir.Operation) -> ops.FilterGradientOp:
    inverse = inverse_permutation(list(transposition.attributes["permutation"]))
    with gradient.location, ir.InsertionPoint(gradient):
        folded = ops.filter_gradient(
            ir.RankedTensorType(transposition.results[0].type),
            gradient.accumulator,
            gradient.decomposition,
            gradient.groups,
            permutation=[inverse[d] for d in gradient.permutation],
        )
    transposition.results[0].replace_all_uses_with(folded.result)
    erase_if_unused([transposition])
    return folded
