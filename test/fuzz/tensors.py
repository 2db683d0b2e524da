"""The types of values: f32 tensors whose first dimension may be known only at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Shape = tuple[int, ...]


class InvalidProgramError(Exception):
    """Operands don't fit an operation."""


def require(condition: bool, what: str) -> None:
    if not condition:
        raise InvalidProgramError(what)


@dataclass(frozen=True)
class Tensor:
    shape: Shape
    """As it is when the program runs."""
    dynamic: bool = False
    """Whether the first dimension is known only at run time."""

    def with_shape(self, shape: Sequence[int]) -> Tensor:
        return Tensor(tuple(shape), self.dynamic)
