"""Products of fp32 on matrix units of NVIDIA: three of TF32 each, or one of numbers that TF32 has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from iree.winograd.dialect.bindings import arith, ir, math, vector
from iree.winograd.pipelines.emission.vectors import constant_like
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_SUMS
from iree.winograd.pipelines.gpu.device.memory import zero_scalar
from iree.winograd.pipelines.gpu.device.mma import multiply_single, no_sums, single_fragment

from .splitting import single_parts_of

PAIR = 2
"""Neighbouring sums of a row that a thread has."""
_COUNT = 2 * PAIR

Sums = list[ir.Value]
"""A thread's of 16 x 8: two neighbours of a row, and two of the row eight behind."""
Parts = list[ir.Value]
"""Fragments of the high parts of numbers and, where they are split, of the low ones."""


def parts_of_fragment(elements: Sequence[ir.Value], count: int) -> Parts:
    """Of what a thread holds of an operand, which units cut off to TF32; a single part is the nearest one."""
    parts = (single_parts_of(element, count) for element in elements)
    return [single_fragment(each) for each in zip(*parts, strict=True)]


class SingleProducts:
    """Sums of 16 x 8 while products of fragments are added: of large ones, and of small ones beside them."""

    def __init__(self, products: int, values: Sequence[ir.Value] | None = None) -> None:
        """None so far, or those whose `values` are given."""
        zero = zero_scalar(MATRIX_SUMS.type)
        ended, small = (values[:_COUNT], values[_COUNT:]) if values else ([zero] * _COUNT, [no_sums()])
        self._ended, self._small = list(ended), small[0] if products > 1 else None
        self._large: ir.Value | None = None

    def add(self, rows: Parts, columns: Parts) -> None:
        self._large = multiply_single(rows[0], columns[0], self._large or no_sums())
        if self._small is not None:
            self._small = multiply_single(rows[0], columns[1], self._small)
            self._small = multiply_single(rows[1], columns[0], self._small)

    def end_block(self) -> None:
        """Has threads add the large products since the last block to those before."""
        assert self._large is not None
        self._ended, self._large = list(map(arith.addf, self._ended, _elements(self._large))), None

    @property
    def values(self) -> list[ir.Value]:
        """What a loop carries between blocks."""
        assert self._large is None
        return [*self._ended, *([] if self._small is None else [self._small])]

    def sums(self, *, keeps_infinity: bool = False) -> Sums:
        """One by one. Of an infinity nothing is left, and small products of it are no number."""
        large = self._ended
        if self._small is None:
            return large
        sums = list(map(arith.addf, large, _elements(self._small)))
        if not keeps_infinity:
            return sums
        return [arith.select(_is_infinite(one), one, sum_) for one, sum_ in zip(large, sums, strict=True)]


def _elements(sums: ir.Value) -> list[ir.Value]:
    return [vector.extract(sums, [], [row, column]) for row in range(2) for column in range(PAIR)]


def _is_infinite(number: ir.Value) -> ir.Value:
    infinity = constant_like(number, np.inf)
    return arith.cmpf(arith.CmpFPredicate.OEQ, math.absf(number), infinity)
