"""One operation per result of elementwise operations that have several."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.build.bodies import inline_operations
from iree.winograd.passes.build.generic import build_generic
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_left
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.passes.match.navigation import defining_operation, walk
from iree.winograd.passes.match.no_match import NoMatch, Reason
from iree.winograd.passes.rewrite.erasure import erase_if_unused

PASS_NAME = "winograd-split-results"


@register_pass(PASS_NAME)
class SplitResults:
    """Make one operation per result of elementwise operations that have several.

    Layouts spread through operations with one result, and only such move into epilogues. A transposition of
    one of several results is worse: IREE 3.13 moves it into the operation as if that had no other, and ends
    with a crash. What results share is computed for each; IREE fuses the operations where that is better.
    Functions without a convolution keep theirs.

        %r:2 = linalg.generic ins(%x) { arith.mulf %a, %a; arith.addf %a, %half; linalg.yield %s, %t }
        %c = linalg.conv_2d_nchw_fchw ins(%r#0, %w) outs(%zeros)
      becomes
        %s = linalg.generic ins(%x) { arith.mulf %a, %a }
        %t = linalg.generic ins(%x) { arith.addf %a, %half }
        %c = linalg.conv_2d_nchw_fchw ins(%s, %w) outs(%zeros)
    """

    def run(self, module: ir.Operation) -> None:
        functions = {_function(convolution) for convolution in convolutions(module)}
        subjects = [each for each in walk(module) if each.name == "linalg.generic" and len(each.results) > 1]
        rewrite_each("operation", [each for each in subjects if _function(each) in functions], _split)


def _function(operation: ir.Operation) -> ir.Operation:
    """What lies directly in the module and holds `operation`."""
    while (parent := operation.parent.operation).parent is not None:
        operation = parent
    return operation


def _split(operation: ir.Operation) -> None:
    reason = _obstacle(operation)
    if reason is not None:
        remark_left(PASS_NAME, NoMatch(operation, reason))
        return
    for number, result in enumerate(operation.results):
        if any(True for _ in result.uses):
            with operation.location, ir.InsertionPoint(operation):
                result.replace_all_uses_with(_single(operation, number))
    erase_if_unused([operation])


def _obstacle(operation: ir.Operation) -> Reason | None:
    if "reduction" in str(operation.attributes["iterator_types"]):
        return "it sums, or selects among, several elements"
    names = (view.operation.name for view in operation.regions[0].blocks[0].operations)
    if not all(
        name.startswith(("arith.", "math.")) or name in ("linalg.index", "linalg.yield") for name in names
    ):
        return "it does more than arithmetic"
    return None


def _single(operation: ir.Operation, number: int) -> ir.Value:
    """Build what computes one of the results, from what that needs."""
    block = operation.regions[0].blocks[0]
    maps = [ir.AffineMapAttr(attribute).value for attribute in operation.attributes["indexing_maps"]]
    own = len(operation.operands) - len(operation.results) + number
    needed, needed_arguments = _slice(block, number)
    read = [each for each in range(len(operation.operands)) if each != own and each in needed_arguments]

    def body(elements: list[ir.Value]) -> ir.Value:
        arguments = [block.arguments[each] for each in (*read, own)]
        return inline_operations(needed, dict(zip(arguments, elements, strict=True)))[number]

    return build_generic(
        [(operation.operands[each], maps[each]) for each in read],
        (operation.operands[own], maps[own]),
        ["parallel"] * maps[own].n_dims,
        body,
    )


def _slice(block: ir.Block, number: int) -> tuple[list[ir.Operation], set[int]]:
    """The operations of `block` that yield one result, the terminator last, and the arguments they use."""
    *body, terminator = (view.operation for view in block.operations)
    needed, arguments, pending = set(), set(), [terminator.operands[number]]
    while pending:
        value = pending.pop()
        definition = defining_operation(value)
        if definition is None:
            arguments.add(ir.BlockArgument(value).arg_number)
        elif definition.block == block and definition not in needed:
            needed.add(definition)
            pending.extend(definition.operands)
    return [*(each for each in body if each in needed), terminator], arguments
