"""Check sizes before anything is computed: IREE ends its commands at each check."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import defining_operation, walk

_ASSERT = "cf.assert"
_FUNCTIONS = ("func.func", "util.func")
_ON_NUMBERS = ("arith.", "hal.buffer_view.dim", "util.align")
"""Operations that have numbers of numbers, and of the sizes of what the caller gives."""
_ON_TENSORS = ("flow.", "tensor.", "linalg.", "iree_tensor_ext.")


@register_pass("winograd-assert-first")
class AssertFirst:
    """Check sizes before anything is computed: IREE ends its commands at each check.

    Where images of sizes known only at run time are added, as levels of a feature pyramid are, programs
    check that their sizes are the same. What is before such a check is commands of their own in IREE 3.13,
    and so is the memory of what lives beyond it. Checks of numbers that follow from the sizes of arguments
    go to where these are known, before the first operation on tensors; in IREE's program after `flow`, where
    all sizes are numbers.

        %a = flow.dispatch @k(%x, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}
        %same = arith.cmpi eq, %n, %m : index
        cf.assert %same, "mismatched size for broadcast"
        %b = flow.dispatch @l(%a, %y) ...
      becomes
        %same = arith.cmpi eq, %n, %m : index
        cf.assert %same, "mismatched size for broadcast"
        %a = flow.dispatch @k(%x, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}
        %b = flow.dispatch @l(%a, %y) ...
    """

    def run(self, module: ir.Operation) -> None:
        checks = [each for each in walk(module) if is_check(each)]
        rewrite_each("check", checks, _check_first)


def is_check(operation: ir.Operation) -> bool:
    """Whether a program checks something between operations on tensors."""
    return operation.name == _ASSERT and operation.parent.operation.name in _FUNCTIONS


def _check_first(check: ir.Operation) -> None:
    operations = (view.operation for view in check.block.operations)
    first = next((each for each in operations if each.name.startswith(_ON_TENSORS)), None)
    if first is None or not first.is_before_in_block(check):
        return
    needed = _needed(check, first)
    for operation in needed or ():
        operation.move_before(first)


def _needed(check: ir.Operation, first: ir.Operation) -> list[ir.Operation] | None:
    """What has to be moved before `first`, in order, the check last; None where it follows from a tensor."""
    found: dict[ir.Operation, None] = {}
    if not all(_add_needed(each, first, found) for each in _definitions(check)):
        return None
    return [*found, check]


def _add_needed(operation: ir.Operation, first: ir.Operation, found: dict[ir.Operation, None]) -> bool:
    """Add an operation, after what it needs, to `found`, unless it is before `first`.

    Returns False where it follows from a tensor.
    """
    if operation in found or operation.block != first.block or operation.is_before_in_block(first):
        return True
    if not operation.name.startswith(_ON_NUMBERS):
        return False
    if not all(_add_needed(each, first, found) for each in _definitions(operation)):
        return False
    found[operation] = None
    return True


def _definitions(operation: ir.Operation) -> list[ir.Operation]:
    definitions = map(defining_operation, operation.operands)
    return [each for each in definitions if each is not None]
