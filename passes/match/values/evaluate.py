"""Elementwise arithmetic on arrays, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.algebra.bf16 import BITS, bf16_bits
from iree.winograd.dialect.bindings import ir

Array = npt.NDArray[Any]

_OPERATIONS: dict[str, Callable[..., Any]] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.negf": np.negative,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.select": np.where,
    "math.absf": np.abs,
    "math.exp": np.exp,
    "math.log": np.log,
    "math.rsqrt": lambda operand: 1 / np.sqrt(operand),
    "math.sqrt": np.sqrt,
    "math.tanh": np.tanh,
}
_INTEGER_SUMS: dict[str, Callable[..., Any]] = {"arith.addi": np.add, "arith.subi": np.subtract}
_SIGNED = ("arith.extsi", "arith.sitofp")
_UNSIGNED = ("arith.extui", "arith.uitofp")
# In the order of arith.cmpf's predicates 0 to 7, which are false on NaNs.
_COMPARISONS: tuple[Callable[..., Any], ...] = (
    lambda a, b: np.zeros(np.broadcast_shapes(np.shape(a), np.shape(b)), bool),
    np.equal,
    np.greater,
    np.greater_equal,
    np.less,
    np.less_equal,
    np.not_equal,
    lambda a, b: np.ones(np.broadcast_shapes(np.shape(a), np.shape(b)), bool),
)


def can_evaluate(body: ir.Block) -> bool:
    """Whether `evaluate_body` knows all operations of `body`."""
    known = {*_OPERATIONS, "arith.cmpf", "arith.constant", "cf.assert", "linalg.yield"}
    operations = [view.operation for view in body.operations]
    return all(
        operation.name in known
        or operation.name in (*_INTEGER_SUMS, *_SIGNED, *_UNSIGNED)
        or _keeps_value(operation)
        or _rounds_to_half(operation)
        for operation in operations
    )


def evaluate_body(
    body: ir.Block,
    inputs: Sequence[Array],
    indexing_maps: Sequence[ir.AffineMap],
    shape: Sequence[int],
    constants: Callable[[ir.Value], float | None],
) -> Array | None:
    """The result, of `shape`, of this elementwise body on `inputs`, read through `indexing_maps`.

    `constants` gives the values that the body uses from outside. None when such a value isn't known, an index
    isn't a loop or 0, an assertion does not hold, or a sum of integers is beyond their type.
    """
    values: dict[ir.Value, Any] = {}
    for argument, array, indexing_map in zip(body.arguments, inputs, indexing_maps, strict=False):
        elements = spread(array, indexing_map)
        if elements is None:
            return None
        values[argument] = elements.astype(np.float64)

    def value_of(operand: ir.Value) -> Any:
        if operand not in values:
            values[operand] = constants(operand)
        return values[operand]

    for view in body.operations:
        operation = view.operation
        operands = [value_of(operand) for operand in operation.operands]
        if any(operand is None for operand in operands):
            return None
        if operation.name == "linalg.yield":
            return np.broadcast_to(operands[0], tuple(shape))
        if operation.name == "cf.assert":
            if not np.all(operands[0]):
                return None
            continue
        if _keeps_value(operation):
            values[operation.results[0]] = operands[0]
        elif _rounds_to_half(operation):
            values[operation.results[0]] = rounded_to_half(operands[0], operation.results[0].type)
        elif operation.name == "arith.constant":
            values[operation.results[0]] = np.float64(operation.attributes["value"].value)
        elif operation.name in _SIGNED:
            # A truth value's only bit is its sign.
            sign = -1 if operation.operands[0].type.width == 1 else 1
            values[operation.results[0]] = np.multiply(operands[0], sign, dtype=np.float64)
        elif operation.name in _UNSIGNED:
            modulus = 2.0 ** operation.operands[0].type.width
            values[operation.results[0]] = np.mod(operands[0], modulus, dtype=np.float64)
        elif operation.name in _INTEGER_SUMS:
            total = _INTEGER_SUMS[operation.name](*operands)
            if np.abs(total).max(initial=0) >= 2.0 ** (operation.results[0].type.width - 1):
                # What is beyond the type starts over.
                return None
            values[operation.results[0]] = total
        else:
            values[operation.results[0]] = evaluate_operation(operation, operands)
    return None


def _keeps_value(operation: ir.Operation) -> bool:
    """Whether it makes a number wider, or turns f64 into f32, both of which are float64 here."""
    return operation.name == "arith.extf" or (
        operation.name == "arith.truncf" and isinstance(operation.results[0].type, ir.F32Type)
    )


def _rounds_to_half(operation: ir.Operation) -> bool:
    return operation.name == "arith.truncf" and isinstance(
        operation.results[0].type, ir.F16Type | ir.BF16Type
    )


def rounded_to_half(number: Any, type_: ir.Type) -> Any:
    """`number`, of f32, to the nearest of f16 or bf16, to the even one of two."""
    with np.errstate(over="ignore"):
        single = np.asarray(number, np.float32)
        if isinstance(type_, ir.F16Type):
            return single.astype(np.float16).astype(np.float64)
    return (bf16_bits(single).astype(np.uint32) << BITS).view(np.float32).astype(np.float64)


def evaluate_operation(operation: ir.Operation, operands: list[Any]) -> Any:
    """The result of a scalar operation on numbers or arrays, in their type; None for one not known here."""
    with np.errstate(all="ignore"):
        if operation.name == "arith.cmpf":
            return _compare(operation.attributes["predicate"].value, *operands)
        function = _OPERATIONS.get(operation.name)
        return None if function is None else function(*operands)


def _compare(predicate: int, a: Any, b: Any) -> Any:
    unordered = np.isnan(a) | np.isnan(b)
    # Predicates 8 to 14 are those of 1 to 7, but true on NaNs; 15 is always true and 14 on NaNs only.
    if predicate < 8:
        return _COMPARISONS[predicate](a, b) & ~unordered
    if predicate == 15:
        return ~unordered | unordered
    return unordered if predicate == 14 else _COMPARISONS[predicate - 7](a, b) | unordered


def spread(array: Array, indexing_map: ir.AffineMap) -> Array | None:
    """`array`, read through `indexing_map`: one dimension per loop, of size 1 where that changes nothing.

    It may have size 1 where the tensor whose elements it has is longer, if these are all the same. None where
    an index is neither a loop that no other index is, nor constant.
    """
    loops: list[int] = []
    for dimension in reversed(range(array.ndim)):
        result = indexing_map.results[dimension]
        if isinstance(result, ir.AffineConstantExpr):
            array = array.take(min(result.value, array.shape[dimension] - 1), axis=dimension)
        elif isinstance(result, ir.AffineDimExpr) and result.position not in loops:
            loops.insert(0, result.position)
        else:
            return None
    ordered = array.transpose(np.argsort(loops)) if loops else array
    return np.expand_dims(ordered, [loop for loop in range(indexing_map.n_dims) if loop not in loops])
