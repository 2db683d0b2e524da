"""What `iree-winograd transform` prints of one F(m, r)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from iree.winograd.dialect.algebra.cook_toom import Matrix, check_size, cook_toom
from iree.winograd.dialect.algebra.counts import FORMS, transform_counts
from iree.winograd.dialect.algebra.numerics import Accumulation, amplification, predicted_error_of
from iree.winograd.dialect.algebra.point import INFINITY, Point, parse_point
from iree.winograd.dialect.algebra.recipe import Operation, Recipe
from iree.winograd.dialect.algebra.scaling import short_output_scale
from iree.winograd.dialect.algebra.transforms import Transforms, to_data, transforms, with_recipes

MAX_TILE = 18
"""Inputs per dimension: beyond, nothing is left of float32's precision in two dimensions."""

_NAMES = {"output": "A^T, output", "filter": "G, filter", "input": "B^T, input"}
_CHANNELS = (64, 256)
_BLOCKS = (None, 16)


def transforms_of(m: int, r: int, points: str | None) -> Transforms:
    """The transforms of F(m, r), for the shipped points or for a list separated by commas.

    Infinity is added to a list that lacks one point. Raises ValueError for impossible sizes and points.
    """
    check_size(m, r)
    if m + r - 1 > MAX_TILE:
        raise ValueError(
            f"F({m}, {r}) has tiles of {m + r - 1} inputs, but {MAX_TILE} are the most: "
            "rounding errors are as large as the results"
        )
    if points is None:
        return transforms(m, r)
    parsed: list[Point] = [parse_point(point) for point in points.split(",")]
    if INFINITY not in parsed and len(parsed) == m + r - 2:
        parsed.append(INFINITY)
    # Checks the points before they are used to choose scales.
    cook_toom(m, r, parsed)
    return with_recipes(cook_toom(m, r, parsed, output_scale=short_output_scale(parsed, m)))


def as_json(found: Transforms) -> str:
    """What the command prints with --json."""
    data = to_data(found)
    for name in _NAMES:
        recipe: Recipe = getattr(found, name)
        data[name] |= {"depth": recipe.depth, "live_values": recipe.live_values}
    data["counts"] = {
        f"{rank}-D": {
            form: {
                name: {
                    "additions": count.additions,
                    "multiplications": count.multiplications,
                    "fused": count.fused,
                    "instructions": count.instructions,
                }
                for name, count in transform_counts(found, form, rank).items()
            }
            for form in FORMS
        }
        for rank in (1, 2)
    }
    data["amplification"] = amplification(found)
    data["predicted_errors"] = [
        {"rank": 2, "channels": channels, "reduction_block": block, "relative": error}
        for channels, block, error in _errors(found)
    ]
    return json.dumps(data, indent=2)


def as_text(found: Transforms) -> str:
    """What the command prints by default."""
    lines = [
        f"F({found.m}, {found.r}): {found.m} outputs of a {found.r}-tap filter from tiles of {found.alpha}",
        "points: " + (" ".join(map(str, found.algorithm.points)) or "none, nothing is interpolated"),
    ]
    for name, title in _NAMES.items():
        recipe: Recipe = getattr(found, name)
        lines += ["", f"{title} transform", *_matrix_lines(getattr(found.algorithm, name))]
        lines += ["recipe:", *(f"  {line}" for line in recipe_lines(recipe))]
        lines.append(
            f"  {recipe.additions} additions, {recipe.multiplications} multiplications, "
            f"{recipe.fused_multiply_adds} fused; depth {recipe.depth}, {recipe.live_values} live values"
        )
    lines += [
        "",
        "instructions (fused multiply-adds count once)",
        f"  {'':>14}" + "".join(map(_column, _NAMES)),
    ]
    for rank in (1, 2):
        for form in FORMS:
            counts = transform_counts(found, form, rank)
            cells = (_column(str(counts[name].instructions)) for name in _NAMES)
            lines.append(f"  {rank}-D {form:>13}" + "".join(cells))
    lines += ["", f"growth of errors: {amplification(found):.3g} per dimension"]
    lines.append("expected relative error of a 2-D layer in float32")
    for channels, block, error in _errors(found):
        order = "one sum" if block is None else f"blocks of {block}"
        lines.append(f"  {channels:>4} channels in {order:<12} {error:.2e}")
    return "\n".join(lines)


def recipe_lines(recipe: Recipe) -> list[str]:
    """The recipe as assignments: inputs x0, x1, ..., intermediate values t, outputs y."""
    lines = []
    names = [f"x{index}" for index in range(recipe.inputs)]
    output_of = {value: index for index, value in reversed(list(enumerate(recipe.outputs)))}
    for index, operation in enumerate(recipe.operations):
        value = recipe.inputs + index
        names.append(f"y{output_of[value]}" if value in output_of else f"t{index}")
        lines.append(f"{names[value]} = {_expression(operation, names)}")
    for index, output in enumerate(recipe.outputs):
        if output is None:
            lines.append(f"y{index} = 0")
        elif names[output] != f"y{index}":
            lines.append(f"y{index} = {names[output]}")
    return lines


def _expression(operation: Operation, names: Sequence[str]) -> str:
    a = names[operation.a]
    b = "" if operation.b is None else names[operation.b]
    match operation.kind:
        case "add":
            return f"{a} + {b}"
        case "subtract":
            return f"{a} - {b}"
        case "negate":
            return f"-{a}"
        case "multiply":
            return f"{operation.constant} * {a}"
        case "fma":
            return f"{operation.constant} * {a} + {b}"


def _matrix_lines(matrix: Matrix) -> list[str]:
    width = max(len(str(entry)) for row in matrix for entry in row)
    return ["  [" + "  ".join(f"{entry!s:>{width}}" for entry in row) + "]" for row in matrix]


def _column(text: str) -> str:
    return f"{text:>9}"


def _errors(found: Transforms) -> list[tuple[int, int | None, float]]:
    return [
        (channels, block, predicted_error_of([found, found], Accumulation(channels, block)))
        for channels in _CHANNELS
        for block in _BLOCKS
    ]
