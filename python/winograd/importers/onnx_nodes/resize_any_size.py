"""`Resize` along a dimension whose sizes are known only at run time: positions are computed of them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting
from onnx import TensorProto

ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_COORDINATES = ("align_corners", "asymmetric", "half_pixel", "pytorch_half_pixel")
_MOST_PARTS = 64
"""Of an element: sizes are multiplied by such fractions in integers; by others in f32, as by ONNX Runtime."""


@dataclass(frozen=True)
class ResizedAnySize:
    """How a dimension is resized, the same for all sizes: by a scale, or to a size that is an operand."""

    mode: str
    coordinates: str
    rounding: str
    scale: float | None
    """None where the size is given."""

    @staticmethod
    def match(mode: str, coordinates: str, rounding: str, scale: float | None) -> ResizedAnySize | None:
        """None for what isn't computed here."""
        is_rounded = mode == "linear" or (mode == "nearest" and rounding in ROUNDINGS)
        if not is_rounded or coordinates not in _COORDINATES or (scale is not None and scale <= 0):
            return None
        return ResizedAnySize(mode, coordinates, rounding, scale)


def resized_any_size(
    rewriting: Rewriting, image: str, axis: int, by: ResizedAnySize, new_size: str | None
) -> str:
    """`image` with one dimension resized; `new_size` is the number it gets where no scale says."""
    return _Positions(rewriting, image, axis, by, new_size).read()


class _Positions:
    """Where new elements lie among the old ones: quotients of integers, or numbers of f32 between them."""

    def __init__(
        self, rewriting: Rewriting, image: str, axis: int, by: ResizedAnySize, new_size: str | None
    ) -> None:
        self.add = rewriting.add
        self.rewriting, self.image, self.axis, self.by = rewriting, image, axis, by
        self.size = self.add("Gather", self.add("Shape", image), self.integer(axis))
        if by.scale is None:
            assert new_size is not None, "neither a scale nor a size"
            self.new_size, self.over, self.under = new_size, new_size, self.size
        else:
            scale = Fraction(by.scale)
            self.over, self.under = self.integer(scale.numerator), self.integer(scale.denominator)
            self.new_size = self._scaled(scale)
        self.places = self.add("Range", self.integer(0), self.new_size, self.integer(1))

    def integer(self, number: int) -> str:
        return self.rewriting.constant_of(number, np.int64)

    def number(self, number: float) -> str:
        return self.rewriting.constant_of(number, np.float32)

    def read(self) -> str:
        """The image's elements at the positions, or between two of them."""
        if self.by.mode == "nearest":
            return self.add("Gather", self.image, self._nearest(), axis=self.axis)
        last = self.add("Sub", self.size, self.integer(1))
        positions = self._between()
        first = self.rewriting.lesser(self.add("Cast", positions, to=TensorProto.INT64), last)
        share = self.add("Sub", positions, self._float(first))
        second = self.rewriting.lesser(self.add("Add", first, self.integer(1)), last)
        rank = self.rewriting.rank(0)
        along = self.rewriting.constant_of([-1] + [1] * (rank - 1 - self.axis), np.int64)
        parts = [
            self.add(
                "Mul",
                self.add("Gather", self.image, row, axis=self.axis),
                self.add("Reshape", weights, along),
            )
            for row, weights in ((first, self.add("Sub", self.number(1.0), share)), (second, share))
        ]
        return self.add("Add", *parts)

    def _scaled(self, scale: Fraction) -> str:
        """The size times a scale, rounded downwards."""
        if scale.denominator > _MOST_PARTS:
            product = self.add("Mul", self._float(self.size), self.number(float(scale)))
            return self.add("Cast", self.add("Floor", product), to=TensorProto.INT64)
        product = self.add("Mul", self.size, self.over)
        return product if scale.denominator == 1 else self.add("Div", product, self.under)

    def _nearest(self) -> str:
        """The element nearest to each position, by the quotient of integers that it is."""
        numerator, denominator = self._quotient()
        twice, one = self.integer(2), self.integer(1)
        if self.by.rounding.startswith("round"):
            numerator, denominator = (self.add("Mul", each, twice) for each in (numerator, denominator))
            half = self.add("Div", denominator, twice)
            numerator = self.add("Add", numerator, half)
            if self.by.rounding == "round_prefer_floor":
                numerator = self.add("Sub", numerator, one)
        elif self.by.rounding == "ceil":
            numerator = self.add("Add", numerator, self.add("Sub", denominator, one))
        quotient = self.add("Div", numerator, denominator)
        return self.rewriting.lesser(quotient, self.add("Sub", self.size, one))

    def _quotient(self) -> tuple[str, str]:
        """A numerator, not negative, for each position, and their denominator."""
        one, zero = self.integer(1), self.integer(0)
        if self.by.coordinates == "asymmetric":
            return self.add("Mul", self.places, self.under), self.over
        if self.by.coordinates == "align_corners":
            last, new_last = self._corners()
            return self.add("Mul", self.places, last), new_last
        twice = self.integer(2)
        centers = self.add("Add", self.add("Mul", self.places, twice), one)
        numerator = self.add("Sub", self.add("Mul", centers, self.under), self.over)
        numerator = self.rewriting.greater(numerator, zero)
        if self.by.coordinates == "pytorch_half_pixel":
            numerator = self.add("Where", self._is_one, zero, numerator)
        return numerator, self.add("Mul", self.over, twice)

    def _between(self) -> str:
        """Positions of f32, none of them negative."""
        places = self._float(self.places)
        if self.by.coordinates == "align_corners":
            last, new_last = self._corners()
            return self.add("Mul", places, self.add("Div", self._float(last), self._float(new_last)))
        step = (
            self.add("Div", self._float(self.size), self._float(self.new_size))
            if self.by.scale is None
            else self.number(1 / self.by.scale)
        )
        if self.by.coordinates == "asymmetric":
            return self.add("Mul", places, step)
        half = self.number(0.5)
        positions = self.add("Sub", self.add("Mul", self.add("Add", places, half), step), half)
        positions = self.add("Relu", positions)
        if self.by.coordinates == "pytorch_half_pixel":
            positions = self.add("Where", self._is_one, self.number(0.0), positions)
        return positions

    def _corners(self) -> tuple[str, str]:
        """The last element and the last new one; one that is the only one has the place of the first."""
        one = self.integer(1)
        new_last = self.add("Sub", self.new_size, one)
        return self.add("Sub", self.size, one), self.add("Where", self._is_one, one, new_last)

    @property
    def _is_one(self) -> str:
        """Whether there is one new element."""
        return self.add("Equal", self.new_size, self.integer(1))

    def _float(self, integers: str) -> str:
        return self.add("Cast", integers, to=TensorProto.FLOAT)
