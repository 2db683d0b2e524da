"""F(m, r) computes the correlation, exactly, whatever its points."""

from __future__ import annotations

from fractions import Fraction
from math import lcm

import pytest
from hypothesis import given
from hypothesis import strategies as st
from iree.winograd.dialect.algebra.cook_toom import CookToom, cook_toom
from iree.winograd.dialect.algebra.point import INFINITY, parse_point
from iree.winograd.dialect.algebra.points import points_for
from iree.winograd.dialect.algebra.scaling import (
    balanced_input_scale,
    balanced_output_scale,
    short_output_scale,
)
from wide import examples, wide


def is_exact(algorithm: CookToom) -> bool:
    """Whether sum_k A[k,o] G[k,j] B[k,i] is 1 where i = o + j and 0 elsewhere, in integer arithmetic."""
    total = [[[0] * algorithm.alpha for _ in range(algorithm.r)] for _ in range(algorithm.m)]
    products = []
    for k in range(algorithm.alpha):
        vectors = [[row[k] for row in algorithm.output], algorithm.filter[k], algorithm.input[k]]
        scales = [lcm(*(entry.denominator for entry in vector)) for vector in vectors]
        integers = [[int(entry * s) for entry in vector] for vector, s in zip(vectors, scales, strict=True)]
        products.append((scales[0] * scales[1] * scales[2], integers))
    common = lcm(*(denominator for denominator, _ in products))
    for denominator, (outputs, filters, inputs) in products:
        factor = common // denominator
        for o, a in enumerate(outputs):
            for j, g in enumerate(filters):
                for i, b in enumerate(inputs):
                    total[o][j][i] += factor * a * g * b
    return all(
        value == (common if i == o + j else 0)
        for o, plane in enumerate(total)
        for j, row in enumerate(plane)
        for i, value in enumerate(row)
    )


@pytest.mark.parametrize("alpha", [*range(1, 13), *wide(range(13, 19))])
def test_every_size_is_exact(alpha: int) -> None:
    for r in range(1, alpha + 1):
        assert is_exact(cook_toom(alpha - r + 1, r))
        assert is_exact(cook_toom(alpha - r + 1, r, points_for(alpha)))


rationals = st.fractions(-9, 9, max_denominator=9)


@examples(60)
@given(st.data(), st.integers(1, 7), st.integers(1, 7), st.booleans())
def test_any_distinct_points_are_exact(data: st.DataObject, m: int, r: int, infinite: bool) -> None:
    finite = m + r - 1 - infinite
    points = data.draw(st.lists(rationals, min_size=finite, max_size=finite, unique=True))
    if infinite:
        points.insert(data.draw(st.integers(0, finite)), INFINITY)
    assert is_exact(cook_toom(m, r, points))


@examples(20)
@given(st.data(), st.integers(1, 5), st.integers(1, 5))
def test_scales_leave_it_exact(data: st.DataObject, m: int, r: int) -> None:
    alpha = m + r - 1
    scales = st.lists(rationals.filter(bool), min_size=alpha, max_size=alpha)
    output, input = data.draw(scales), data.draw(scales)
    scaled = cook_toom(m, r, points_for(alpha), output_scale=output, input_scale=input)
    plain = cook_toom(m, r, points_for(alpha))
    assert is_exact(scaled)
    assert scaled.output[0][0] == plain.output[0][0] * output[0]
    assert scaled.input[-1][-1] == plain.input[-1][-1] * input[-1]


def test_lavins_f_2_3() -> None:
    algorithm = cook_toom(2, 3, [Fraction(0), Fraction(1), Fraction(-1), INFINITY])
    half = Fraction(1, 2)
    assert algorithm.output == ((1, 1, 1, 0), (0, 1, -1, 1))
    assert algorithm.filter == ((-1, 0, 0), (half, half, half), (half, -half, half), (0, 0, 1))
    assert algorithm.input == ((-1, 0, 1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, -1, 0, 1))


def test_no_interpolation_for_one_output_or_one_tap() -> None:
    one = Fraction(1)
    identity = ((one, 0, 0), (0, one, 0), (0, 0, one))
    assert cook_toom(1, 3).output == ((one, one, one),)
    assert cook_toom(1, 3).filter == cook_toom(1, 3).input == identity
    assert cook_toom(3, 1).output == cook_toom(3, 1).input == identity
    only = cook_toom(1, 1)
    assert only.output == only.filter == only.input == ((one,),)


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("m = 0", (0, 3)),
        ("r = -1", (2, -1)),
        ("needs 4 points .*, but 2 were given", (2, 3, [Fraction(0), INFINITY])),
        ("1/2 is repeated", (2, 2, [Fraction(1, 2), Fraction(2, 4), INFINITY])),
        ("inf is repeated", (2, 2, [Fraction(1, 2), INFINITY, INFINITY])),
    ],
)
def test_impossible_input_is_named(message: str, arguments: tuple) -> None:
    with pytest.raises(ValueError, match=message):
        cook_toom(*arguments)


def test_bad_scales_are_named() -> None:
    with pytest.raises(ValueError, match="4 output scales are needed, but 1 were given"):
        cook_toom(2, 3, output_scale=[Fraction(1)])
    with pytest.raises(ValueError, match="input scale of zero"):
        cook_toom(2, 2, input_scale=[Fraction(1), Fraction(0), Fraction(1)])


def test_matrices_of_other_shapes_are_rejected() -> None:
    good = cook_toom(2, 3)
    with pytest.raises(ValueError, match="output matrix of F\\(2, 3\\) must be 2 x 4"):
        CookToom(2, 3, good.points, good.input, good.filter, good.input)


@pytest.mark.parametrize("text", ["1/0", "x", "", "1/2/3"])
def test_bad_points_are_named(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}' is not an interpolation point"):
        parse_point(text)


def test_short_scale_gives_every_row_of_f_4_3_a_one() -> None:
    points = [Fraction(p) for p in ("0", "5/8", "-5/8", "3/2", "-3/2")]
    scale = short_output_scale([*points, INFINITY], 4)
    algorithm = cook_toom(4, 3, [*points, INFINITY], output_scale=scale)
    assert all(1 in row for row in algorithm.output)


def test_balanced_scales_are_powers_of_two_that_balance() -> None:
    plain = cook_toom(6, 3)
    input_scale = balanced_input_scale(plain)
    output_scale = balanced_output_scale(cook_toom(6, 3, input_scale=input_scale))
    balanced = cook_toom(6, 3, output_scale=output_scale, input_scale=input_scale)
    for row in balanced.input:
        assert Fraction(2, 3) <= sum(map(abs, row)) <= Fraction(3, 2)
    for column, row in zip(zip(*balanced.output, strict=True), balanced.filter, strict=True):
        assert Fraction(1, 2) <= sum(map(abs, column)) / sum(map(abs, row)) <= 2
    for scale in (*input_scale, *output_scale):
        assert scale.numerator * scale.denominator in (1, 2, 4, 8, 16, 32, 64)
