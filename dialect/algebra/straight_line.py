"""The search for short straight-line programs of a rational matrix.

A matrix with `t` terms in a row costs `t - 1` operations there (one more without a coefficient of one).
Whatever `I` rows and `J` columns share as a submatrix of rank one is computed once and used `I` times,
which saves `(I - 1) (J - 1)` operations: pairs of points +-p, common factors and common subexpressions
are all of that form. The search takes such rectangles greedily, breaking ties at random, and keeps the
best of several restarts.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from iree.winograd.dialect.algebra.cook_toom import Matrix
from iree.winograd.dialect.algebra.recipe import Kind, Operation, Recipe
from iree.winograd.dialect.algebra.scaling import rounding

Row = dict[int, Fraction]


@dataclass(frozen=True)
class _Rectangle:
    """Rows whose coefficients on the columns are proportional: row i has `factors[i] * pattern`."""

    factors: tuple[tuple[int, Fraction], ...]
    pattern: tuple[tuple[int, Fraction], ...]

    @property
    def saving(self) -> int:
        return (len(self.factors) - 1) * (len(self.pattern) - 1)


def recipe_of(matrix: Matrix, restarts: int = 8, seed: int = 0) -> Recipe:
    """A short recipe for `outputs = matrix @ inputs`. It is exact: `recipe_of(matrix).matrix() == matrix`.

    Of `restarts` factorizations it is the one with the fewest operations, then live values and depth. Raises
    ValueError for a matrix without rows or columns.
    """
    if not matrix or not matrix[0]:
        raise ValueError("a recipe needs a matrix with at least one row and one column")
    generator = random.Random(seed)
    recipes = [_factorized(matrix, generator) for _ in range(restarts)]
    return min(recipes, key=lambda recipe: (len(recipe.operations), recipe.live_values, recipe.depth))


def _factorized(matrix: Matrix, generator: random.Random) -> Recipe:
    inputs = len(matrix[0])
    rows: list[Row] = [{j: entry for j, entry in enumerate(row) if entry} for row in matrix]
    definitions: dict[int, int] = {}
    while rectangle := _best_rectangle(rows, generator):
        column = inputs + len(definitions)
        scale = _scale_of_definition(rows, rectangle, len(matrix), generator)
        for row, factor in rectangle.factors:
            for j, _ in rectangle.pattern:
                del rows[row][j]
            rows[row][column] = factor / scale
        definitions[column] = len(rows)
        rows.append({j: coefficient * scale for j, coefficient in rectangle.pattern})
    return _scheduled(inputs, rows, len(matrix), definitions)


def _best_rectangle(rows: list[Row], generator: random.Random) -> _Rectangle | None:
    """A rectangle of rank one with the largest saving, at random among equals; None if nothing is shared."""
    best: list[_Rectangle] = []
    seen: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    for first, second in combinations(range(len(rows)), 2):
        by_ratio: dict[Fraction, list[int]] = {}
        for column in rows[first].keys() & rows[second].keys():
            by_ratio.setdefault(rows[second][column] / rows[first][column], []).append(column)
        for columns in by_ratio.values():
            if len(columns) < 2:
                continue
            rectangle = _grown(rows, first, sorted(columns))
            key = (
                tuple(row for row, _ in rectangle.factors),
                tuple(column for column, _ in rectangle.pattern),
            )
            if key in seen:
                continue
            seen.add(key)
            if not best or rectangle.saving > best[0].saving:
                best = [rectangle]
            elif rectangle.saving == best[0].saving:
                best.append(rectangle)
    return generator.choice(best) if best else None


def _grown(rows: list[Row], first: int, columns: list[int]) -> _Rectangle:
    """All rows proportional to the first on the columns."""
    pattern = tuple((column, rows[first][column]) for column in columns)
    factors = []
    for index, row in enumerate(rows):
        if not all(column in row for column in columns):
            continue
        factor = row[columns[0]] / pattern[0][1]
        if all(row[column] == factor * coefficient for column, coefficient in pattern):
            factors.append((index, factor))
    return _Rectangle(tuple(factors), pattern)


def _scale_of_definition(
    rows: list[Row], rectangle: _Rectangle, targets: int, generator: random.Random
) -> Fraction:
    """The factor of a shared value: it has a coefficient of one, is one where a row needs that, and exact."""
    needy = []
    columns = {column for column, _ in rectangle.pattern}
    for index, factor in rectangle.factors:
        rest = [coefficient for column, coefficient in rows[index].items() if column not in columns]
        if index < targets and 1 not in rest:
            needy.append(factor)
    candidates = [1 / coefficient for _, coefficient in rectangle.pattern]
    generator.shuffle(candidates)

    def fitness(scale: Fraction) -> tuple[int, float]:
        constants = [coefficient * scale for _, coefficient in rectangle.pattern]
        constants += [factor / scale for _, factor in rectangle.factors]
        ones = sum(2 * (factor == scale) + (factor == -scale) for factor in needy)
        return ones, -sum(map(rounding, constants))

    return max(candidates, key=fitness)


def _scheduled(inputs: int, rows: list[Row], targets: int, definitions: dict[int, int]) -> Recipe:
    """Operations for the rows, a definition just before its first use."""
    operations: list[Operation] = []
    value_of_column: dict[int, int] = {column: column for column in range(inputs)}

    def emit(kind: Kind, a: int, b: int | None = None, constant: Fraction | None = None) -> int:
        operations.append(Operation(kind, a, b, constant))
        return inputs + len(operations) - 1

    def value(column: int) -> int:
        if column not in value_of_column:
            value_of_column[column] = combination(rows[definitions[column]])
        return value_of_column[column]

    def combination(row: Row) -> int:
        """The sum of a row's terms, started from a term that needs no multiplication."""
        terms = [(value(column), coefficient) for column, coefficient in row.items()]
        terms.sort(key=lambda term: (term[1] != 1, term[1] == -1, abs(term[1])))
        (total, coefficient), *rest = terms
        if coefficient == -1:
            total = emit("negate", total)
        elif coefficient != 1:
            total = emit("multiply", total, constant=coefficient)
        for term, coefficient in rest:
            if coefficient == 1:
                total = emit("add", total, term)
            elif coefficient == -1:
                total = emit("subtract", total, term)
            else:
                total = emit("fma", term, total, coefficient)
        return total

    outputs = tuple(combination(row) if row else None for row in rows[:targets])
    return Recipe(inputs, tuple(operations), outputs)
