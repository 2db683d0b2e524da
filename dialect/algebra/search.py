"""The search for accurate interpolation points: `python -m iree.winograd.dialect.algebra.search`.

Sets are ranked by how they amplify an independent rounding error of every product, which is what decides
accuracy between good sets: sum_i A_oi^2 |G_i|^2 |B_i|^2, in float64 for many sets at once. The best of
them are turned into transforms and ranked by the predicted error of a layer, which adds the roundings of
recipes and constants. The whole sequence is recomputed for each alpha, not grown from the previous one.
Seeded: the same arguments find the same points.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.algebra.cook_toom import cook_toom
from iree.winograd.dialect.algebra.literature import MAZAHERI_2020, WINCNN
from iree.winograd.dialect.algebra.measurement import measured_tile_error
from iree.winograd.dialect.algebra.numerics import Accumulation, predicted_errors_of
from iree.winograd.dialect.algebra.point import INFINITY
from iree.winograd.dialect.algebra.scaling import short_output_scale
from iree.winograd.dialect.algebra.transforms import with_recipes

Vector = npt.NDArray[np.float64]

MAX_NUMERATOR = 9
"""Of a candidate a/b, as in Mazaheri et al., section 3.1.1."""

DENOMINATORS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 32)
"""Theirs, and powers of two for points whose powers are exact in floating point."""

_AS_GOOD = 1.05
_SAMPLING = 1.01
_LEFT_OVER: tuple[tuple[float, ...], ...] = ((), (0.0,), (1.0, -1.0), (0.0, 1.0, -1.0))
_NEIGHBOURS = 10


@dataclass(frozen=True)
class Family:
    """Sets of points made of groups, one per unknown magnitude, and of fixed points."""

    name: str
    group: Callable[[Vector], Sequence[Vector]]
    signed: bool
    finalists: int

    @property
    def group_size(self) -> int:
        return len(self.group(np.ones(1)))

    def unknowns(self, alpha: int) -> int:
        return (alpha - 1) // self.group_size

    def points(self, unknowns: Vector, alpha: int) -> Vector:
        """Finite points (sets x alpha-1) for unknowns (sets x unknowns); of 0 and +-1 what groups leave."""
        left = (alpha - 1) % self.group_size
        fixed = np.tile(_LEFT_OVER[left], (len(unknowns), 1))
        return np.concatenate([fixed, *self.group(unknowns)], axis=1)


PAIRS = Family("pairs +-p", lambda p: (p, -p), signed=False, finalists=8)

FAMILIES = (
    PAIRS,
    # The form of Alam et al., Winograd convolution for deep neural networks: efficient point selection, 2022.
    Family("+-p and +-1/p", lambda p: (p, -p, 1 / p, -1 / p), signed=False, finalists=8),
    Family("p and -1/p", lambda p: (p, -1 / p), signed=True, finalists=3),
    Family("free", lambda p: (p,), signed=True, finalists=3),
)


@dataclass(frozen=True)
class Found:
    """Finite points with an error and the operations of the 1-D input and output transforms.

    The error is the one predicted for a 2-D layer of F(alpha - r + 1, r) with 64 channels in one sum: the
    geometric mean of a tile's mean and worst output.
    """

    points: tuple[Fraction, ...]
    error: float
    operations: int

    @property
    def digits(self) -> int:
        """The size of the fractions in bits, and more for those that aren't exact in floating point."""
        return sum(map(_digits, self.points))


def candidates() -> tuple[Fraction, ...]:
    """Positive candidate points, ascending."""
    ratios = (Fraction(a, b) for b in DENOMINATORS for a in range(1, 4 * b + 1))
    integers = map(Fraction, range(5, MAX_NUMERATOR + 1))
    simple = {p for p in (*ratios, *integers) if p.numerator <= MAX_NUMERATOR or p.denominator in (8, 16, 32)}
    return tuple(sorted(simple))


