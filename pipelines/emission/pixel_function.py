"""What a program computes of the channels of a pixel, and of where that is, as part of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.navigation import defining_operation

from .element_function import body_text
from .epilogue import emit_vectorized
from .index import Index
from .numbers.known import NUMBERS
from .position_arithmetic import scalar_of_positions
from .vectors import broadcast


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
                scalars[operand] = scalar_of_positions(definition, [], loops)
        if any(operand in vectors for operand in operation.operands):
            spread = {
                operand: vectors[operand] if operand in vectors else broadcast(scalars[operand], width)
                for operand in operation.operands
            }
            (emitted,) = emit_vectorized(operation, spread, width, NUMBERS)
            vectors[operation.results[0]] = emitted
        else:
            operands = [scalars[operand] for operand in operation.operands]
            scalars[operation.results[0]] = scalar_of_positions(operation, operands, loops)
    result = terminator.operands[0]
    return vectors[result] if result in vectors else broadcast(scalars[result], width)
