"""Have kernels read and write channels-first images, and read filters, as they are."""

from __future__ import annotations

from dataclasses import replace

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.bodies import inline_block
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_left
from iree.winograd.passes.match.layouts.image_layout import (
    is_transposition,
    to_channels_first,
    to_channels_last,
)
from iree.winograd.passes.match.navigation import defining_operation, only_user, transforms
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.reversal import Reversal, match_reversal
from iree.winograd.passes.rewrite.channels_first import read_channels_first
from iree.winograd.passes.rewrite.erasure import erase_if_unused
from iree.winograd.pipelines.backends.schedules import schedule_of
from iree.winograd.pipelines.backends.search_space import SearchSpace
from iree.winograd.pipelines.problems.group import ConvolutionGroup, match_group
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from ..selection.module_space import module_space

PASS_NAME = "winograd-fold-layout"


@register_pass(PASS_NAME)
class FoldLayout:
    """Have kernels read and write channels-first images, and read filters, as they are.

    Where convolutions are channels last but the program is not, its images are transposed: the input of its
    first convolution, the output of its last one. A transposition that only an input transform reads, or that
    is all that reads an output transform, becomes part of the transform, if the target's kernels take such an
    image by the schedule that they have. The maps of an epilogue stay those of `(n, spatial..., k)`. A
    filter's transposition, and its reversal, which the gradient of an image has, become part of its
    transform, too.

        %t = linalg.transpose ins(%x : tensor<1x32x14x14xf32>) permutation = [0, 2, 3, 1]
        %v = "winograd.input_transform"(%t) : (tensor<1x14x14x32xf32>) -> tensor<36x9x32xf32>
        %f = linalg.transpose ins(%w : tensor<32x32x3x3xf32>) permutation = [2, 3, 1, 0]
        %u = "winograd.filter_transform"(%f) : (tensor<3x3x32x32xf32>) -> tensor<36x32x32xf32>
        %m = linalg.batch_matmul {winograd.schedule = ...} ins(%v, %u : ...)
        %r = "winograd.output_transform"(%m) ({...}) : (tensor<36x9x32xf32>) -> tensor<1x12x12x32xf32>
        %s = linalg.transpose ins(%r) permutation = [0, 3, 1, 2]
      becomes
        %v = "winograd.input_transform"(%x) {channels_first} : (tensor<1x32x14x14xf32>) -> tensor<36x9x32xf32>
        %u = "winograd.filter_transform"(%w) {permutation = array<i64: 2, 3, 1, 0>}
               : (tensor<32x32x3x3xf32>) -> tensor<36x32x32xf32>
        %m = linalg.batch_matmul {winograd.schedule = ...} ins(%v, %u : ...)
        %s = "winograd.output_transform"(%m) ({...}) {channels_first}
               : (tensor<36x9x32xf32>) -> tensor<1x32x12x12xf32>
    """

    def run(self, module: ir.Operation) -> None:
        outputs = transforms(module, ops.OutputTransformOp)
        if not outputs:
            return
        space = module_space(module, machine=None, threads=1)
        rewrite_each("output transform", outputs, lambda transform: _fold(transform, space))
        rewrite_each("filter transform", transforms(module, ops.FilterTransformOp), _fold_filter)


def _fold(output_transform: ops.OutputTransformOp, space: SearchSpace) -> None:
    group = match_group(output_transform)
    schedule = None if isinstance(group, NoMatch) else schedule_of(group.product)
    if isinstance(group, NoMatch) or schedule is None:
        # The lowering reports these.
        return
    transposition = _match_input(group, space, schedule)
    if isinstance(transposition, ir.Operation):
        group = replace(group, input_transform=read_channels_first(group.input_transform, transposition))
    elif transposition is not None:
        remark_left(PASS_NAME, transposition)
    transposition = _match_output(group, space, schedule)
    if isinstance(transposition, ir.Operation):
        _fold_output(output_transform, transposition)
    elif transposition is not None:
        remark_left(PASS_NAME, transposition)


def _match_input(
    group: ConvolutionGroup, space: SearchSpace, schedule: Schedule
) -> ir.Operation | NoMatch | None:
    """The transposition that gives the group's input, why it stays, or None if there is none."""
    source = group.input_transform.input
    transposition = defining_operation(source)
    if transposition is None or not is_transposition(transposition, to_channels_last(source.type.rank)):
        return None
    # The group's transform is among the users.
    if only_user(source) is None:
        return NoMatch(transposition, "something else reads the transposed image, too")
    return _refused(transposition, replace(group.shape, input_channels_first=True), space, schedule)


def _match_output(
    group: ConvolutionGroup, space: SearchSpace, schedule: Schedule
) -> ir.Operation | NoMatch | None:
    """The transposition of the group's output, why it stays, or None if there is none."""
    result = group.output_transform.result
    back = to_channels_first(result.type.rank)
    users = [use.owner.operation for use in result.uses]
    transposition = next((user for user in users if is_transposition(user, back)), None)
    if transposition is None:
        return None
    if len(users) > 1:
        return NoMatch(transposition, "something else reads the convolution's output, too")
    if transposition.block != group.output_transform.operation.block:
        return NoMatch(transposition, "it is in another block than the convolution")
    return _refused(transposition, replace(group.shape, output_channels_first=True), space, schedule)


def _refused(
    transposition: ir.Operation, shape: ConvolutionShape, space: SearchSpace, schedule: Schedule
) -> ir.Operation | NoMatch:
    """The transposition, unless the kernels don't compute `shape`, which has it as a part."""
    reason = space.misfit(shape, schedule)
    return transposition if reason is None else NoMatch(transposition, reason)


def _fold_output(transform: ops.OutputTransformOp, transposition: ir.Operation) -> None:
    with transform.location, ir.InsertionPoint(transposition):
        folded = ops.output_transform(
            ir.RankedTensorType(transposition.results[0].type),
            transform.accumulator,
            transform.decomposition,
            transform.groups,
            transform.epilogue_operands,
            transform.indexing_maps,
            channels_first=True,
        )
        with ir.InsertionPoint(folded.body):
            (output,) = inline_block(transform.body, list(folded.body.arguments))
            ops.yield_value(output)
    transposition.results[0].replace_all_uses_with(folded.result)
    erase_if_unused([transposition])


def _fold_filter(transform: ops.FilterTransformOp) -> None:
    permutation, flipped = transform.permutation, transform.flipped
    filters = transform.filter
    while (moved := _match_moved(filters, len(permutation))) is not None:
        *spatial, inputs, outputs = (moved.reversed[d] for d in permutation)
        if any((*spatial, inputs, outputs)):
            # A single tap is as well reversed as not.
            sizes = transform.decomposition.kernel_size
            if (
                inputs
                or outputs
                or any(size > 1 and not each for each, size in zip(spatial, sizes, strict=True))
            ):
                break
            flipped = not flipped
        permutation = tuple(moved.permutation[d] for d in permutation)
        filters = moved.source
    if filters == transform.filter:
        return
    with transform.location, ir.InsertionPoint(transform):
        folded = ops.filter_transform(
            filters, transform.decomposition, transform.groups, permutation=permutation, flipped=flipped
        )
    transform.result.replace_all_uses_with(folded.result)
    erase_if_unused([transform.operation])


def _match_moved(filters: ir.Value, rank: int) -> Reversal | None:
    """What a filter is a transposition or a reversal of, of all taps or none."""
    operation = defining_operation(filters)
    if operation is None:
        return None
    if operation.name == "linalg.transpose":
        return Reversal(operation.operands[0], tuple(operation.attributes["permutation"]), (False,) * rank)
    return match_reversal(operation)
