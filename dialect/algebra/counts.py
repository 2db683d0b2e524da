"""Operations of the transforms: dense, without zeros and ones, and as recipes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from iree.winograd.dialect.algebra.cook_toom import Matrix
from iree.winograd.dialect.algebra.recipe import Recipe
from iree.winograd.dialect.algebra.transforms import Transforms

Form = Literal["dense", "zero-skipping", "recipe"]

FORMS: tuple[Form, ...] = ("dense", "zero-skipping", "recipe")


@dataclass(frozen=True)
class Count:
    """Operations; a fused multiply-add is one instruction and two arithmetic operations."""

    additions: int
    multiplications: int
    fused: int = 0

    @property
    def instructions(self) -> int:
        return self.additions + self.multiplications + self.fused

    @property
    def arithmetic(self) -> int:
        return self.additions + self.multiplications + 2 * self.fused

    def __add__(self, other: Count) -> Count:
        return Count(
            self.additions + other.additions,
            self.multiplications + other.multiplications,
            self.fused + other.fused,
        )

    def __mul__(self, times: int) -> Count:
        return Count(self.additions * times, self.multiplications * times, self.fused * times)


def dense(matrix: Matrix) -> Count:
    """A matrix-vector product that multiplies by every entry."""
    rows, columns = len(matrix), len(matrix[0])
    return Count(rows * (columns - 1), rows * columns)


def zero_skipping(matrix: Matrix) -> Count:
    """A matrix-vector product without terms that are zero and multiplications by one and minus one."""
    terms = [sum(entry != 0 for entry in row) for row in matrix]
    multiplications = sum(abs(entry) not in (0, 1) for row in matrix for entry in row)
    return Count(sum(max(0, count - 1) for count in terms), multiplications)


def of_recipe(recipe: Recipe) -> Count:
    return Count(recipe.additions, recipe.multiplications, recipe.fused_multiply_adds)


def transform_counts(found: Transforms, form: Form, rank: int) -> dict[str, Count]:
    """Operations of the `input`, `filter` and `output` transform of one tile, nested in `rank` dimensions."""
    counts = {}
    for name in ("input", "filter", "output"):
        matrix: Matrix = getattr(found.algorithm, name)
        match form:
            case "dense":
                once = dense(matrix)
            case "zero-skipping":
                once = zero_skipping(matrix)
            case "recipe":
                once = of_recipe(getattr(found, name))
        counts[name] = once * _applications(len(matrix[0]), len(matrix), rank)
    return counts


def tile_count(found: Transforms, form: Form, rank: int) -> Count:
    """All operations of one tile of one channel: the transforms and the products."""
    products = Count(0, found.alpha**rank)
    return sum(transform_counts(found, form, rank).values(), products)


def _applications(inputs: int, outputs: int, rank: int) -> int:
    """1-D transforms in a nested one: dimensions before the current one have been transformed already."""
    return sum(outputs**axis * inputs ** (rank - 1 - axis) for axis in range(rank))
