"""Recipes: a 1-D transform as a short straight-line program of additions, multiplications and FMAs.

A fused multiply-add counts as one operation, as it does on the machines that we generate code for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from iree.winograd.dialect.algebra.cook_toom import Matrix

Kind = Literal["add", "subtract", "multiply", "fma", "negate"]

_UNARY: tuple[Kind, ...] = ("multiply", "negate")
_SCALED: tuple[Kind, ...] = ("multiply", "fma")


@dataclass(frozen=True)
class Operation:
    """One operation on values: add a+b, subtract a-b, multiply constant*a, fma constant*a+b, negate -a."""

    kind: Kind
    a: int
    b: int | None = None
    constant: Fraction | None = None

    def __post_init__(self) -> None:
        if (self.b is None) != (self.kind in _UNARY):
            raise ValueError(
                f"'{self.kind}' takes {'one operand' if self.kind in _UNARY else 'two operands'}"
            )
        if (self.constant is None) == (self.kind in _SCALED):
            raise ValueError(f"'{self.kind}' takes {'a' if self.kind in _SCALED else 'no'} constant")

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.a,) if self.b is None else (self.a, self.b)

    @property
    def factors(self) -> tuple[tuple[int, Fraction], ...]:
        """The operation as a linear combination: each operand with its factor."""
        factor = {"negate": Fraction(-1)}.get(self.kind, self.constant or Fraction(1))
        if self.b is None:
            return ((self.a, factor),)
        return ((self.a, factor), (self.b, Fraction(-1 if self.kind == "subtract" else 1)))


@dataclass(frozen=True)
class Recipe:
    """A straight-line program. Values 0 to inputs-1 are its inputs; operation i defines value inputs+i.

    `outputs` are the values that it returns, None for one that is always zero.
    """

    inputs: int
    operations: tuple[Operation, ...]
    outputs: tuple[int | None, ...]

    def __post_init__(self) -> None:
        for index, operation in enumerate(self.operations):
            if not all(0 <= operand < self.inputs + index for operand in operation.operands):
                raise ValueError(
                    f"operation {index} of the recipe uses a value that is not defined before it"
                )
        if not all(value is None or 0 <= value < self.values for value in self.outputs):
            raise ValueError("an output of the recipe is not one of its values")

    @property
    def values(self) -> int:
        return self.inputs + len(self.operations)

    def apply(self, values: Sequence[Any], fma: Callable[[Any, Any, Any], Any] | None = None) -> list[Any]:
        """The outputs for these inputs: numbers, Fractions or numpy arrays of one floating point type.

        Constants take the type of the operand that they multiply. `fma(constant, a, b)` replaces the
        product and sum of two roundings. Raises ValueError unless there are `inputs` values.
        """
        if len(values) != self.inputs:
            raise ValueError(f"the recipe takes {self.inputs} values, but {len(values)} were given")
        results = list(values)
        for operation in self.operations:
            results.append(_evaluate(operation, results, fma))
        zero = 0 * results[0]
        return [zero if value is None else results[value] for value in self.outputs]

    def part(self, outputs: Sequence[int]) -> tuple[tuple[int, ...], Recipe]:
        """The inputs that some outputs depend on, and their recipe from these, without others' operations."""
        chosen = [self.outputs[output] for output in outputs]
        needed = {value for value in chosen if value is not None}
        for index in reversed(range(len(self.operations))):
            if self.inputs + index in needed:
                needed.update(self.operations[index].operands)
        number = {value: i for i, value in enumerate(sorted(needed))}
        read = tuple(value for value in number if value < self.inputs)
        operations = tuple(
            replace(
                operation,
                a=number[operation.a],
                b=None if operation.b is None else number[operation.b],
            )
            for index, operation in enumerate(self.operations)
            if self.inputs + index in needed
        )
        return read, Recipe(
            len(read), operations, tuple(None if value is None else number[value] for value in chosen)
        )

    def matrix(self) -> Matrix:
        """The matrix of the linear map that the recipe computes, exact."""
        units = [tuple(Fraction(int(i == j)) for j in range(self.inputs)) for i in range(self.inputs)]
        rows = list(units)
        for operation in self.operations:
            terms = [[factor * entry for entry in rows[operand]] for operand, factor in operation.factors]
            rows.append(tuple(sum(column, Fraction(0)) for column in zip(*terms, strict=True)))
        zero = (Fraction(0),) * self.inputs
        return tuple(zero if value is None else rows[value] for value in self.outputs)

    @property
    def additions(self) -> int:
        """Additions, subtractions and negations."""
        return sum(operation.kind in ("add", "subtract", "negate") for operation in self.operations)

    @property
    def multiplications(self) -> int:
        return sum(operation.kind == "multiply" for operation in self.operations)

    @property
    def fused_multiply_adds(self) -> int:
        return sum(operation.kind == "fma" for operation in self.operations)

    @cached_property
    def depth(self) -> int:
        """Operations on the critical path."""
        depths = [0] * self.inputs
        for operation in self.operations:
            depths.append(1 + max(depths[operand] for operand in operation.operands))
        return max((depths[value] for value in self.outputs if value is not None), default=0)

    @cached_property
    def live_values(self) -> int:
        """The most values needed at once: all inputs are there at the start, outputs stay to the end."""
        last_use = dict.fromkeys(range(self.inputs), -1)
        for index, operation in enumerate(self.operations):
            for operand in operation.operands:
                last_use[operand] = index
        for value in self.outputs:
            if value is not None:
                last_use[value] = len(self.operations)
        live = {value for value in range(self.inputs) if last_use[value] >= 0}
        most = len(live)
        for index in range(len(self.operations)):
            live = {value for value in live if last_use[value] > index}
            live.add(self.inputs + index)
            most = max(most, len(live))
        return most


def _constant(operation: Operation) -> Fraction:
    assert operation.constant is not None
    return operation.constant


def _evaluate(operation: Operation, values: Sequence[Any], fma: Callable[[Any, Any, Any], Any] | None) -> Any:
    a = values[operation.a]
    b = values[operation.b] if operation.b is not None else None
    match operation.kind:
        case "add":
            return a + b
        case "subtract":
            return a - b
        case "negate":
            return -a
    constant = _like(_constant(operation), a)
    if operation.kind == "multiply":
        return constant * a
    return constant * a + b if fma is None else fma(constant, a, b)


def _like(constant: Fraction, value: Any) -> Any:
    """The constant rounded once to the type of a value; exact beside a Fraction or an integer."""
    if isinstance(value, (Fraction, int)):
        return constant
    if isinstance(value, float):
        return float(constant)
    return value.dtype.type(float(constant))
