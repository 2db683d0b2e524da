"""The types of values: f32 tensors, some of whose sizes may be known only at run time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from open_size import is_open

Shape = tuple[int, ...]


class InvalidProgramError(Exception):
    """Operands don't fit an operation."""


def require(condition: bool, what: str) -> None:
    if not condition:
        raise InvalidProgramError(what)


@dataclass(frozen=True)
class Tensor:
    shape: Shape
    """Open sizes are those that are known only at run time."""

    @staticmethod
    def of(shape: Iterable[int]) -> Tensor:
        return Tensor(tuple(shape))

    @property
    def is_open(self) -> bool:
        return any(map(is_open, self.shape))

    @property
    def is_empty(self) -> bool:
        return self.element_count == 0

    @property
    def element_count(self) -> int:
        """In the run that open sizes have their value in."""
        return prod(map(int, self.shape))