def amplifications(points: Vector, m: int, r: int) -> Vector:
    """The amplification of each row of finite points (sets x alpha-1), the point at infinity added.

    A blend of a tile's mean and worst output.
    """
    sets, count = points.shape
    roots = np.zeros((sets, count + 1))
    roots[:, 0] = 1
    for index in range(count):
        roots[:, 1:] -= points[:, index : index + 1] * roots[:, :-1].copy()
    # Synthetic division by each x - p gives the monic polynomial of the other points; Horner its value at p.
    monic = np.ones((sets, count, count))
    for power in range(1, count):
        monic[:, :, power] = roots[:, None, power] + points * monic[:, :, power - 1]
    value = np.zeros((sets, count))
    for power in range(count):
        value = value * points + monic[:, :, power]
    squares = points**2
    filter_norms = sum(squares**power for power in range(r)) / value**2
    weights = (monic**2).sum(axis=2) * filter_norms
    growth = np.stack([(weights * squares**power).sum(axis=1) for power in range(m)], axis=1)
    growth[:, m - 1] += (roots**2).sum(axis=1)
    growth = np.sqrt(growth / r)
    scores: Vector = _blend(growth.mean(axis=1), growth.max(axis=1))
    return scores


def _blend(mean: Any, worst: Any) -> Any:
    """Three parts of a tile's mean output, one part of its worst: maximal errors matter, averages more."""
    return mean**0.75 * worst**0.25


def descend(family: Family, alpha: int, r: int, restarts: int, seed: int) -> dict[tuple[float, ...], float]:
    """Local minima of the amplification, from random starts, one unknown at a time."""
    generator = np.random.default_rng([seed, alpha, r])
    values = np.array([float(point) for point in candidates()])
    if family.signed:
        values = np.concatenate([values, -values])
    count = family.unknowns(alpha)
    minima: dict[tuple[float, ...], float] = {}
    if count == 0:
        return minima
    for _ in range(restarts):
        current = generator.choice(values, count, replace=False)
        score = np.inf
        while True:
            moves = np.repeat(current[None], count * len(values), axis=0)
            moves[np.arange(len(moves)), np.repeat(np.arange(count), len(values))] = np.tile(values, count)
            points = np.sort(family.points(moves, alpha), axis=1)
            distinct = np.diff(points, axis=1).min(axis=1, initial=np.inf) > 1e-9
            moves, points = moves[distinct], points[distinct]
            scores = amplifications(points, alpha - r + 1, r)
            best = int(scores.argmin())
            if scores[best] >= score:
                break
            current, score = moves[best], float(scores[best])
            minima[tuple(points[best])] = score
    return minima


def simple_neighbours(best: Sequence[Fraction], alpha: int, r: int) -> set[tuple[Fraction, ...]]:
    """The simplest sets of pairs that are nearly as good as the best one: the optimum is flat."""
    magnitudes = sorted(point for point in best if point > 0)

    def score(sets: Sequence[Sequence[Fraction]]) -> Vector:
        unknowns = np.array([[float(point) for point in one] for one in sets])
        return amplifications(PAIRS.points(unknowns, alpha), alpha - r + 1, r)

    limit = _AS_GOOD * score([magnitudes])[0]
    options = []
    for index in range(len(magnitudes)):
        changed = [[*magnitudes[:index], point, *magnitudes[index + 1 :]] for point in candidates()]
        distinct = [one for one in changed if len(set(one)) == len(one)]
        good = [one[index] for one, value in zip(distinct, score(distinct), strict=True) if value <= limit]
        options.append(sorted(good, key=_digits)[: max(2, _NEIGHBOURS - len(magnitudes))])
    sets = [one for one in product(*options) if len(set(one)) == len(one)]
    near = [one for one, value in zip(sets, score(sets), strict=True) if value <= limit]
    zero = (Fraction(0),) * ((alpha - 1) % 2)
    simplest = sorted(near, key=lambda one: sum(map(_digits, one)))[: PAIRS.finalists]
    return {tuple(sorted((*zero, *one, *(-point for point in one)))) for one in simplest}


def best_points(alpha: int, r: int = 3, restarts: int = 8, seed: int = 0) -> list[Found]:
    """The most accurate sets for tiles of `alpha` inputs, by the error of F(alpha - r + 1, r), best first.

    Published sets compete too. Raises ValueError when alpha is less than 3 or r doesn't leave an output.
    """
    if alpha < 3 or not 1 <= r <= alpha:
        raise ValueError(f"there is no choice of points for alpha = {alpha} and r = {r}")
    finalists: set[tuple[Fraction, ...]] = set()
    for published in (WINCNN.get(alpha), MAZAHERI_2020.get(alpha)):
        if published is not None:
            finalists.add(tuple(sorted(published)))
    for family in FAMILIES:
        minima = descend(family, alpha, r, restarts, seed)
        ranked = [_exact(points) for points in sorted(minima, key=minima.__getitem__)]
        finalists.update(ranked[: family.finalists])
        if family is PAIRS:
            finalists |= simple_neighbours(ranked[0], alpha, r)
    return sorted((_scored(points, alpha, r) for points in finalists), key=lambda one: one.error)


