"""The search for points: its score is the one of the error model, and it finds what is known to be good."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from iree.winograd.dialect.algebra import search
from iree.winograd.dialect.algebra.cook_toom import cook_toom
from iree.winograd.dialect.algebra.literature import MAZAHERI_2020
from iree.winograd.dialect.algebra.numerics import amplification
from iree.winograd.dialect.algebra.point import INFINITY
from iree.winograd.dialect.algebra.transforms import as_array, with_recipes


def test_score_is_the_amplification_of_the_error_model() -> None:
    for m, r, points in ((4, 3, "0 1 -1 2 -2"), (3, 3, "3/8 -3/8 5/4 2"), (2, 5, "0 1/2 -1 3 2/7")):
        finite = [Fraction(point) for point in points.split()]
        algorithm = cook_toom(m, r, [*finite, INFINITY])
        output, filters, inputs = (
            as_array(matrix) for matrix in (algorithm.output, algorithm.filter, algorithm.input)
        )
        growth = np.sqrt(output**2 @ ((filters**2).sum(axis=1) * (inputs**2).sum(axis=1)) / r)
        expected = growth.mean() ** 0.75 * growth.max() ** 0.25
        score = search.amplifications(np.array([[float(point) for point in finite]]), m, r)
        assert score == pytest.approx([expected])
        assert amplification(with_recipes(algorithm)) == pytest.approx(growth.mean())


@pytest.mark.parametrize("alpha", [5, 6, 7])
def test_the_best_points_beat_the_published_ones(alpha: int) -> None:
    found = search.best_points(alpha, restarts=3)
    assert [one.error for one in found] == sorted(one.error for one in found)
    published = next(one for one in found if set(one.points) == set(MAZAHERI_2020[alpha]))
    assert found[0].error < 0.8 * published.error
    preferred = search.by_preference(found)[0]
    assert preferred.error <= 1.05 * found[0].error
    assert preferred.operations <= found[0].operations
    for one in found:
        assert len(set(one.points)) == alpha - 1


def test_unit_points_win_for_alpha_4() -> None:
    best = search.by_preference(search.best_points(4, restarts=3))[0]
    assert set(best.points) == {0, 1, -1}


def test_every_family_has_as_many_points_as_needed() -> None:
    for family in search.FAMILIES:
        for alpha in range(3, 17):
            unknowns = np.linspace(1.1, 3, family.unknowns(alpha))[None]
            points = family.points(unknowns, alpha)
            assert points.shape == (1, alpha - 1)
            assert len(set(points[0])) == alpha - 1


def test_the_command_is_reproducible_and_updates_a_file(tmp_path: Path) -> None:
    path = tmp_path / "points.json"
    path.write_text('{"7": {"points": ["kept"]}}')
    arguments = ["--alpha", "4", "5", "--restarts", "2", "--trials", "200", "--output", str(path)]
    search.main(arguments)
    first = path.read_text()
    search.main(arguments)
    assert path.read_text() == first
    data = json.loads(first)
    assert list(data) == ["4", "5", "7"]
    assert data["7"] == {"points": ["kept"]}
    assert data["5"]["error"]["2-D"] < data["5"]["published"]["2-D"]


def test_impossible_sizes_are_named() -> None:
    with pytest.raises(ValueError, match="no choice of points for alpha = 2"):
        search.best_points(2)
