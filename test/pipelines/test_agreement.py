"""What a comparison with float64 says when it fails."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import expect_within

EXACT = np.arange(6.0).reshape(2, 3)


def test_says_how_many_elements_are_how_far_off_and_where() -> None:
    actual = EXACT.copy()
    actual[0, 2], actual[1, 0] = 2.5, np.nan
    with pytest.raises(AssertionError) as failure:
        expect_within(actual, EXACT, 0.01)
    assert str(failure.value) == (
        "the largest error is 0.5; 2 of 6 elements are out of bounds (1 NaN, 0 infinite): "
        "first, at (0, 2), 2.5 is not 2.0 within 0.01"
    )


def test_bounds_may_be_one_for_each_column() -> None:
    actual = EXACT + np.array([0, 0.1, 0.2])
    expect_within(actual, EXACT, np.array([0, 0.15, 0.25]))
    with pytest.raises(AssertionError, match=r"2 of 6 elements .* first, at \(0, 1\), .* within 0.05"):
        expect_within(actual, EXACT, np.array([0, 0.05, 0.25]))


@pytest.mark.parametrize("element", [np.nan, np.inf])
def test_what_is_no_number_is_out_of_bounds(element: float) -> None:
    with pytest.raises(AssertionError, match="6 of 6 elements"):
        expect_within(np.full_like(EXACT, element), EXACT, 10.0)


def test_another_shape_is_no_agreement() -> None:
    with pytest.raises(AssertionError, match=r"shape \(3,\), not \(2, 3\)"):
        expect_within(EXACT[0], EXACT, 10.0)