def by_preference(found: Sequence[Found]) -> list[Found]:
    """Sets about as accurate as the best by operations and simplicity; after them the others by error."""
    limit = _AS_GOOD * min(one.error for one in found)
    return sorted(
        found, key=lambda one: (0, one.operations, one.digits) if one.error <= limit else (1, one.error, 0)
    )


def _digits(point: Fraction) -> int:
    inexact = point.denominator & (point.denominator - 1) != 0
    return point.numerator.bit_length() + point.denominator.bit_length() + 16 * inexact


def _exact(points: Sequence[float]) -> tuple[Fraction, ...]:
    return tuple(Fraction(point).limit_denominator(1000) for point in points)


def _scored(points: tuple[Fraction, ...], alpha: int, r: int) -> Found:
    m = alpha - r + 1
    scale = short_output_scale((*points, INFINITY), m)
    found = with_recipes(cook_toom(m, r, (*points, INFINITY), output_scale=scale), restarts=2)
    errors = predicted_errors_of([found, found], Accumulation(64))
    return Found(
        points,
        float(_blend(errors.mean(), errors.max())),
        len(found.input.operations) + len(found.output.operations),
    )


def measured(points: Sequence[Fraction], trials: int, seed: int) -> dict[str, float]:
    """The error of a tile of 3-tap filters, 1-D and 2-D, as Mazaheri et al. measure it."""
    m = len(points) - 1
    scale = short_output_scale((*points, INFINITY), m)
    found = with_recipes(cook_toom(m, 3, (*points, INFINITY), output_scale=scale), restarts=2)
    errors = [measured_tile_error([found] * rank, trials=trials, seed=seed) for rank in (1, 2)]
    return {f"{rank}-D": float(f"{error:.3g}") for rank, error in enumerate(errors, 1)}


def entry(alpha: int, restarts: int, trials: int, seed: int) -> dict[str, Any]:
    """The data file's entry for one alpha: preferred points that measure no worse than the published ones."""
    published = MAZAHERI_2020.get(alpha)
    limits = None if published is None else measured(published, trials, seed)
    for preferred in by_preference(best_points(alpha, restarts=restarts, seed=seed)):
        points = sorted(preferred.points, key=lambda point: (abs(point), -point))
        errors = measured(points, trials, seed)
        if limits is None or all(errors[rank] <= _SAMPLING * limits[rank] for rank in limits):
            break
    return {"points": [str(point) for point in points], "error": errors, "published": limits}


def main(arguments: Sequence[str] | None = None) -> None:
    """Searches and writes the data file that is shipped."""
    parser = argparse.ArgumentParser(
        prog="python -m iree.winograd.dialect.algebra.search", description=__doc__
    )
    parser.add_argument(
        "--alpha", type=int, nargs="+", default=list(range(3, 17)), help="sizes of input tiles"
    )
    parser.add_argument("--restarts", type=int, default=8, help="random starts per family of sets")
    parser.add_argument("--trials", type=int, default=10_000, help="random tiles of the measured errors")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--output", type=Path, help="a points file to update; printed otherwise")
    options = parser.parse_args(arguments)
    data: dict[str, Any] = {}
    with ProcessPoolExecutor(options.processes) as pool:
        pending = {
            pool.submit(entry, alpha, options.restarts, options.trials, options.seed): alpha
            for alpha in sorted(options.alpha, reverse=True)
        }
        for done, future in enumerate(as_completed(pending), 1):
            data[str(pending[future])] = future.result()
            bar = "#" * done + "." * (len(pending) - done)
            print(f"\r[{bar}] {done} of {len(pending)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if options.output is not None and options.output.exists():
        data = json.loads(options.output.read_text()) | data
    lines = [f"  {json.dumps(alpha)}: {json.dumps(data[alpha])}" for alpha in sorted(data, key=int)]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    if options.output is None:
        print(text, end="")
    else:
        options.output.write_text(text)


if __name__ == "__main__":
    main()
