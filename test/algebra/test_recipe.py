"""Recipes are exact, short, and evaluate in any arithmetic."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from iree.winograd.dialect.algebra.counts import (
    FORMS,
    Count,
    dense,
    of_recipe,
    transform_counts,
    zero_skipping,
)
from iree.winograd.dialect.algebra.recipe import Operation, Recipe
from iree.winograd.dialect.algebra.straight_line import recipe_of
from iree.winograd.dialect.algebra.transforms import transforms
from wide import examples

entries = st.sampled_from([Fraction(x) for x in ("0", "0", "1", "1", "-1", "2", "-2", "1/2", "-5/4", "21/4")])
matrices = st.integers(1, 6).flatmap(
    lambda columns: st.lists(
        st.lists(entries, min_size=columns, max_size=columns).map(tuple), min_size=1, max_size=6
    ).map(tuple)
)


@examples(150)
@given(matrices)
def test_any_matrix_gets_an_exact_recipe(matrix: tuple) -> None:
    recipe = recipe_of(matrix, restarts=2)
    assert recipe.matrix() == matrix
    assert of_recipe(recipe).arithmetic <= zero_skipping(matrix).arithmetic + sum(
        # A row without a coefficient of one may need its sign flipped.
        any(row) and 1 not in row
        for row in matrix
    )


@examples(50)
@given(matrices, st.integers(0, 2**32 - 1))
def test_evaluation_agrees_with_the_matrix(matrix: tuple, seed: int) -> None:
    recipe = recipe_of(matrix, restarts=1)
    generator = np.random.default_rng(seed)
    values = generator.uniform(-1, 1, (len(matrix[0]), 5))
    expected = np.array(matrix, dtype=float) @ values
    np.testing.assert_allclose(np.stack(recipe.apply(list(values))), expected, atol=1e-12)
    exact = [Fraction(int(64 * value), 64) for value in values[:, 0]]
    assert recipe.apply(exact) == [sum(a * b for a, b in zip(row, exact, strict=True)) for row in matrix]


def test_arrays_keep_their_type() -> None:
    recipe = transforms(4, 3).output
    for dtype in (np.float16, np.float32, np.float64):
        values = [np.ones(3, dtype) for _ in range(6)]
        assert {result.dtype for result in recipe.apply(values)} == {np.dtype(dtype)}


def test_fused_multiply_adds_go_to_the_callers_function() -> None:
    calls = []

    def fma(constant: float, a: float, b: float) -> float:
        calls.append(constant)
        return constant * a + b

    recipe = transforms(4, 3).input
    recipe.apply([1.0] * 6, fma)
    assert len(calls) == recipe.fused_multiply_adds


@pytest.mark.parametrize(
    ("m", "input_operations", "output_operations"),
    [
        # Lavin and Gray, Fast algorithms for convolutional neural networks, 2016: 2-D counts of 32 and 24 for
        # F(2x2, 3x3), of 144 and 100 for F(4x4, 3x3). NNPACK has 27 and 20 per dimension for F(6, 3).
        (2, 4, 4),
        (4, 12, 10),
        (6, 24, 20),
    ],
)
def test_no_longer_than_written_by_hand(m: int, input_operations: int, output_operations: int) -> None:
    found = transforms(m, 3)
    assert of_recipe(found.input).instructions <= input_operations
    assert of_recipe(found.output).instructions <= output_operations
    nested = transform_counts(found, "recipe", 2)
    alpha = m + 2
    assert nested["input"].instructions <= 2 * alpha * input_operations
    assert nested["output"].instructions <= (alpha + m) * output_operations


def test_reductions_of_the_paper_are_reached() -> None:
    saved = {}
    for r in (3, 5, 7):
        for m in range(2, 11):
            found = transforms(m, r)
            before, after = (transform_counts(found, form, 2) for form in ("dense", "recipe"))
            for name in before:
                saved[m, r, name] = 1 - after[name].arithmetic / before[name].arithmetic
    # Mazaheri et al., section 4.2: up to 62%, usually for alpha = 8.
    assert max(saved.values()) >= 0.62
    assert saved[6, 3, "input"] >= 0.62
    assert saved[6, 3, "output"] >= 0.62
    assert min(saved.values()) > 0.15


def test_every_form_is_no_longer_than_the_one_before() -> None:
    for m in range(2, 9):
        counts = [transform_counts(transforms(m, 3), form, 2) for form in FORMS]
        for longer, shorter in itertools.pairwise(counts):
            for name in longer:
                assert shorter[name].arithmetic <= longer[name].arithmetic


def test_counts_of_a_small_matrix() -> None:
    matrix = ((Fraction(1), Fraction(2), Fraction(0)), (Fraction(-1), Fraction(0), Fraction(3)))
    assert dense(matrix) == Count(additions=4, multiplications=6)
    assert zero_skipping(matrix) == Count(additions=2, multiplications=2)
    assert of_recipe(recipe_of(matrix)) == Count(additions=1, multiplications=1, fused=1)
    assert Count(1, 2, 3).instructions == 6
    assert Count(1, 2, 3).arithmetic == 9


@pytest.mark.parametrize("m", range(2, 9))
def test_shipped_recipes_fit_the_registers(m: int) -> None:
    found = transforms(m, 3)
    assert max(found.input.live_values, found.output.live_values) <= 24


def test_depth_and_live_values_of_a_chain() -> None:
    chain = Recipe(
        3,
        (Operation("add", 0, 1), Operation("fma", 2, 3, Fraction(2)), Operation("negate", 4)),
        (5,),
    )
    assert chain.depth == 3
    assert chain.live_values == 3
    assert chain.matrix() == ((-1, -1, -2),)


def test_zero_rows_cost_nothing() -> None:
    recipe = recipe_of(((Fraction(0), Fraction(0)), (Fraction(1), Fraction(0))))
    assert recipe.operations == ()
    assert recipe.outputs == (None, 0)
    assert recipe.apply([7, 8]) == [0, 7]


def test_malformed_recipes_are_named() -> None:
    with pytest.raises(ValueError, match="'fma' takes two operands"):
        Operation("fma", 0, None, Fraction(2))
    with pytest.raises(ValueError, match="'add' takes no constant"):
        Operation("add", 0, 1, Fraction(2))
    with pytest.raises(ValueError, match="operation 0 of the recipe uses a value that is not defined"):
        Recipe(1, (Operation("add", 0, 1),), (1,))
    with pytest.raises(ValueError, match="output of the recipe is not one of its values"):
        Recipe(1, (), (1,))
    with pytest.raises(ValueError, match="takes 6 values, but 2 were given"):
        transforms(4, 3).input.apply([1.0, 2.0])
    with pytest.raises(ValueError, match="at least one row and one column"):
        recipe_of(())


@examples(50)
@given(matrices, st.data())
def test_a_part_computes_some_outputs_from_what_they_depend_on(matrix: tuple, data: st.DataObject) -> None:
    recipe = recipe_of(matrix, restarts=1)
    outputs = data.draw(st.lists(st.sampled_from(range(len(matrix))), min_size=1, unique=True))
    read, part = recipe.part(outputs)
    rows = [matrix[output] for output in outputs]
    assert part.matrix() == tuple(tuple(row[i] for i in read) for row in rows)
    assert all(any(row[i] for row in rows) for i in read)
    assert len(part.operations) <= len(recipe.operations)
    assert not any(row[i] for row in rows for i in range(recipe.inputs) if i not in read)
