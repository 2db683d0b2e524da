"""That a result is stored as the numbers that the next product multiplies, and the attribute that says so."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir

_ATTRIBUTE_NAME = "winograd.split_result"
_BLOCK_ROWS, _FACTOR, _ADDEND = "block_rows", "factor", "addend"


@dataclass(frozen=True)
class SplitResult:
    """How a result N x H... x C is stored as the left operand of a product of all its channels.

    Pixels are the rows of that operand, in blocks of `block_rows`. A scale of each pixel is for numbers of a
    magnitude of up to `factor` times the largest of what it was computed of, and `addend`.
    """

    block_rows: int
    factor: float
    addend: float


def set_split_result(transform: ir.Operation, result: SplitResult) -> None:
    """Annotate the output transform whose result is stored so."""
    transform.attributes[_ATTRIBUTE_NAME] = ir.DictAttr.get(
        {
            _BLOCK_ROWS: ir.IntegerAttr.get(ir.IntegerType.get_signless(64), result.block_rows),
            _FACTOR: ir.FloatAttr.get_f64(result.factor),
            _ADDEND: ir.FloatAttr.get_f64(result.addend),
        }
    )


def split_result_of(transform: ir.Operation) -> SplitResult | None:
    """The annotation of an output transform."""
    if _ATTRIBUTE_NAME not in transform.attributes:
        return None
    entries = {each.name: each.attr for each in ir.DictAttr(transform.attributes[_ATTRIBUTE_NAME])}
    return SplitResult(
        ir.IntegerAttr(entries[_BLOCK_ROWS]).value,
        ir.FloatAttr(entries[_FACTOR]).value,
        ir.FloatAttr(entries[_ADDEND]).value,
    )
