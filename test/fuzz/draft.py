"""A block that is being drawn, and the images in it that layers may read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import operations as o
import program as p
from hypothesis import strategies as st
from tensors import Tensor

MAX_TENSOR = 6000
"""Elements: small, so that what is found is quick to compile and to run."""


@dataclass(frozen=True)
class Image:
    """A value with a layout: `n` batch, `c` channel, `0`, `1`, `2` spatial dimensions."""

    value: int
    layout: str


@dataclass(frozen=True)
class Layer:
    """What a step added to a draft: operations, the first of their results, what they read and give."""

    operations: tuple[p.Operation, ...]
    first: int
    image: Image
    result: Image


@dataclass
class Draft:
    """A block that is being drawn: its operations so far, and the types of all values that it sees."""

    draw: st.DrawFn
    types: list[Tensor]
    operations: list[p.Operation] = field(default_factory=list)
    convolutions: int = 0
    only_convolutions: bool = False
    """And what fuses with them: most of the time of a program goes to what IREE compiles beside them."""
    is_nested: bool = False
    """Whether it is the block of a loop or branch, which has no arguments of its own."""

    def add(self, operation: p.Operation) -> int:
        """Add an operation; returns its first result."""
        first = len(self.types)
        self.types.extend(p.infer(operation, self.types))
        self.operations.append(operation)
        return first

    def producer(self, value: int) -> p.Operation | None:
        """The operation of this block whose only result is `value`."""
        start = len(self.types) - sum(_result_count(operation) for operation in self.operations)
        for operation in self.operations:
            if start == value:
                return operation
            start += _result_count(operation)
        return None

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(int(low), int(high)))

    def choice(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def chance(self, one_in: int) -> bool:
        """Shrinks to False."""
        return self.draw(st.integers(0, one_in - 1)) == one_in - 1

    def sizes(self, image: Image) -> dict[str, int]:
        return dict(zip(image.layout, self.types[image.value].shape, strict=True))

    def constant(self, shape: Sequence[int], scale: float = 1.0, positive: bool = False) -> int:
        return self.add(o.Constant(tuple(shape), self.number(0, 1000), scale, positive))

    def fill(self, number: float, of: Tensor) -> int:
        return self.add(o.Fill(number, of.shape))


def _result_count(operation: p.Operation) -> int:
    if isinstance(operation, p.Call):
        return len(operation.function.results)
    return len(operation.body) if isinstance(operation, o.Elementwise) else 1
