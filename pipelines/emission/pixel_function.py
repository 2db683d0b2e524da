"""What a program computes of the channels of a pixel, and of where that is, as part of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.match.finishing import is_of_positions
from iree.winograd.passes.match.navigation import defining_operation

from .element_function import body_text
from .epilogue import emit_vectorized
from .index import Index
from .numbers.known import NUMBERS
from .vectors import broadcast

_INDEX_CASTS = ("arith.index_cast", "arith.extsi", "arith.trunci")
"""Between integers of positions, which are small."""


@dataclass(frozen=True)
class PixelFunction:
    """Elementwise operations on channels of a pixel: each reads the one before, and where the pixel is.

    Functions that compute the same are equal, wherever they are in a program.
    """

    bodies: tuple[ir.Block, ...] = field(compare=False)
    text: str
    dimensions: tuple[tuple[int, ...], ...]
    """For each of them the dimension of the image, N x H... x C, that each of its loops is."""

    @staticmethod
    def of(operations: Sequence[ir.Operation], dimensions: Sequence[Sequence[int]]) -> PixelFunction:
        bodies = tuple(operation.regions[0].blocks[0] for operation in operations)
        return PixelFunction(bodies, "\n".join(map(body_text, bodies)), tuple(map(tuple, dimensions)))

    def emit(self, channels: ir.Value, position: Sequence[Index]) -> ir.Value:
        """What is computed of a vector of channels, at the insertion point; `position` is (n, h...)."""
        for body, dimensions in zip(self.bodies, self.dimensions, strict=True):
            loops = [position[each] if each < len(position) else None for each in dimensions]
            channels = _of_pixel(body, channels, loops)
        return channels


def _of_pixel(body: ir.Block, channels: ir.Value, loops: Sequence[Index | None]) -> ir.Value:
    """What a body computes of channels; numbers that all of them have are computed once.

    Integers are indices there: they are of positions.
    """
    width = ir.VectorType(channels.type).shape[0]
    vectors, scalars = {body.arguments[0]: channels}, dict[ir.Value, ir.Value]()
    *operations, terminator = [view.operation for view in body.operations]
    for operation in operations:
        for operand in operation.operands:
            definition = defining_operation(operand)
            if operand not in scalars and definition is not None and definition.block != body:
                # A constant from outside.
                scalars[operand] = _scalar(definition, [], loops)
        if any(operand in vectors for operand in operation.operands):
            spread = {
                operand: vectors[operand] if operand in vectors else broadcast(scalars[operand], width)
                for operand in operation.operands
            }
            (emitted,) = emit_vectorized(operation, spread, width, NUMBERS)
            vectors[operation.results[0]] = emitted
        else:
            operands = [scalars[operand] for operand in operation.operands]
            scalars[operation.results[0]] = _scalar(operation, operands, loops)
    result = terminator.operands[0]
    return vectors[result] if result in vectors else broadcast(scalars[result], width)


def _scalar(operation: ir.Operation, operands: Sequence[ir.Value], loops: Sequence[Index | None]) -> ir.Value:
    """The result of an operation on numbers that aren't of channels."""
    index = ir.IndexType.get()
    type_ = operation.results[0].type
    is_integer = is_of_positions(type_)
    if operation.name == "linalg.index":
        loop = loops[ir.IntegerAttr(operation.attributes["dim"]).value]
        assert loop is not None, "pixels have no channel"
        return loop.value
    if operation.name == "arith.constant" and is_integer:
        return Index(ir.IntegerAttr(operation.attributes["value"]).value).value
    if operation.name in _INDEX_CASTS:
        return operands[0]
    if operation.name == "arith.sitofp":
        return arith.sitofp(type_, arith.index_cast(ir.IntegerType.get_signless(32), operands[0]))
    attributes = {name: operation.attributes[name] for name in operation.attributes}
    made = ir.Operation.create(operation.name, [index if is_integer else type_], operands, attributes)
    return made.results[0]
