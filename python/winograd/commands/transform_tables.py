"""The tables of docs/measurements/transforms.md, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iree.winograd.dialect.algebra.counts import FORMS, Form, tile_count, transform_counts
from iree.winograd.dialect.algebra.literature import MAZAHERI_2020_ERRORS
from iree.winograd.dialect.algebra.numerics import predicted_error
from iree.winograd.dialect.algebra.points import TileErrors, measured_points
from iree.winograd.dialect.algebra.transforms import transforms

OUTPUT_TILES = range(2, 11)
FILTER_SIZES = (3, 5, 7)

PARTS = ("input", "filter", "output")
_BEFORE_AND_AFTER: tuple[Form, Form] = ("dense", "recipe")


def all_tables() -> str:
    """Points with their errors, operations in one and two dimensions, and expected errors of layers."""
    return "\n".join(
        [
            "### Points\n",
            points_table(),
            *(f"### Instructions, {rank}-D\n\n{counts_table(rank)}" for rank in (1, 2)),
            "### Reduction of arithmetic, 2-D\n",
            reductions_table(),
            "### Depth and live values of the 1-D recipes\n",
            registers_table(),
            "### Expected errors of 3x3 layers\n",
            errors_table(),
        ]
    )


def points_table() -> str:
    """The shipped points with the errors measured with them and with the published ones."""
    rows = []
    for alpha, entry in sorted(measured_points().items()):
        cells = [str(alpha), _points(entry.points), *_errors(entry.errors)]
        cells += ["", ""] if entry.published is None else _errors(entry.published)
        cells.append(f"{MAZAHERI_2020_ERRORS[alpha]:.2e}" if alpha in MAZAHERI_2020_ERRORS else "")
        rows.append(cells)
    return _table(
        ["alpha", "points (and infinity)", "1-D", "2-D", "theirs, 1-D", "theirs, 2-D", "theirs, as stated"],
        rows,
    )


def counts_table(rank: int) -> str:
    """Instructions of each transform of one tile: dense, zero-skipping, recipe."""
    rows = []
    for m, r in _sizes():
        counts = {form: transform_counts(transforms(m, r), form, rank) for form in FORMS}
        cells = (" / ".join(str(counts[form][part].instructions) for form in FORMS) for part in PARTS)
        rows.append([f"F({m}, {r})", *cells])
    return _table(["", *(f"{part}: {' / '.join(FORMS)}" for part in PARTS)], rows)


def reductions_table() -> str:
    """Arithmetic operations that recipes save of the dense form, where a fused multiply-add counts as two."""
    rows = []
    for m, r in _sizes():
        found = transforms(m, r)
        before, after = (transform_counts(found, form, 2) for form in _BEFORE_AND_AFTER)
        cells = [_saved(before[part].arithmetic, after[part].arithmetic) for part in PARTS]
        totals = [sum(count.arithmetic for count in counts.values()) for counts in (before, after)]
        tiles = [tile_count(found, form, 2).arithmetic for form in _BEFORE_AND_AFTER]
        rows.append([f"F({m}, {r})", *cells, _saved(*totals), _saved(*tiles)])
    return _table(["", *PARTS, "all transforms", "tile with its products"], rows)


def registers_table() -> str:
    rows = []
    for m, r in _sizes():
        found = transforms(m, r)
        recipes = (found.input, found.filter, found.output)
        rows.append([f"F({m}, {r})", *(f"{recipe.depth} / {recipe.live_values}" for recipe in recipes)])
    return _table(["", *(f"{part}: depth / live" for part in PARTS)], rows)


def errors_table() -> str:
    """Expected relative errors of float32 layers beside the direct convolution, by the order of summation."""
    rows = []
    for channels in (64, 128, 256, 512):
        for block in (None, 64, 16):
            direct = predicted_error((1, 1), (1, 1), channels, views=9)
            errors = [predicted_error((m, m), (3, 3), channels, reduction_block=block) for m in (2, 4, 6)]
            rows.append(
                [
                    str(channels),
                    "one sum" if block is None else f"blocks of {block}",
                    f"{direct:.1e}",
                    *(f"{error:.1e}" for error in errors),
                ]
            )
    return _table(["channels", "summation", "direct, one sum", "F(2, 3)", "F(4, 3)", "F(6, 3)"], rows)


def _sizes() -> Iterable[tuple[int, int]]:
    return ((m, r) for r in FILTER_SIZES for m in OUTPUT_TILES)


def _errors(errors: TileErrors) -> list[str]:
    return [f"{errors.one_dimensional:.2e}", f"{errors.two_dimensional:.2e}"]


def _saved(before: int, after: int) -> str:
    return f"{1 - after / before:.0%}"


def _points(points: Sequence[object]) -> str:
    """Pairs p, -p as one."""
    shown = []
    remaining = [str(point) for point in points]
    for point in remaining:
        if point.startswith("-") and point[1:] in remaining:
            continue
        shown.append(f"±{point}" if f"-{point}" in remaining else point)
    return ", ".join(shown)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
