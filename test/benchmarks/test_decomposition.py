"""The counts of the paper's tables, and its claim on accuracy."""

from __future__ import annotations

import pytest
from wide import wide

from benchmarks.decomposition import (
    PAPER_COUNTS,
    PRECISIONS,
    direct_error,
    own_products,
    paper_products,
    tiled_error,
)

SINGLE = PRECISIONS[0]
CHANNELS = 256


@pytest.mark.parametrize(("kernel", "stride"), PAPER_COUNTS)
def test_counts_are_those_of_the_paper(kernel: int, stride: int) -> None:
    count = paper_products((kernel,) * 2, (stride,) * 2, (14, 14))
    # The paper gives three digits.
    assert count == pytest.approx(PAPER_COUNTS[kernel, stride], rel=5e-3)


def test_larger_tiles_need_fewer_products_than_the_paper() -> None:
    assert own_products(3, 1, 12) == (12 * 12 * 16 // 9, "F(6, 3)")
    assert own_products(1, 1, 12) == (12 * 12, "direct")


@pytest.mark.parametrize("kernel", [5, 7, *wide([9, 11])])
def test_decomposition_keeps_the_accuracy_of_a_direct_convolution(kernel: int) -> None:
    direct = direct_error(kernel, CHANNELS, SINGLE, outputs=64)
    for m in (2, 4):
        # Root mean square errors within 4 times, which are the squares within 16 times.
        assert tiled_error(kernel, m, 3, CHANNELS, SINGLE, tiles=4) <= 16 * direct
    whole_kernel = tiled_error(kernel, 2, kernel, CHANNELS, SINGLE, tiles=4)
    assert whole_kernel > 10 * tiled_error(kernel, 2, 3, CHANNELS, SINGLE, tiles=4)
