"""What a pass rewrites at a time, and how what becomes of a convolution remembers it."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.navigation import defining_operation

ORIGIN_ATTRIBUTE_NAME = "winograd.origin"
"""On a convolution, then on its product and dispatches: what to leave out when these can't be compiled."""


@dataclass(frozen=True)
class Unit:
    """The `number`-th, from 0, of the things of one kind that the pass `pass_name` rewrites.

    Without a kind it is all that the pass does.
    """

    pass_name: str
    kind: str = ""
    number: int = 0

    @property
    def is_whole_pass(self) -> bool:
        return not self.kind

    def __str__(self) -> str:
        return f"{self.kind} {self.number}" if self.kind else self.pass_name


def set_origin(operation: ir.Operation, unit: Unit) -> None:
    """Note on `operation` that leaving out `unit` avoids it."""
    operation.attributes[ORIGIN_ATTRIBUTE_NAME] = ir.DictAttr.get(
        {
            "kind": ir.StringAttr.get(unit.kind),
            "number": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), unit.number),
            "pass": ir.StringAttr.get(unit.pass_name),
        }
    )


def keep_origin(operation: ir.Operation, unit: Unit) -> None:
    """As `set_origin`, where `operation` has no origin."""
    if origin_of(operation) is None:
        set_origin(operation, unit)


def origin_of(operation: ir.Operation) -> Unit | None:
    """The origin of an operation, or of the product that a transform belongs to; None where there is none."""
    operation = product_of(operation) or operation
    if ORIGIN_ATTRIBUTE_NAME not in operation.attributes:
        return None
    attribute = operation.attributes[ORIGIN_ATTRIBUTE_NAME]
    return Unit(attribute["pass"].value, attribute["kind"].value, attribute["number"].value)


def product_of(transform: ir.Operation) -> ir.Operation | None:
    """The product that a transform reads or gives an operand of; None for other operations."""
    if not transform.name.startswith("winograd."):
        return None
    neighbours = [use.owner.operation for result in transform.results for use in result.uses]
    neighbours += filter(None, map(defining_operation, transform.operands))
    return next((each for each in neighbours if each.name == "linalg.batch_matmul"), None)
