"""Grids beyond a target's limits run as many workgroups in another layout."""

from __future__ import annotations

from itertools import product

import pytest
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.grid import Grid

LIMITS = (10, 7, 5)


def places(extents: tuple[int, ...]) -> list[tuple[int | None, ...]]:
    """The workgroups that run, in the order of launching."""
    sizes = Sizes.of_batch(1)
    grid = Grid(lambda _: tuple(map(Index, extents)), LIMITS)
    launched = [extent.known for extent in grid.launched(sizes)]
    assert all(extent <= limit for extent, limit in zip(launched, LIMITS, strict=False))
    launched += [1] * (3 - len(launched))
    return [
        tuple(index.known for index in grid.place(Work((Index(x), Index(y), Index(z)), sizes)).workgroup)
        for z, y, x in product(*map(range, reversed(launched)))
    ]


@pytest.mark.parametrize("extents", [(10, 7, 5), (3,), (11,), (61, 1), (3, 8), (2, 3, 6), (1, 1, 70)])
def test_every_workgroup_runs(extents: tuple[int, ...]) -> None:
    x, y, z = (*extents, 1, 1)[:3]
    found = places(extents)
    everything = [(i, j, k) for k, j, i in product(range(z), range(y), range(x))]
    assert found[: len(everything)] == everything
    rows = ceil_div(len(everything), LIMITS[0])
    assert len(found) < len(everything) + rows and set(found) == set(everything)


def test_no_layout_admits_more() -> None:
    with pytest.raises(ValueError, match="72 workgroups are too many"):
        places((8, 9))
