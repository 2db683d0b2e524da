"""`GridSample` as weighted rows of channels; torch-mlir's code for it reads outside the image.

Every index is clamped before it is used, so that whatever the grid holds nothing else is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from iree.winograd.importers.onnx_nodes.registry import rewrites
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting
from onnx import TensorProto

_MODES = {"bilinear": "linear", "bicubic": "cubic"}
"""Modes have other names before operator set 20."""
_FIRST_TAP = {"nearest": 0, "linear": 0, "cubic": -1}
_TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
_PADDINGS = ("border", "reflection", "zeros")
_CUBIC_COEFFICIENT = -0.75
_BEYOND = 4.0
"""A position so far outside of an image reads none of its elements, in any mode."""


@rewrites("GridSample")
def grid_sample(rewriting: Rewriting) -> None:
    """Samples an image, of any number of dimensions, at the positions of a grid."""
    mode = rewriting.text("mode", "linear")
    mode, padding = _MODES.get(mode, mode), rewriting.text("padding_mode", "zeros")
    if mode not in _TAPS or padding not in _PADDINGS:
        rewriting.refuse(f"the mode {mode!r} and the padding {padding!r}")
    image, grid = rewriting.node.input[:2]
    element_type = rewriting.values.element_type(image)
    sizes = rewriting.sizes(image)[2:]
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) < len(sizes) or 0 in known:
        rewriting.refuse("images whose size isn't known")
    if rewriting.values.element_type(grid) != TensorProto.FLOAT:
        grid = rewriting.add("Cast", grid, to=TensorProto.FLOAT)
    aligned = bool(rewriting.attributes.get("align_corners", 0))
    # A grid has the last dimension of the image first.
    taps = [
        _Sampled(rewriting, size, mode, padding, aligned).taps(
            _coordinate(rewriting, grid, len(sizes) - 1 - d)
        )
        for d, size in enumerate(known)
    ]
    rows = _rows(rewriting, image)
    offset = _offset_of_images(rewriting, image, known)
    total = ""
    for choice in product(*taps):
        term = _term(rewriting, rows, offset, choice, known, element_type)
        total = rewriting.add("Add", total, term) if total else term
    rank = len(known) + 2
    rewriting.add("Transpose", total, perm=[0, rank - 1, *range(1, rank - 1)], into=rewriting.node.output[0])


@dataclass(frozen=True)
class _Tap:
    """One element along a dimension: an index within the image, its weight, and whether there is one.

    None stands for a weight of 1, and for an element that is there.
    """

    index: str
    weight: str | None
    inside: str | None


class _Sampled:
    """One dimension of an image that is sampled."""

    def __init__(self, rewriting: Rewriting, size: int, mode: str, padding: str, aligned: bool) -> None:
        self.rewriting = rewriting
        self.size = size
        self.mode = mode
        self.padding = padding
        self.aligned = aligned
        # Where the image ends: at the centers of its outer elements, or half an element further out.
        self.low, self.high = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)

    def taps(self, coordinate: str) -> list[_Tap]:
        """The elements at positions from -1 to 1, which are those of the image's ends."""
        position = self._at_end(self._position(coordinate))
        if self.mode == "nearest":
            return [self._tap(position, None)]
        first = self._compute("Floor", position)
        rest = self._compute("Sub", position, first)
        weights = self._linear(rest) if self.mode == "linear" else self._cubic(rest)
        offset = _FIRST_TAP[self.mode]
        return [self._tap(self._compute("Add", first, float(offset + t)), w) for t, w in enumerate(weights)]

    def _position(self, coordinate: str) -> str:
        scale = (self.size - 1) / 2 if self.aligned else self.size / 2
        position = self._compute("Mul", self._compute("Add", coordinate, 1.0), scale)
        if not self.aligned:
            position = self._compute("Sub", position, 0.5)
        return self._compute("Round", position) if self.mode == "nearest" else position

    def _at_end(self, position: str) -> str:
        """Positions with those outside of the image where their padding has them."""
        if self.padding == "border":
            return self._clamped(position, 0.0, self.size - 1.0)
        if self.padding == "reflection":
            # Twice the reflection moves a position by the same amount anyway.
            return self._clamped(self._reflected(position), self.low, self.high)
        return self._clamped(position, -_BEYOND, self.size + _BEYOND)

    def _reflected(self, position: str) -> str:
        extent = self.high - self.low
        if extent == 0:
            return self._compute("Mul", position, 0.0)
        distance = self._compute("Abs", self._compute("Sub", position, self.low))
        periods = self._compute("Floor", self._compute("Div", distance, 2 * extent))
        rest = self._compute("Sub", distance, self._compute("Mul", periods, 2 * extent))
        back = self._compute("Sub", 2 * extent, rest)
        return self._compute("Add", self._compute("Min", rest, back), self.low)

    def _tap(self, position: str, weight: str | None) -> _Tap:
        inside = None
        if self.padding == "zeros":
            at_least = self._compute("GreaterOrEqual", position, 0.0)
            at_most = self._compute("LessOrEqual", position, self.size - 1.0)
            inside = self._compute("And", at_least, at_most)
        elif self.padding == "reflection":
            position = self._reflected(position)
        index = self._clamped(position, 0.0, self.size - 1.0)
        return _Tap(self.rewriting.add("Cast", index, to=TensorProto.INT64), weight, inside)

    def _clamped(self, position: str, low: float, high: float) -> str:
        """`position` in this range; the lower end for a NaN, which compares with nothing."""
        above = self._compute("Where", self._compute("Greater", position, low), position, low)
        return self._compute("Where", self._compute("Less", above, high), above, high)

    def _linear(self, rest: str) -> list[str]:
        return [self._compute("Sub", 1.0, rest), rest]

    def _cubic(self, rest: str) -> list[str]:
        """Keys' cubic convolution."""
        a, back = _CUBIC_COEFFICIENT, self._compute("Sub", 1.0, rest)
        return [
            self._polynomial(self._compute("Add", rest, 1.0), a, -5 * a, 8 * a, -4 * a),
            self._polynomial(rest, a + 2, -(a + 3), 0.0, 1.0),
            self._polynomial(back, a + 2, -(a + 3), 0.0, 1.0),
            self._polynomial(self._compute("Add", back, 1.0), a, -5 * a, 8 * a, -4 * a),
        ]

    def _polynomial(self, x: str, first: float, *coefficients: float) -> str:
        total: str | float = first
        for each in coefficients:
            total = self._compute("Add", self._compute("Mul", total, x), each)
        return str(total)

    def _compute(self, operator: str, *operands: str | float) -> str:
        constant = self.rewriting.constant_of
        names = [each if isinstance(each, str) else constant(each, np.float32) for each in operands]
        return self.rewriting.add(operator, *names)


