"""How large what an epilogue makes of a sum can be: at most `factor * |sum| + addend`, by channel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import OutputTransformOp
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.values.constants import Array, constant_array, scalar_constant
from iree.winograd.passes.match.values.number_range import number_range

_OF_EITHER = (
    "arith.maximumf",
    "arith.maxnumf",
    "arith.minimumf",
    "arith.minnumf",
)
"""Operations that give one of two numbers."""
_SUMS = ("arith.addf", "arith.subf")
_KEEPING_MAGNITUDE = ("arith.negf", "math.absf")


@dataclass(frozen=True)
class Magnitude:
    """Numbers of a magnitude of at most `factor * |sum| + addend`, each for all channels or one of each."""

    factor: Array
    addend: Array

    @staticmethod
    def constant(most: Array | float) -> Magnitude:
        return Magnitude(np.zeros(1), np.abs(np.atleast_1d(most)).astype(np.float64))

    @property
    def most(self) -> Array | None:
        """What it is at most whatever the sum; None where it grows with that."""
        return None if self.factor.any() else self.addend

    def plus(self, other: Magnitude) -> Magnitude:
        return Magnitude(self.factor + other.factor, self.addend + other.addend)

    def or_that_of(self, other: Magnitude) -> Magnitude:
        """That of numbers of which each is one of either."""
        return Magnitude(np.maximum(self.factor, other.factor), np.maximum(self.addend, other.addend))

    def times(self, most: Array | float) -> Magnitude:
        """That of products with numbers of at most such a magnitude."""
        return Magnitude(self.factor * most, self.addend * most)


_SUM = Magnitude(np.ones(1), np.zeros(1))


def match_magnitude(transform: OutputTransformOp) -> Magnitude | None:
    """That of what an epilogue makes of its sums; None where it isn't bounded so, as by what it reads beside.

    Activations that never enlarge a number, such as ReLU, GELU and SiLU, are products with a number of a
    known range. Rounding isn't counted.
    """
    body = transform.body
    accumulated, *elements = body.arguments
    known: dict[ir.Value, Magnitude | None] = {accumulated: _SUM}
    operands = zip(elements, transform.epilogue_operands, transform.indexing_maps, strict=True)
    for element, operand, indexing_map in operands:
        array = constant_array(operand)
        if array is None:
            continue
        channel = ir.AffineExpr.get_dim(indexing_map.n_dims - 1)
        is_by_channel = list(indexing_map.results) == [channel]
        known[element] = Magnitude.constant(array if is_by_channel else np.abs(array).max(initial=0.0))
    magnitude = _Magnitudes(known).of(body.operations[-1].operation.operands[0])
    is_finite = magnitude is not None and all(
        np.isfinite(each).all() for each in (magnitude.factor, magnitude.addend)
    )
    return magnitude if is_finite else None


@dataclass(frozen=True)
class _Magnitudes:
    """Those of the values of a body, None where they aren't known."""

    known: dict[ir.Value, Magnitude | None]

    def of(self, value: ir.Value) -> Magnitude | None:
        if value not in self.known:
            self.known[value] = self._found(value)
        return self.known[value]

    def _found(self, value: ir.Value) -> Magnitude | None:
        constant, operation = scalar_constant(value), defining_operation(value)
        if constant is not None:
            return Magnitude.constant(constant)
        low, high = number_range(value)
        if np.isfinite([low, high]).all():
            return Magnitude.constant(max(-low, high))
        return None if operation is None else self._computed(operation)

    def _computed(self, operation: ir.Operation) -> Magnitude | None:
        name, operands = operation.name, list(operation.operands)
        if name in _KEEPING_MAGNITUDE:
            return self.of(operands[0])
        if name == "arith.divf":
            return self._quotient(*operands)
        if name == "arith.select":
            operands = operands[1:]
        elif name not in (*_SUMS, *_OF_EITHER, "arith.mulf"):
            return None
        left, right = map(self.of, operands)
        if left is None or right is None:
            return None
        if name in _SUMS:
            return left.plus(right)
        if name != "arith.mulf":
            return left.or_that_of(right)
        if right.most is not None:
            return left.times(right.most)
        return None if left.most is None else right.times(left.most)

    def _quotient(self, dividend: ir.Value, divisor: ir.Value) -> Magnitude | None:
        divided, (low, high) = self.of(dividend), number_range(divisor)
        least = max(low, -high)
        return None if divided is None or least <= 0 else divided.times(1 / least)
