"""Where each element of a tensor lies in another one that holds the same elements in another order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

Term = tuple[int, "Digit"]
"""A factor, and what it is of."""


@dataclass(frozen=True)
class Digit:
    """`number // divisor % extent`."""

    number: DigitSum | None
    """None for the place of an element in the tensor that is told about, counted in the order of memory."""
    divisor: int
    extent: int

    def split(self, size: int) -> tuple[Digit, Digit]:
        """Its remainder and its quotient by `size`, which divides its extent."""
        upper = Digit(self.number, self.divisor * size, self.extent // size)
        return Digit(self.number, self.divisor, size), upper

    def is_same_within(self, run: int) -> bool:
        """Whether it is the same at all places of a run of so many, which begins at a multiple of them."""
        if self.number is None:
            return self.divisor % run == 0
        return all(digit.is_same_within(run) for _, digit in self.number.terms)


@dataclass(frozen=True)
class DigitSum:
    """A constant and a sum of digits times factors, none of which is negative."""

    terms: tuple[Term, ...]
    """By factors, the largest first."""
    constant: int

    @staticmethod
    def of(terms: Iterable[Term], constant: int = 0) -> DigitSum:
        """In as few terms as say the same: neighbouring digits of one number are one."""
        kept: list[Term] = []
        ordered = (each for each in terms if each[1].extent > 1)
        for factor, digit in sorted(ordered, key=lambda each: (-each[0], -each[1].divisor)):
            for position, (larger, upper) in enumerate(kept):
                joined = upper.number == digit.number and upper.divisor == digit.divisor * digit.extent
                if joined and larger == factor * digit.extent:
                    del kept[position]
                    digit = Digit(digit.number, digit.divisor, digit.extent * upper.extent)
                    break
            kept.append((factor, digit))
        return DigitSum(tuple(kept), constant)

    @property
    def maximum(self) -> int:
        return self.constant + sum(factor * (digit.extent - 1) for factor, digit in self.terms)

    def __add__(self, other: DigitSum) -> DigitSum:
        return DigitSum.of((*self.terms, *other.terms), self.constant + other.constant)

    def times(self, factor: int) -> DigitSum:
        return DigitSum(tuple((factor * each, digit) for each, digit in self.terms), factor * self.constant)

    def shifted(self, distance: int, size: int) -> DigitSum:
        """The remainder by `size` of what is `distance` more."""
        return DigitSum.of([(1, Digit(DigitSum(self.terms, self.constant + distance), 1, size))])

    def divided(self, divisor: int) -> tuple[DigitSum, DigitSum]:
        """Quotient and remainder."""
        high: list[Term] = []
        low: list[Term] = []
        for factor, digit in self.terms:
            size = divisor // factor
            if factor % divisor == 0:
                high.append((factor // divisor, digit))
            elif size * factor == divisor and digit.extent > size and digit.extent % size == 0:
                lower, upper = digit.split(size)
                low.append((factor, lower))
                high.append((1, upper))
            else:
                low.append((factor, digit))
        remainder = DigitSum.of(low, self.constant % divisor)
        if remainder.maximum < divisor:
            return DigitSum.of(high, self.constant // divisor), remainder
        quotient = Digit(self, divisor, self.maximum // divisor + 1)
        return DigitSum.of([(1, quotient)]), DigitSum.of([(1, Digit(self, 1, divisor))])


@dataclass(frozen=True)
class Places:
    """Where each element of a tensor of so many lies in another one, both counted in the order of memory."""

    elements: int
    place: DigitSum

    @staticmethod
    def of(elements: int, indices: Sequence[DigitSum], shape: Sequence[int]) -> Places:
        """At these indices of a tensor of `shape`."""
        strides = [prod(shape[dimension + 1 :]) for dimension in range(len(shape))]
        place = DigitSum((), 0)
        for index, stride in zip(indices, strides, strict=True):
            place = place + index.times(stride)
        return Places(elements, place)

    @property
    def is_identity(self) -> bool:
        return self.offset == 0

    @property
    def offset(self) -> int | None:
        """That of the first of them where all are neighbours in the same order; None where they aren't."""
        in_order = DigitSum.of([(1, Digit(None, 1, self.elements))])
        return self.place.constant if self.place.terms == in_order.terms else None

    def keeps(self, run: int) -> bool:
        """Whether so many neighbours, from a multiple of them on, are so there, too."""
        *outer, last = self.place.terms or ((0, Digit(None, 1, 1)),)
        factor, digit = last
        return (
            (factor, digit.number, digit.divisor) == (1, None, 1)
            and digit.extent % run == 0
            and self.place.constant % run == 0
            and all(each % run == 0 and other.is_same_within(run) for each, other in outer)
        )


def places_of(shape: Sequence[int]) -> tuple[DigitSum, ...]:
    """The index along each dimension of a tensor of `shape`, of the element at a place."""
    return tuple(
        DigitSum.of([(1, Digit(None, prod(shape[dimension + 1 :]), size))])
        for dimension, size in enumerate(shape)
    )
