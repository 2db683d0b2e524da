"""The largest of several elements of an image, as pooling reads them in place."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.navigation import defining_operation


def gathered_maximum(extraction: ir.Operation) -> ir.Operation | None:
    """The `linalg.generic` in which `extraction` reads a tensor; None for what does anything else.

    Each of its results' elements is the largest of some that it extracts of that tensor, the only one that it
    reads.
    """
    if extraction.name != "tensor.extract":
        return None
    generic = extraction.parent
    if generic is None or generic.name != "linalg.generic" or len(generic.operands) != 1:
        return None
    (*_, terminator) = generic.regions[0].blocks[0].operations
    is_maximum = _is_maximum(terminator.operation.operands[0], extraction.operands[0])
    return generic if is_maximum else None


def _is_maximum(number: ir.Value, image: ir.Value) -> bool:
    definition = defining_operation(number)
    if definition is None:
        return False
    if definition.name == "tensor.extract":
        return bool(definition.operands[0] == image)
    return definition.name == "arith.maximumf" and all(
        _is_maximum(each, image) for each in definition.operands
    )
