"""Published interpolation points, to compare ours with."""

from __future__ import annotations

from fractions import Fraction


def _set(points: str) -> tuple[Fraction, ...]:
    return tuple(map(Fraction, points.split()))


MAZAHERI_2020 = {
    4: _set("0 1 -1"),
    5: _set("0 1 -1 2"),
    6: _set("0 1 -1 1/2 -2"),
    7: _set("0 1 -1 1/2 -2 2"),
    8: _set("0 1 -1 2 -1/2 1/2 -2"),
    9: _set("0 1 -1 2 -1/2 1/2 -2 4"),
    10: _set("0 1 -1 1/2 -2 2 -1/2 4/3 -3/4"),
    11: _set("0 1 -1 1/2 -2 2 -1/2 4/3 -3/4 -4"),
    12: _set("0 1 -1 1/2 -2 2 -1/2 3/4 -4/3 9/2 -2/9"),
    13: _set("0 1 -1 1/2 -2 2 -1/2 4/3 -3/4 1/4 -4 4"),
    14: _set("0 1 -1 1/2 -2 2 -1/2 9/7 -7/9 1/4 -4 7/9 -9/7"),
    15: _set("0 1 -1 1/2 -2 2 -1/2 4/3 -3/4 1/4 -4 7/9 -9/7 4"),
    16: _set("0 1 -1 1/2 -2 2 -1/2 4/3 -3/4 2/7 -7/2 4/5 -5/4 4 -1/4"),
}
"""Mazaheri et al., EuroSys'20, Table 3: finite points by alpha.

The printed set for 14 repeats -7/9; -9/7, as in their set for 15, is meant."""

MAZAHERI_2020_ERRORS = {
    4: 6.11e-8,
    5: 2.65e-7,
    6: 5.59e-7,
    7: 1.14e-6,
    8: 1.76e-6,
    9: 9.93e-6,
    10: 1.42e-5,
    11: 8.38e-5,
    12: 1.83e-4,
    13: 5.36e-4,
    14: 9.10e-4,
    15: 3.45e-3,
    16: 4.66e-3,
}
"""Relative errors stated in the same table."""

WINCNN = {
    4: _set("0 1 -1"),
    6: _set("0 1 -1 2 -2"),
    8: _set("0 1 -1 2 -2 1/2 -1/2"),
}
"""The points of Lavin's wincnn, whose matrices for 3x3 kernels NNPACK and others use."""
