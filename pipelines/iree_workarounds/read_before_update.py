"""Have others read a tensor before a part of it is computed in its memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import defining_operation, walk

_DISPATCH = "flow.dispatch"
_RESHAPE = "flow.tensor.reshape"
_UPDATE = "flow.tensor.update"
_UNDEFINED = ("flow.tensor.empty", "flow.tensor.alloca")
_TIED = "tied_operands"
_BECOMES_UPDATES = (_UPDATE, "tensor.concat", "tensor.insert_slice", "tensor.pad")


@register_pass("winograd-read-before-update")
class ReadBeforeUpdate:
    """Have others read a tensor before a part of it is computed in its memory.

    IREE 3.13 has a dispatch write its result where an update would put it, when the dispatch is due, not the
    update. `iree-stream-emplace-allocations` doesn't look for what reads the tensor between the two, or
    copies it for another update, as where two concatenations begin with the same part: that gets what the
    dispatch has written. So dispatches are moved to the updates that their results are for, where others
    use the tensor, or one that it is an update of.

        %d = flow.dispatch @part(%x)
        %t = flow.dispatch @whole(%y)
        %r = flow.dispatch @read(%t)
        %u = flow.tensor.update %d, %t[%c0]
      becomes
        %t = flow.dispatch @whole(%y)
        %r = flow.dispatch @read(%t)
        %d = flow.dispatch @part(%x)
        %u = flow.tensor.update %d, %t[%c0]

    Dispatches of which something else reads another result before stay where they are.
    """

    def run(self, module: ir.Operation) -> None:
        updates = [each for each in walk(module) if each.name == _UPDATE]
        rewrite_each("update", updates, _compute_late)


def may_update(operation: ir.Operation) -> bool:
    """Whether IREE may make an update of it, before its phase `flow` ends."""
    return operation.name in _BECOMES_UPDATES


def _compute_late(update: ir.Operation) -> None:
    target, part = _target_and_part(update)
    computing = _computing(part, update)
    if not computing or not _is_used_by_others(target):
        return
    for operation in computing:
        operation.move_before(update)


def _target_and_part(update: ir.Operation) -> tuple[ir.Value, ir.Value]:
    """What it writes to, and what it writes there."""
    sizes = list(ir.DenseI32ArrayAttr(update.attributes["operandSegmentSizes"]))
    return update.operands[0], update.operands[sum(sizes[:3])]


def _computing(part: ir.Value, update: ir.Operation) -> Sequence[ir.Operation]:
    """The dispatch that `part` is a result of, and reshapes of it, in order; none if it can't move."""
    computing: list[ir.Operation] = []
    operation = defining_operation(part)
    while operation is not None and operation.name == _RESHAPE:
        computing.insert(0, operation)
        operation = defining_operation(operation.operands[0])
    if operation is None or operation.name != _DISPATCH or operation.block != update.block:
        return ()
    computing.insert(0, operation)
    users = [use.owner.operation for each in computing for result in each.results for use in result.uses]
    is_read_later = all(
        user in computing
        or user == update
        or (user.block == update.block and update.is_before_in_block(user))
        for user in users
    )
    return computing if is_read_later else ()


def _is_used_by_others(target: ir.Value) -> bool:
    """Whether any tensor whose memory `target` may have, and that holds something, is used more than once."""
    return any(sum(1 for _ in each.uses) > 1 for each in _in_its_memory(target))


def _in_its_memory(target: ir.Value) -> Iterator[ir.Value]:
    """`target`, and what it is a reshape or an update of, or a kernel's result in place of."""
    value: ir.Value | None = target
    while value is not None:
        operation = defining_operation(value)
        if operation is not None and operation.name in _UNDEFINED:
            return
        yield value
        value = None if operation is None else _former(operation, value)


def _former(operation: ir.Operation, result: ir.Value) -> ir.Value | None:
    """The operand in whose memory the result of an operation may be."""
    if operation.name in (_RESHAPE, _UPDATE):
        return operation.operands[0]
    if operation.name == _DISPATCH and _TIED in operation.attributes:
        number = ir.IntegerAttr(ir.ArrayAttr(operation.attributes[_TIED])[ir.OpResult(result).result_number])
        return operation.operands[number.value] if number.value >= 0 else None
    return None
