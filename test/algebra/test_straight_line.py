"""The greedy search against an exhaustive one over every order of factorizations."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest
from iree.winograd.dialect.algebra.straight_line import recipe_of
from iree.winograd.dialect.algebra.transforms import transforms

Rows = frozenset[frozenset[tuple[object, Fraction]]]


def fewest_sums(matrix: tuple[tuple[Fraction, ...], ...]) -> int:
    """The fewest operations of two operands over all ways to share submatrices of rank one."""
    start = frozenset(frozenset((j, e) for j, e in enumerate(row) if e) for row in matrix)
    assert len(start) == len(matrix), "equal rows would be counted once"
    most_saved: dict[Rows, int] = {start: 0}
    pending = [start]
    while pending:
        rows = pending.pop()
        for factored, saving in factorizations(rows):
            saved = most_saved[rows] + saving
            if saved > most_saved.get(factored, -1):
                most_saved[factored] = saved
                pending.append(factored)
    return sum(max(0, len(row) - 1) for row in start) - max(most_saved.values())


def factorizations(rows: Rows) -> list[tuple[Rows, int]]:
    results: dict[Rows, int] = {}
    for first, second in combinations([dict(row) for row in rows], 2):
        by_ratio: dict[Fraction, list[object]] = {}
        for column in first.keys() & second.keys():
            by_ratio.setdefault(second[column] / first[column], []).append(column)
        for columns in by_ratio.values():
            for size in range(2, len(columns) + 1):
                for chosen in combinations(sorted(columns, key=repr), size):
                    factored, users = share(rows, {column: first[column] for column in chosen})
                    results[factored] = (users - 1) * (size - 1)
    return list(results.items())


def share(rows: Rows, pattern: dict[object, Fraction]) -> tuple[Rows, int]:
    """The rows with every multiple of the pattern replaced by one new value, and how many rows use it."""
    leading = next(iter(pattern.values()))
    definition = frozenset((column, value / leading) for column, value in pattern.items())
    result = [definition]
    users = 0
    for row in map(dict, rows):
        ratios = {row[column] / value if column in row else None for column, value in pattern.items()}
        if len(ratios) > 1 or None in ratios:
            result.append(frozenset(row.items()))
            continue
        users += 1
        rest = {column: value for column, value in row.items() if column not in pattern}
        result.append(frozenset({**rest, definition: ratios.pop() * leading}.items()))
    return frozenset(result), users


@pytest.mark.parametrize(
    ("m", "r", "part"),
    [
        *((m, r, "input") for m, r in ((2, 3), (3, 3), (2, 4), (4, 3), (3, 4), (2, 5))),
        *((m, r, "output") for m, r in ((2, 3), (3, 3), (4, 3), (2, 5), (5, 3), (3, 5), (6, 3), (4, 5))),
    ],
)
def test_no_sequence_of_factorizations_is_shorter(m: int, r: int, part: str) -> None:
    found = transforms(m, r)
    recipe = getattr(found, part)
    sums = len(recipe.operations) - recipe.multiplications
    assert sums == fewest_sums(getattr(found.algorithm, part))


def test_a_rectangle_is_shared() -> None:
    matrix = tuple(tuple(map(Fraction, row)) for row in ((1, 2, 3), (2, 4, 6), (1, 2, 0)))
    recipe = recipe_of(matrix)
    assert recipe.matrix() == matrix
    assert len(recipe.operations) == 3
