"""Make one operation of elementwise ones that part and meet again."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_left
from iree.winograd.passes.match.elementwise import Elementwise, captures, match_elementwise
from iree.winograd.passes.match.epilogues.epilogue_operand import EpilogueOperand, match_epilogue_operand
from iree.winograd.passes.match.groups import merged_pixels
from iree.winograd.passes.match.navigation import defining_operation, only_user, transforms, walk
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.values.constants import splat_element
from iree.winograd.passes.rewrite.erasure import erase_if_unused
from iree.winograd.passes.rewrite.merged_elementwise import Meeting, build_merged

PASS_NAME = "winograd-merge-elementwise"


@register_pass(PASS_NAME)
class MergeElementwise:
    """Make one operation of elementwise ones that part and meet again.

    Swish is `x * sigmoid(x)`: two operations use the convolution's output, so that neither could move into
    its epilogue without the other. Where a convolution's output, or what elementwise operations make of it,
    has several users, and all that they compute is elementwise, used nowhere else and comes together in one
    operation, this operation computes all of it. Its operands are those of all of them. What uses a
    concatenation is merged alike, and what uses a convolution's pixels as tokens: GELU of ONNX models is five
    operations. What follows a convolution also computes what it alone reads, where that is arithmetic without
    functions on numbers, on what is read before it and on at most one other tensor: of the
    gated sum `u * c + (1 - u) * s`, where `c` is the convolution's output, the second product.

        %y = "winograd.output_transform"(%m) : (tensor<16x49x4xf32>) -> tensor<1x14x14x4xf32>
        %s = linalg.generic ins(%y : tensor<1x14x14x4xf32>) { arith.negf, math.exp, arith.addf, arith.divf }
        %r = linalg.generic ins(%y, %s : tensor<1x14x14x4xf32>, tensor<1x14x14x4xf32>) { arith.mulf }
      becomes
        %y = "winograd.output_transform"(%m) : (tensor<16x49x4xf32>) -> tensor<1x14x14x4xf32>
        %r = linalg.generic ins(%y : tensor<1x14x14x4xf32>) {
               arith.negf, math.exp, arith.addf, arith.divf, arith.mulf }
    """

    def run(self, module: ir.Operation) -> None:
        rewrite_each("output transform", transforms(module, ops.OutputTransformOp), _merge_transform_users)
        concatenations = [each for each in walk(module) if each.name == "tensor.concat"]
        rewrite_each("concatenation", concatenations, lambda each: _merge_users(each.results[0]))


def _merge_users(value: ir.Value) -> ir.Value:
    """Merge what follows `value`, one operation after the other; the last one's result."""
    while (following := _merged_user(value)) is not None:
        value = following.result
    return value


def _merge_transform_users(transform: ops.OutputTransformOp) -> None:
    value = _merge_users(transform.result)
    if (tokens := merged_pixels(value)) is not None:
        value = _merge_users(tokens)
    users = {use.owner.operation for use in value.uses}
    if len(users) > 1 and all(isinstance(match_elementwise(user), Elementwise) for user in users):
        reason = f"the {len(users)} elementwise operations that use it don't come together, and alone, in one"
        remark_left(PASS_NAME, NoMatch(value.owner.operation, reason))
    _merge_operands(transform.result)


def _merge_operands(value: ir.Value) -> None:
    """Merge what follows `value`, each operation the only user of the last one, with its own operands."""
    known: set[tuple[ir.Value, ir.AffineMap]] = set()
    while (following := next(_path(value, only_user(value)), None)) is not None:
        operands = _match_operands(following, value, known)
        if operands:
            following = _merge_into(Meeting(following, operands))
        if following is None:
            return
        known.update(following.reads)
        value = following.result


