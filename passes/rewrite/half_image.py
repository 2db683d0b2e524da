"""Images that are widened from half precision, read as they were before."""

from __future__ import annotations

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import arith, ir, tensor
from iree.winograd.passes.build.bodies import inline_block
from iree.winograd.passes.build.generic import build_elementwise
from iree.winograd.passes.build.slices import element_of
from iree.winograd.passes.build.tensors import shape_of
from iree.winograd.passes.build.transpositions import transposed
from iree.winograd.passes.match.elementwise import Elementwise, match_elementwise
from iree.winograd.passes.match.navigation import KEEPING_ELEMENTS, defining_operation, walk
from iree.winograd.passes.match.values.conversions import widened_source


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


def repeated(repetition: ir.Operation, image: ir.Value) -> ir.Value:
    """What a repetition makes, of `image` in place of what is that image widened."""
    elementwise = match_elementwise(repetition)
    assert isinstance(elementwise, Elementwise), "it was matched before"
    half = ir.RankedTensorType(image.type).element_type
    with repetition.location, ir.InsertionPoint(repetition):
        init = tensor.empty(shape_of(elementwise.result), half)
        reads = [(image, elementwise.indexing_maps[0])]
        return build_elementwise(reads, init, lambda elements: elements[0])


def largest_of(pooling: ir.Operation, image: ir.Value) -> ir.Value:
    """The maxima of `pooling`, of the same elements of `image` in place of what is that image widened."""
    half = ir.RankedTensorType(image.type).element_type

    def body(elements: list[ir.Value]) -> ir.Value:
        (largest,) = inline_block(pooling.regions[0].blocks[0], elements)
        return arith.truncf(half, largest)

    with pooling.location, ir.InsertionPoint(pooling):
        maxima = build_elementwise([], tensor.empty(shape_of(pooling.results[0]), half), body)
    for extraction in [each for each in walk(maxima.owner.operation) if each.name == "tensor.extract"]:
        with extraction.location, ir.InsertionPoint(extraction):
            element = element_of(image, list(extraction.operands)[1:])
            widened = arith.extf(ir.F32Type.get(), element)
        extraction.results[0].replace_all_uses_with(widened)
        extraction.erase()
    return maxima
