"""Have tensors of unknown sizes that hold one number be filled with it."""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir, linalg
from iree.winograd.passes.build.named import build_named
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.match.values.constants import splat_element


@register_pass("winograd-fill-unknown-sizes")
class FillUnknownSizes:
    """Have tensors of unknown sizes that hold one number be filled with it.

    torch-mlir computes `torch.full` element by element. IREE makes a dispatch of that, and where two
    scatters write in such tensors of as many elements, both write in the memory of one: it copies the
    dispatch for the second, and later takes both copies for the same. A fill is a command, which it keeps
    for each.

        %r = linalg.generic {#scalar, #identity} ins(%c : tensor<i64>) outs(%y : tensor<?x512xi64>) {
          ^bb0(%in: i64, %out: i64):
            linalg.yield %in : i64
        }
      becomes
        %r = linalg.fill ins(%number : i64) outs(%y : tensor<?x512xi64>)
    """

    def run(self, module: ir.Operation) -> None:
        rewrite_each(
            "tensor of one number", [each for each in walk(module) if _holds_one_number(each)], _fill
        )


def _holds_one_number(operation: ir.Operation) -> bool:
    if operation.name != "linalg.generic" or len(operation.operands) != 2 or len(operation.results) != 1:
        return False
    type_ = operation.results[0].type
    if type_.has_static_shape or splat_element(operation.operands[0]) is None:
        return False
    (body,) = operation.regions[0].blocks
    (first, *more) = body.operations
    return not more and first.operands[0] == body.arguments[0]


def _fill(generic: ir.Operation) -> None:
    number = splat_element(generic.operands[0])
    assert number is not None
    with ir.InsertionPoint(generic), generic.location:
        element = arith.constant(number.type, number)
        filled = build_named(linalg.FillOp, [element], generic.operands[1])
    generic.results[0].replace_all_uses_with(filled)
    generic.erase()