def _coordinate(rewriting: Rewriting, grid: str, place: int) -> str:
    """One coordinate of all positions, images first."""
    return rewriting.add("Gather", grid, rewriting.constant_of(place, np.int64), axis=-1)


def _rows(rewriting: Rewriting, image: str) -> str:
    """The channels of each element, those of all images one after the other."""
    rank = rewriting.rank(0)
    images, channels, *sizes = rewriting.sizes(image)
    last = rewriting.add("Transpose", image, perm=[0, *range(2, rank), 1])
    return rewriting.reshape(last, [rewriting.product(images, *sizes), channels])


def _offset_of_images(rewriting: Rewriting, image: str, sizes: Sequence[int]) -> str | None:
    """The first row of each image, in as many dimensions as positions have; None for one image."""
    images = rewriting.sizes(image)[0]
    if images == 1:
        return None
    each = [-1, *([1] * len(sizes))]
    if isinstance(images, int):
        return rewriting.constant_of((np.arange(images) * np.prod(sizes)).reshape(each), np.int64)
    count = rewriting.add("Reshape", images, rewriting.constant_of(np.zeros(0), np.int64))
    start, step = (rewriting.constant_of(value, np.int64) for value in (0, 1))
    numbers = rewriting.add("Range", start, count, step)
    firsts = rewriting.add("Mul", numbers, rewriting.constant_of([np.prod(sizes)], np.int64))
    return rewriting.add("Reshape", firsts, rewriting.constant_of(each, np.int64))


def _term(
    rewriting: Rewriting,
    rows: str,
    offset: str | None,
    taps: Sequence[_Tap],
    sizes: Sequence[int],
    element_type: int,
) -> str:
    """The rows at one index per dimension, zeros where there are none, times their weights."""
    index = ""
    for tap, size in zip(taps, sizes, strict=True):
        if index:
            scaled = rewriting.add("Mul", index, rewriting.constant_of(size, np.int64))
            index = rewriting.add("Add", scaled, tap.index)
        else:
            index = tap.index
    if offset is not None:
        index = rewriting.add("Add", index, offset)
    term = rewriting.add("Gather", rows, index, axis=0)
    per_row = rewriting.constant_of([-1], np.int64)
    if masks := [tap.inside for tap in taps if tap.inside is not None]:
        mask = masks[0]
        for each in masks[1:]:
            mask = rewriting.add("And", mask, each)
        mask = rewriting.add("Unsqueeze", mask, per_row)
        term = rewriting.add("Where", mask, term, rewriting.scalar_like(0.0, rewriting.node.input[0]))
    if weights := [tap.weight for tap in taps if tap.weight is not None]:
        weight = weights[0]
        for other in weights[1:]:
            weight = rewriting.add("Mul", weight, other)
        if element_type != TensorProto.FLOAT:
            weight = rewriting.add("Cast", weight, to=element_type)
        term = rewriting.add("Mul", term, rewriting.add("Unsqueeze", weight, per_row))
    return term
