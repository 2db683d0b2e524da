"""What programs compute of loop indices and constants, in the types that they compute it in.

`evaluate` takes float64 for everything, which would round positions in an image down to other elements than
the program does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.values.elements import number_type
from iree.winograd.passes.match.values.evaluate import evaluate_operation

Array = npt.NDArray[Any]

_OPERATIONS: dict[str, Callable[..., Any]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.divsi": lambda a, b: _truncated_quotient(a, b),
    "arith.floordivsi": lambda a, b: a // _nonzero(b),
    "arith.ceildivsi": lambda a, b: a // _nonzero(b) + (a % _nonzero(b) != 0),
    "arith.remsi": lambda a, b: a - b * _truncated_quotient(a, b),
    "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "math.absi": np.abs,
    "math.ceil": np.ceil,
    "math.floor": np.floor,
    "math.roundeven": np.rint,
    "math.trunc": np.trunc,
}
_CASTS = (
    "arith.extf",
    "arith.extsi",
    "arith.fptosi",
    "arith.index_cast",
    "arith.sitofp",
    "arith.truncf",
    "arith.trunci",
)
_OF_BOOLEANS = ("arith.andi", "arith.ori", "arith.select", "arith.xori")
# In the order of the predicates of arith.cmpi, those of signed numbers.
_INTEGER_COMPARISONS: tuple[Callable[..., Any], ...] = (
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
)


def compute(operation: ir.Operation, operands: list[Array]) -> Array | None:
    """The result of one scalar operation on arrays of operands; None for one that isn't known here.

    Booleans are no numbers here: MLIR's operations take true for 1 or for -1.
    """
    dtype = number_type(operation.results[0].type)
    of_booleans = any(operand.dtype == np.bool_ for operand in operands)
    if dtype is None or (of_booleans and operation.name not in _OF_BOOLEANS):
        return None
    with np.errstate(all="ignore"):
        if operation.name in _CASTS:
            return None if dtype == np.bool_ else operands[0].astype(dtype)
        if operation.name == "arith.cmpi":
            predicate = operation.attributes["predicate"].value
            if predicate >= len(_INTEGER_COMPARISONS):
                return None
            return np.asarray(_INTEGER_COMPARISONS[predicate](*operands))
        if operation.name in _OPERATIONS:
            return np.asarray(_OPERATIONS[operation.name](*operands)).astype(dtype)
        result = evaluate_operation(operation, operands)
    return None if result is None else np.asarray(result).astype(dtype)


def _truncated_quotient(a: Any, b: Any) -> Any:
    divisor = _nonzero(b)
    return a // divisor + ((a % divisor != 0) & ((a < 0) != (divisor < 0)))


def _nonzero(divisor: Any) -> Any:
    """Division by zero is undefined: any result will do."""
    return np.where(divisor == 0, 1, divisor)
