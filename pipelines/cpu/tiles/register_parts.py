"""Transforms of tiles that are larger than the registers: in parts that fit, if that takes less."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.algebra.recipe import Recipe
from iree.winograd.pipelines.emission.recipe import extents_between


@cache
def register_parts(
    recipes: tuple[Recipe, ...], registers: int, instructions_per_load: int
) -> tuple[range, ...] | None:
    """The parts of the first dimension's outputs in which `emit_in_parts` transforms a tile in registers.

    Registers hold a part's lines and the one that is transformed. None where `emit_rolled`, which keeps the
    tile in memory between two dimensions, takes fewer instructions, or no line fits. An element of the tile
    takes `instructions_per_load`, what is fetched beside it included.
    """
    first, *others = recipes
    line = prod(recipe.inputs for recipe in others)
    if first.inputs * line <= registers:
        return (range(len(first.outputs)),)
    longest = (registers - max(recipe.inputs for recipe in recipes)) // line
    if longest < 1:
        return None

    def instructions(parts: tuple[range, ...]) -> int:
        """Up to the first dimension's outputs: those of the others are the same either way."""
        lines = [first.part(part) for part in parts]
        return line * sum(instructions_per_load * len(read) + len(each.operations) for read, each in lines)

    parts = min(_divisions(len(first.outputs), longest), key=instructions)
    loads_and_operations = line * (instructions_per_load * first.inputs + len(first.operations))
    moved = sum(map(prod, extents_between(recipes)))
    return parts if instructions(parts) <= loads_and_operations + 2 * moved else None


def _divisions(count: int, longest: int) -> Iterator[tuple[range, ...]]:
    """The ways to divide `count` outputs into as few runs of at most `longest` as there must be."""
    for inner in itertools.combinations(range(1, count), ceil_div(count, longest) - 1):
        parts = tuple(range(begin, end) for begin, end in itertools.pairwise((0, *inner, count)))
        if max(map(len, parts)) <= longest:
            yield parts
