"""Have functions that are called return images of a shape that nothing reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import called_function, is_public, symbol_name, walk

_NEVER_INLINED = "inlining_policy"
"""The attribute of functions that stay as they are: others are gone before it matters what they return."""


@register_pass("winograd-reshape-returned")
class ReshapeReturned:
    """Have functions that are called return images of a shape that nothing reads.

    IREE 3.13 passes the size of a result along with it, and takes equal ones for the first of them. Where no
    caller uses that one it is dropped, although others are used: `iree-util-ipo` leaves an operand that is no
    more, and the compiler ends by a signal. A caller uses the size of what it reads in the shape in which it
    is returned. IREE's own dispatches mostly read other shapes, of collapsed dimensions; kernels don't. So
    nobody uses any size, where results have two dimensions of one before and after all others.

        util.func private @two() -> (tensor<8x9xf32>, tensor<8x9xf32>)
            attributes {inlining_policy = #util.inline.never} {
          util.return %a, %b
        %r:2 = util.call @two()
        %y = flow.dispatch @kernel::@kernel(%r#1)
      becomes
        util.func private @two() -> (tensor<1x1x8x9x1x1xf32>, tensor<1x1x8x9x1x1xf32>)
          %0 = flow.tensor.reshape %a
          %1 = flow.tensor.reshape %b
          util.return %0, %1
        %r:2 = util.call @two()
        %s = flow.tensor.reshape %r#1
        %y = flow.dispatch @kernel::@kernel(%s)

    Results that share their type with no other, or of unknown sizes, stay as they are.
    """

    def run(self, module: ir.Operation) -> None:
        operations = list(walk(module))
        calls = [each for each in operations if each.name == "util.call"]
        functions = [each for each in operations if each.name == "util.func" and _stays_private(each)]
        rewrite_each("function", functions, lambda function: _reshape(function, calls))


def _stays_private(function: ir.Operation) -> bool:
    return (
        _NEVER_INLINED in function.attributes
        and not is_public(function)
        and bool(function.regions[0].blocks)
        and not any(ir.IntegerAttr(each).value >= 0 for each in function.attributes.get("tied_operands", ()))
    )


def _reshape(function: ir.Operation, calls: Sequence[ir.Operation]) -> None:
    function_type = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    counts = Counter(function_type.results)
    types = {
        number: _unread_type(result)
        for number, result in enumerate(function_type.results)
        if counts[result] > 1 and isinstance(result, ir.RankedTensorType) and result.has_static_shape
    }
    if not types:
        return
    name = symbol_name(function)
    returned = [types.get(number, result) for number, result in enumerate(function_type.results)]
    function.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get(function_type.inputs, returned, function.context)
    )
    for operation in list(walk(function)):
        if operation.name == "util.return":
            for number, unread in types.items():
                value = operation.operands[number]
                with ir.InsertionPoint(operation), operation.location:
                    operation.operands[number] = _reshaped(value, unread)
    for call in calls:
        if called_function(call) == name:
            for number, unread in types.items():
                result = call.results[number]
                read = result.type
                result.set_type(unread)
                with ir.InsertionPoint.after(call), call.location:
                    reshaped = _reshaped(result, read)
                result.replace_all_uses_except(reshaped, [reshaped.owner.operation])


def _unread_type(image: ir.RankedTensorType) -> ir.Type:
    return ir.RankedTensorType.get([1, 1, *image.shape, 1, 1], image.element_type, image.encoding)


def _reshaped(value: ir.Value, result: ir.Type) -> ir.Value:
    segments = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0])}
    return ir.Operation.create("flow.tensor.reshape", [result], [value], segments).result
