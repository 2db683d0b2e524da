"""The shipped transforms, and their nested application with rectangular and higher-dimensional tiles."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from iree.winograd.dialect.algebra import transforms as module
from iree.winograd.dialect.algebra.points import measured_points, points_for
from iree.winograd.dialect.algebra.recipe_search import shipped_sizes
from iree.winograd.dialect.algebra.transforms import apply, derive, from_data, to_data, transforms
from wide import wide_combinations

SOME_SIZES = shipped_sizes()[::4]


@pytest.mark.parametrize(
    ("m", "r"),
    [*SOME_SIZES, *wide_combinations(size for size in shipped_sizes() if size not in SOME_SIZES)],
)
def test_shipped_data_is_exact_and_current(m: int, r: int) -> None:
    found = transforms(m, r)
    assert found.algorithm == derive(m, r, restarts=1).algorithm
    assert found.output.matrix() == found.algorithm.output
    assert found.filter.matrix() == found.algorithm.filter
    assert found.input.matrix() == found.algorithm.input


def test_shipped_sizes_need_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*arguments: object) -> None:
        raise AssertionError(f"searched for {arguments}")

    monkeypatch.setattr(module, "derive", search)
    transforms.cache_clear()
    for m, r in shipped_sizes():
        transforms(m, r)


def test_importing_the_algebra_loads_no_compiler() -> None:
    program = (
        "import sys, iree.winograd.dialect.algebra.transforms, iree.winograd.dialect.algebra.numerics;"
        "print([name for name in sys.modules if name.startswith(('iree.compiler', 'torch', 'sympy'))])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_data_round_trip() -> None:
    for m, r in ((4, 3), (1, 3), (1, 1), (2, 2)):
        assert from_data(to_data(transforms(m, r))) == transforms(m, r)


@pytest.mark.parametrize("form", ["matrix", "recipe"])
@pytest.mark.parametrize(
    ("m", "r"),
    [
        ((4,), (3,)),
        ((4, 1), (3, 1)),
        ((1, 4), (3, 3)),
        ((2, 4), (3, 7)),
        ((2, 3, 4), (3, 2, 1)),
        ((2, 2, 2), (3, 3, 3)),
    ],
)
def test_nesting_is_the_correlation(form: str, m: tuple[int, ...], r: tuple[int, ...]) -> None:
    generator = np.random.default_rng(3)
    found = [transforms(*size) for size in zip(m, r, strict=True)]
    source = [one.algorithm for one in found] if form == "matrix" else found
    tiles = generator.uniform(-1, 1, (5, *(one.alpha for one in found), 2))
    filters = generator.uniform(-1, 1, (1, *r, 2))
    axes = range(1, 1 + len(m))
    products = apply([one.filter for one in source], filters, axes) * apply(
        [one.input for one in source], tiles, axes
    )
    actual = apply([one.output for one in source], products, axes)
    windows = np.lib.stride_tricks.sliding_window_view(tiles, r, axis=tuple(axes))
    weights = np.moveaxis(filters[0], -1, 0).reshape(1, *[1] * len(m), 2, *r)
    expected = (windows * weights).sum(axis=tuple(range(-len(m), 0)))
    assert actual.shape == (5, *m, 2)
    np.testing.assert_allclose(actual, expected, atol=1e-12)


def test_exact_arithmetic_through_object_arrays() -> None:
    found = transforms(2, 3)
    tile = np.array([Fraction(n, 3) for n in (1, 2, 5, 7)], dtype=object)
    result = apply(found.algorithm.input, tile, [0])
    assert result.tolist() == found.input.apply(list(tile))
    assert all(isinstance(value, Fraction) for value in result)


def test_one_transform_serves_all_axes() -> None:
    tile = np.arange(36.0).reshape(6, 6)
    matrix = np.array(transforms(4, 3).algorithm.input, dtype=float)
    np.testing.assert_allclose(apply(matrix, tile, (0, 1)), matrix @ tile @ matrix.T)
    np.testing.assert_allclose(apply(matrix, tile, (-1,)), tile @ matrix.T)


def test_bad_application_is_named() -> None:
    found = transforms(4, 3)
    with pytest.raises(ValueError, match="takes 6 values, but axis 1 has 5"):
        apply(found.input, np.zeros((6, 5)), (0, 1))
    with pytest.raises(ValueError, match="2 axes need as many transforms, but 1 were given"):
        apply([found.input], np.zeros((6, 6)), (0, 1))
    with pytest.raises(ValueError, match="m = 0"):
        transforms(0, 3)


def test_points_are_distinct_and_as_many_as_needed() -> None:
    for alpha in range(1, 25):
        points = points_for(alpha)
        assert len(points) == len(set(points)) == alpha
    with pytest.raises(ValueError, match="alpha = 0"):
        points_for(0)


def test_points_are_as_accurate_as_the_published_ones() -> None:
    shipped = measured_points()
    assert set(range(4, 17)) <= set(shipped)
    for alpha in range(4, 17):
        entry = shipped[alpha]
        assert entry.published is not None
        # Equal sets in another order differ by the sampling error of the median.
        assert entry.errors.one_dimensional <= 1.02 * entry.published.one_dimensional
        assert entry.errors.two_dimensional <= 1.02 * entry.published.two_dimensional
