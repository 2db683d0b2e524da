"""Images that are widened from half precision, read as they were before."""

from __future__ import annotations

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.build.transpositions import transposed
from iree.winograd.passes.match.conversions import widened_source
from iree.winograd.passes.match.navigation import KEEPING_ELEMENTS, defining_operation


def half_image(image: ir.Value) -> tuple[ir.Value, list[ir.Operation]] | None:
    """The tensor of half precision that `image` is, widened, and what moves it then, in turn.

    None for any other image.
    """
    moves: list[ir.Operation] = []
    while (source := widened_source(image)) is None:
        definition = defining_operation(image)
        if definition is None or definition.name not in KEEPING_ELEMENTS:
            return None
        moves.insert(0, definition)
        image = definition.operands[0]
    return source, moves


def moved(move: ir.Operation, image: ir.Value) -> ir.Value:
    """What `move` makes, of `image` in place of what is that image widened."""
    with move.location, ir.InsertionPoint(move):
        if move.name == "linalg.transpose":
            return transposed(image, list(move.attributes["permutation"]))
        type_ = ir.RankedTensorType(move.results[0].type)
        half = ir.RankedTensorType.get(list(type_.shape), ir.RankedTensorType(image.type).element_type)
        copy = move.clone()
        copy.operands[0] = image
        copy.results[0].set_type(half)
    return copy.results[0]


def read_by_transform(transform: ops.InputTransformOp, image: ir.Value) -> None:
    """Has what uses a transform use one that reads `image`, which is its own before that was widened."""
    with transform.location, ir.InsertionPoint(transform):
        rebuilt = ops.input_transform(
            image,
            transform.decomposition,
            transform.padding_low,
            transform.padding_high,
            transform.groups,
            channels_first=transform.channels_first,
        )
    transform.result.replace_all_uses_with(rebuilt.result)


def widen_operands(user: ir.Operation, body: ir.Block, operand: ir.Value, narrowed: ir.Value) -> None:
    """Has what computes its elements by `body` read `narrowed`, not `operand`, which is that widened."""
    for number, each in enumerate(list(user.operands)):
        if each != operand:
            continue
        # Of an epilogue, too: the accumulated element is the first of both.
        argument = body.arguments[number]
        uses = [(use.owner.operation, use.operand_number) for use in argument.uses]
        user.operands[number] = narrowed
        argument.set_type(ir.RankedTensorType(narrowed.type).element_type)
        with user.location, ir.InsertionPoint.at_block_begin(body):
            widened = arith.extf(ir.F32Type.get(), argument)
        for inner, position in uses:
            inner.operands[position] = widened
