"""Bounds of what float32 gives hold, and say where they don't."""

from __future__ import annotations

import numpy as np
import pytest
from bounded import FUNCTIONS, Bounded
from checking import WrongResultError, compare


@pytest.mark.parametrize("name", ["exp", "tanh", "sqrt", "abs", "neg", "erf"])
def test_bounds_hold_for_float32(name: str) -> None:
    values = np.random.default_rng(0).uniform(0.1, 3, 1000).astype(np.float32)
    bounded = FUNCTIONS[name](Bounded(np.float64(values), np.full(1000, 1e-6)))
    moved = FUNCTIONS[name](Bounded.exact(np.float64(values) + 0.99e-6))
    assert (np.abs(moved.value - bounded.value) <= bounded.error).all()
    assert (bounded.error < 1e-5 * (1 + np.abs(bounded.value))).all()


def test_what_is_not_bounded_is_never_wrong() -> None:
    quotient = FUNCTIONS["div"](Bounded.exact([1.0]), Bounded(np.array([1e-30]), np.array([1e-20])))
    product = FUNCTIONS["mul"](quotient, Bounded.exact([0.0]))
    overflown = Bounded(np.array([np.nan]), np.array([np.nan]))
    for result in (0.0, np.inf, np.nan):
        compare([np.array([result])], [product], 0)
        compare([np.array([result])], [overflown], 0)
        compare([np.array([result])], [Bounded(np.array([1e41]), np.array([1e38]))], 0)
    with pytest.raises(WrongResultError, match=r"nan is not 0\.0 within"):
        compare([np.array([np.nan])], [Bounded.exact([0.0])], 0)
