"""What kernels have to know of a type of numbers: how it lies in memory, and what registers hold of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.match.convolutions.element_types import element_bytes
from iree.winograd.pipelines.emission.vectors import constant_like

Function = Callable[..., ir.Value]
"""Of vectors, an operand each, and the digits that are kept of results."""


@dataclass(frozen=True)
class Number:
    """A type of numbers that is stored as it is computed with; those that aren't are classes of their own.

    Values are scalars or vectors.
    """

    name: str
    """MLIR's."""

    @property
    def type(self) -> ir.Type:
        """In the current context."""
        return ir.Type.parse(self.name)

    @property
    def bytes(self) -> int:
        """Of an element in memory."""
        return element_bytes(self.name)

    @property
    def needs_instructions(self) -> bool:
        """Whether only targets that have instructions for it convert it, without calls into a library."""
        return False

    @property
    def computed(self) -> Number:
        """The type in registers: this one, or one that holds all of its numbers."""
        return self

    def widened(self, stored: ir.Value) -> ir.Value:
        """What was loaded, in the type in registers, exactly."""
        return stored

    def narrowed(self, computed: ir.Value) -> ir.Value:
        """What is to be stored, rounded to the nearest number, to the even one of two as near."""
        return computed

    def narrowed_within(self, computed: ir.Value, most: float) -> ir.Value:
        """The same of a number that is no larger than `most`. The sign of a zero may be another one."""
        return self.narrowed(computed)

    @property
    def narrows_two(self) -> bool:
        """Whether two vectors of 16 lanes are narrowed by one instruction, to what lies side by side."""
        return False

    def two_narrowed(self, first: ir.Value, second: ir.Value) -> ir.Value:
        """`narrowed` of two such vectors, behind each other. Raises ValueError where `narrows_two` isn't."""
        raise ValueError(f"{self.name} has no instruction that narrows two vectors")

    def rounded(self, computed: ir.Value, most: float = inf) -> ir.Value:
        """The nearest number, as `narrowed` has it, in the type in registers.

        `most` is what no magnitude exceeds. Where a number is larger than all that a program is about, it may
        keep more digits.
        """
        return self.widened(self.narrowed(computed))

    def functions(self, fused_multiply_add: bool) -> Mapping[str, Function]:
        """By the name of the operation: what is computed on vectors in other ways than IREE would."""
        return {}

    def one_and_error(self, value: ir.Value, digits: int) -> ir.Value | None:
        """One and the error function of each lane of a vector, of which so many digits are kept; None where
        it is as good to add them."""
        return None

    def reciprocal(self, value: ir.Value, digits: int, least: float) -> ir.Value:
        """One over each lane of a vector, at least `least` or no number, of which so many digits are kept."""
        return arith.divf(constant_like(value, 1.0), value)


def with_element(like: ir.Type, element: ir.Type) -> ir.Type:
    """The type of scalars, or of vectors as long as those of type `like`, of other elements."""
    if not isinstance(like, ir.VectorType):
        return element
    return ir.VectorType.get(like.shape, element)
