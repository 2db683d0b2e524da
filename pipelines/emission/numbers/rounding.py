"""Rounding numbers of f32 to fewer digits, without conversions."""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.vectors import constant_like, multiply_add

_DIGITS = 24
"""Of f32."""


def rounded_by_product(number: ir.Value, digits: int, fused: bool) -> ir.Value:
    """Build the nearest number of so many digits, of two as near the even one: 2^s x - round((2^s - 1) x).

    With s the digits that are lost, the product's last digit is worth the last one that is kept of `number`,
    or half of it for the first numbers from a power of two on, whose nearest is that power. What differs from
    2^s x by the product's rounding is a number of so many digits, so the difference is exact, fused or not.
    (Dekker's splitting, Numer. Math. 18, 1971, whose factor 2^s + 1 is right up to a power of two only by one
    more operation.) Numbers are below 2^(127 - s): infinity would become NaN. Zeros lose their sign.
    """
    scale = float(1 << _DIGITS - digits)
    product = arith.mulf(number, constant_like(number, 1 - scale))
    return multiply_add(number, constant_like(number, scale), product, fused)
