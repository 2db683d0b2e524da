"""Sums over pixels of images whose sizes are known only at run time, of integers, which are exact."""

from __future__ import annotations

import iree.winograd
import numpy as np
import pytest
from pixel_sum_program import EXPECTED, FORMS, program
from wide import wide_combinations


@pytest.mark.parametrize(
    ("form", "channels"),
    [*((form, 21) for form in FORMS), *wide_combinations([("rows", 3), ("means", 32)])],
)
def test_sums_pixels_of_any_size(form: str, channels: int) -> None:
    compiled = iree.winograd.compile(program(form, channels), threads=1, strict=True)
    assert (b"winograd_row_sums_anyx%d" % channels in compiled) == (form != "rows")
    assert b"winograd_row_sums_anyxanyx%d" % channels in compiled
    run = iree.winograd.load(compiled, device="local-sync")
    random = np.random.default_rng(0)
    for size in [(1, 1, 1), (2, 1, 13), (1, 7, 3), (3, 5, 40), (1, 4, 0), (0, 2, 2), (1, 0, 4)]:
        image = random.integers(-100, 100, (*size, channels)).astype(np.float32)
        with np.errstate(invalid="ignore"):
            expected = EXPECTED[form](image)
        # A mean of all pixels is divided twice.
        rounding = 1.01 * 2.0**-23 if form == "pooled" else 0
        np.testing.assert_allclose(np.asarray(run(image)), expected, rtol=rounding)
