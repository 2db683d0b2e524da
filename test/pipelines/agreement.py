"""Whether results are as near to float64 as they have to be, and if not, how far they are off and where."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def expect_within(actual: npt.ArrayLike, exact: Array, bound: float | Array) -> None:
    """Every element of `actual` is within `bound` of `exact`; `bound` is one for all or one for each.

    Raises AssertionError with the largest error, how many elements are further off, and the first of them.
    """
    result = np.asarray(actual)
    assert result.shape == exact.shape, f"the result has shape {result.shape}, not {exact.shape}"
    with np.errstate(invalid="ignore"):
        errors = np.abs(result - exact)
        far = ~(errors <= bound)
    if not far.any():
        return
    first = tuple(map(int, np.argwhere(far)[0]))
    numbers = errors[~np.isnan(errors)]
    largest = f"{numbers.max():.3g}" if numbers.size else "not a number"
    raise AssertionError(
        f"the largest error is {largest}; {far.sum()} of {far.size} elements are out of bounds "
        f"({np.isnan(result).sum()} NaN, {np.isinf(result).sum()} infinite): first, at {first}, "
        f"{result[first]} is not {exact[first]} within {np.broadcast_to(bound, far.shape)[first]:.3g}"
    )
