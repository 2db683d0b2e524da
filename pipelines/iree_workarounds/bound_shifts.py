"""Have shifts by any number of bits be what torch and ONNX have them be."""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import defining_operation, walk

_ARITHMETIC = "arith.shrsi"
_SHIFTS = ("arith.shli", "arith.shrui", _ARITHMETIC)


@register_pass("winograd-bound-shifts")
class BoundShifts:
    """Have shifts by any number of bits be what torch and ONNX have them be.

    torch-mlir's are undefined where that is negative, or not less than the width: processors differ. No bit
    of the operand remains then, and a shift to the right of a negative number leaves copies of its sign.

        %r = arith.shli %x, %bits : i8
        %s = arith.shrsi %x, %bits : i8
      becomes
        %shifted = arith.shli %x, %bits : i8
        %is_inside = arith.cmpi ult, %bits, %c8 : i8
        %r = arith.select %is_inside, %shifted, %c0 : i8
        %most = arith.minui %bits, %c7 : i8
        %s = arith.shrsi %x, %most : i8

    Shifts by constants stay as they are.
    """

    def run(self, module: ir.Operation) -> None:
        rewrite_each("shift", [each for each in walk(module) if _is_unbounded(each)], _bound)


def _is_unbounded(operation: ir.Operation) -> bool:
    if operation.name not in _SHIFTS or not isinstance(operation.results[0].type, ir.IntegerType):
        return False
    bits = defining_operation(operation.operands[1])
    return bits is None or bits.name != "arith.constant"


def _bound(shift: ir.Operation) -> None:
    bits = shift.operands[1]
    if shift.name == _ARITHMETIC:
        with ir.InsertionPoint(shift), shift.location:
            shift.operands[1] = arith.minui(bits, arith.constant(bits.type, bits.type.width - 1))
        return
    result = shift.results[0]
    with ir.InsertionPoint.after(shift), shift.location:
        is_inside = arith.cmpi(arith.CmpIPredicate.ult, bits, arith.constant(bits.type, bits.type.width))
        bounded = arith.select(is_inside, result, arith.constant(bits.type, 0))
    result.replace_all_uses_except(bounded, bounded.owner.operation)
