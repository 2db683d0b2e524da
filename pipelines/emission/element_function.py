"""What a program computes of single elements, as part of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from iree.winograd.dialect.bindings import ir, vector
from iree.winograd.passes.build.bodies import inline_block
from iree.winograd.passes.match.navigation import defining_operation

from .epilogue import CONVERSIONS, emit_body
from .numbers.known import NUMBERS, Numbers
from .numbers.unrounded import UNROUNDED_NUMBERS
from .vectors import broadcast

_LANES = 4


@dataclass(frozen=True)
class ElementFunction:
    """Elementwise operations of one element, each of which reads the one before.

    Functions that compute the same are equal, wherever they are in a program.
    """

    bodies: tuple[ir.Block, ...] = field(compare=False)
    text: str
    rounds_once: bool = False
    """Whether only what the last operation computes is rounded to half precision, if that is."""

    @staticmethod
    def of(operations: Sequence[ir.Operation], *, rounds_once: bool = False) -> ElementFunction:
        bodies = tuple(operation.regions[0].blocks[0] for operation in operations)
        return ElementFunction(bodies, "\n".join(map(body_text, bodies)), rounds_once)

    def emit(self, element: ir.Value) -> ir.Value:
        """What is computed of a scalar of f32, at the insertion point, in f32; what stores it may round."""
        for number, body in enumerate(self.bodies):
            rounds = number == len(self.bodies) - 1 or not self.rounds_once
            if any(view.operation.name in CONVERSIONS for view in body.operations):
                # Numbers know how, of vectors as of scalars.
                lanes = broadcast(element, _LANES)
                numbers = NUMBERS if rounds else UNROUNDED_NUMBERS
                emitted = emit_body(body, dict.fromkeys(body.arguments, lanes), _LANES, numbers)
                element = vector.extract(emitted, [], [0])
            else:
                (element,) = inline_block(body, [element] * len(body.arguments))
        return element


@dataclass(frozen=True)
class VectorFunction:
    """What an elementwise operation computes of an element of each of its operands, on vectors of these.

    Functions that compute the same are equal, wherever they are in a program.
    """

    body: ir.Block = field(compare=False)
    """Its last argument, an element of what gives the result its shape, isn't used; it captures nothing."""
    text: str

    @staticmethod
    def of(body: ir.Block) -> VectorFunction:
        return VectorFunction(body, body_text(body))

    def emit(
        self,
        elements: Sequence[ir.Value],
        fused_multiply_add: bool | None = None,
        numbers: Numbers = NUMBERS,
    ) -> ir.Value:
        """What is computed of a vector of each operand, all of one width, at the insertion point.

        `fused_multiply_add` and `numbers` as of `emit_body`.
        """
        width = ir.VectorType(elements[0].type).shape[0]
        *inputs, _ = self.body.arguments
        values = dict(zip(inputs, elements, strict=True))
        return emit_body(self.body, values, width, numbers, fused_multiply_add)


def body_text(body: ir.Block) -> str:
    """What distinguishes a body from others, whatever the names of its values in the program."""
    numbers = {argument: str(number) for number, argument in enumerate(body.arguments)}
    lines = []
    for operation in (view.operation for view in body.operations):
        operands = [numbers.get(operand) or _constant(operand) for operand in operation.operands]
        attributes = {name: str(operation.attributes[name]) for name in operation.attributes}
        types = [str(result.type) for result in operation.results]
        lines.append(f"{operation.name} {operands} {attributes} {types}")
        numbers |= {result: str(len(numbers) + n) for n, result in enumerate(operation.results)}
    return "\n".join(lines)


def _constant(operand: ir.Value) -> str:
    """A constant from outside of the body."""
    definition = defining_operation(operand)
    assert definition is not None and definition.name == "arith.constant", "bodies capture nothing else"
    return str(definition.attributes["value"])
