"""What the body of an elementwise operation computes, as trees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Argument:
    """Of a body: an element of the operand of that number."""

    number: int


@dataclass(frozen=True)
class Number:
    value: float
    captured: bool = False
    """Whether it is computed outside of the body that uses it."""


@dataclass(frozen=True)
class Position:
    """The index of the loop `dimension`, as a number."""

    dimension: int


@dataclass(frozen=True)
class Captured:
    """The first element of a value, read outside of the body."""

    value: int


@dataclass(frozen=True)
class Apply:
    """An operation of `arithmetic.py` on expressions."""

    operation: str
    operands: tuple[Expression, ...]


Expression = Argument | Number | Position | Captured | Apply


def subexpressions(expression: Expression) -> Iterator[Expression]:
    yield expression
    if isinstance(expression, Apply):
        for operand in expression.operands:
            yield from subexpressions(operand)