def _match_operands(
    last: Elementwise, value: ir.Value, known: Collection[tuple[ir.Value, ir.AffineMap]]
) -> dict[ir.Operation, Elementwise]:
    """The operations that only `last`, which follows `value`, reads, and that read little beside `known`."""
    found: dict[ir.Operation, Elementwise] = {}
    for source, _ in last.reads:
        operand = None if source == value else _match_operand(source, last)
        if operand is None:
            continue
        computed = {operand.operation: operand}
        for inner, _ in operand.reads:
            if (further := _match_operand(inner, operand)) is not None:
                computed[further.operation] = further
        reads = {
            (inner, indexing_map)
            for each in computed.values()
            for inner, indexing_map in each.reads
            if defining_operation(inner) not in computed and splat_element(inner) is None
        }
        result_type = ir.RankedTensorType(last.result.type)
        # A convolution's own epilogue computes what is made of its output.
        is_readable = all(
            not _is_transformed(read[0])
            and isinstance(match_epilogue_operand(last.operation, *read, result_type), EpilogueOperand)
            for read in reads
        )
        if is_readable and len(reads - set(known) - set(last.reads)) <= 1:
            found |= computed
    return found


def _is_transformed(value: ir.Value) -> bool:
    operation = defining_operation(value)
    return operation is not None and operation.name == ops.OutputTransformOp.OPERATION_NAME


def _match_operand(source: ir.Value, user: Elementwise) -> Elementwise | None:
    """What computes `source`, which nothing but `user` reads, where it is in its place."""
    operation = defining_operation(source)
    if operation is None or operation.block != user.operation.block:
        return None
    if {use.owner.operation for use in source.uses} != {user.operation}:
        return None
    elementwise = match_elementwise(operation)
    if isinstance(elementwise, NoMatch) or not _is_mergeable(elementwise, source):
        return None
    # Functions take registers that an epilogue may not have.
    if any(view.operation.name.startswith("math.") for view in elementwise.body.operations):
        return None
    identity = ir.AffineMap.get_identity(ir.RankedTensorType(source.type).rank)
    is_in_place = all(indexing_map == identity for value, indexing_map in user.reads if value == source)
    return elementwise if is_in_place and source.type == user.result.type else None


def match_meeting(value: ir.Value) -> Meeting | None:
    """Where all that uses `value` comes together."""
    users = dict.fromkeys(use.owner.operation for use in value.uses)
    paths = [list(_path(value, user)) for user in users]
    for last in paths[0] if paths else []:
        others: dict[ir.Operation, Elementwise] = {}
        for path in paths:
            operations = [each.operation for each in path]
            if last.operation not in operations:
                break
            others |= {each.operation: each for each in path[: operations.index(last.operation)]}
        else:
            return Meeting(last, others)
    return None


def _merged_user(value: ir.Value) -> Elementwise | None:
    """The one operation that uses `value`, after merging, if it is elementwise."""
    meeting = match_meeting(value)
    if meeting is None or not meeting.others:
        return None if meeting is None else meeting.last
    return _merge_into(meeting)


def _merge_into(meeting: Meeting) -> Elementwise | None:
    """Build one operation for all of `meeting`, which are gone then."""
    with meeting.last.operation.location, ir.InsertionPoint(meeting.last.operation):
        merged = build_merged(meeting)
    meeting.last.result.replace_all_uses_with(merged)
    erase_if_unused([meeting.last.operation])
    computed = match_elementwise(merged.owner.operation)
    return computed if isinstance(computed, Elementwise) else None


def _path(value: ir.Value, user: ir.Operation | None) -> Iterator[Elementwise]:
    """`user` of `value`, its only user, and so on, as long as they may be merged."""
    block = None if user is None else user.block
    while user is not None and user.block == block:
        elementwise = match_elementwise(user)
        if isinstance(elementwise, NoMatch) or not _is_mergeable(elementwise, value):
            return
        yield elementwise
        value, user = elementwise.result, only_user(elementwise.result)


def _is_mergeable(elementwise: Elementwise, value: ir.Value) -> bool:
    """Whether an operation that reads `value` is arithmetic on it where it is."""
    if not elementwise.is_pure or elementwise.reads_init or captures(elementwise.body):
        return False
    identity = ir.AffineMap.get_identity(ir.RankedTensorType(value.type).rank)
    reads = zip(elementwise.inputs, elementwise.indexing_maps, strict=True)
    return elementwise.result.type == value.type and all(
        indexing_map == identity for source, indexing_map in reads if source == value
    )
