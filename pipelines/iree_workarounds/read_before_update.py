"""Have others read a tensor before a part of it is computed in its memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import defining_operation, walk

_DISPATCH = "flow.dispatch"
_RESHAPE = "flow.tensor.reshape"
_UPDATE = "flow.tensor.update"
_UNDEFINED = ("flow.tensor.empty", "flow.tensor.alloca")
_COMPUTING = ("flow.tensor.", "tensor.", "arith.")
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

    What is computed from other results of such a dispatch moves with it. Where that reads the tensor, too, no
    order is right: the dispatch still writes first.
    """

    def run(self, module: ir.Operation) -> None:
        updates = [each for each in walk(module) if each.name == _UPDATE]
        rewrite_each("update", updates, _compute_late)


def may_update(operation: ir.Operation) -> bool:
    """Whether IREE may make an update of it, before its phase `flow` ends."""
    return operation.name in _BECOMES_UPDATES


def _compute_late(update: ir.Operation) -> None:
    target, part = _target_and_part(update)
    dispatch = _computing(part)
    if dispatch is None or dispatch.block != update.block or not _is_used_by_others(target):
        return
    late = _computed_from(dispatch, update)
    if defining_operation(target) in late or not all(map(_may_move, late)):
        return
    for operation in late:
        operation.move_before(update)


def _target_and_part(update: ir.Operation) -> tuple[ir.Value, ir.Value]:
    """What it writes to, and what it writes there."""
    sizes = list(ir.DenseI32ArrayAttr(update.attributes["operandSegmentSizes"]))
    return update.operands[0], update.operands[sum(sizes[:3])]


def _computing(part: ir.Value) -> ir.Operation | None:
    """The dispatch that `part` is a result of, or a reshape of one."""
    operation = defining_operation(part)
    while operation is not None and operation.name == _RESHAPE:
        operation = defining_operation(operation.operands[0])
    return operation if operation is not None and operation.name == _DISPATCH else None


def _computed_from(dispatch: ir.Operation, update: ir.Operation) -> Collection[ir.Operation]:
    """`dispatch` and what follows from its results before `update`, in order."""
    found = {dispatch: None}
    for view in update.block.operations:
        operation = view.operation
        if operation == update:
            break
        operands = (operand for each in (operation, *walk(operation)) for operand in each.operands)
        if any(defining_operation(operand) in found for operand in operands):
            found[operation] = None
    return found


def _may_move(operation: ir.Operation) -> bool:
    """Whether it only computes tensors."""
    return operation.name == _DISPATCH or str(operation.name).startswith(_COMPUTING)


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
