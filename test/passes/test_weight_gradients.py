"""Gradients of filters, rewritten to winograd ops, compute what they did: by reference, in float64."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from interpreter import run_function
from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import register_dialect
from iree.winograd.passes.convert_weight_gradient import ConvertWeightGradient
from iree.winograd.passes.fuse_pad import FusePad
from iree.winograd.passes.infrastructure.algorithm import Algorithm, set_algorithm
from iree.winograd.passes.match.convolutions.weight_gradient import (
    WeightGradient,
    match_weight_gradient,
    weight_gradients,
)
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.normalize_layout import NormalizeLayout
from iree.winograd.passes.verify import Verify
from weight_gradient_source import WeightGradientSource
from wide import examples

# Tiles of up to 6 elements amplify an error 30 times per dimension at most, relative to the largest output.
FLOAT64_TOLERANCE = 1e-10


@st.composite
def sources(draw: st.DrawFn) -> WeightGradientSource:
    rank = draw(st.sampled_from([1, 2, 2, 2, 3]))

    def sizes(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    source = WeightGradientSource(
        size=sizes(1, 7 if rank < 3 else 4),
        kernel=sizes(1, {1: 11, 2: 5, 3: 3}[rank]),
        strides=sizes(1, 4),
        dilations=sizes(1, 3),
        padding=sizes(0, 3),
        groups=draw(st.integers(1, 3)),
        channels=draw(st.integers(1, 3)),
        outputs=draw(st.integers(1, 3)),
        batch=draw(st.integers(1, 3)),
        channels_last=draw(st.booleans()),
    )
    assume(min(source.output_size) >= 1)
    return source


@examples(75)
@given(
    source=sources(), tiles=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=3, max_size=3)
)
def test_random_gradients_compute_the_same(
    source: WeightGradientSource, tiles: list[tuple[int, int]]
) -> None:
    operands = source.operands()
    with ir.Context() as context, ir.Location.unknown():
        register_dialect(context)
        module = ir.Module.parse(source.text())
        (operation,) = weight_gradients(module.operation)
        found = match_weight_gradient(operation)
        assert isinstance(found, WeightGradient), found
        assert found.output_size == source.output_size
        NormalizeLayout().run(module.operation)
        module.operation.verify()
        (operation,) = weight_gradients(module.operation)
        found = match_weight_gradient(operation)
        assert isinstance(found, WeightGradient) and found.is_channels_last
        chosen = list(zip(tiles, source.kernel, strict=False))
        part_size = tuple(min(p, taps) for (_, p), taps in chosen)
        set_algorithm(operation, Algorithm(tuple(m for (m, _), _ in chosen), part_size))
        for pass_ in (ConvertWeightGradient(), FusePad(), Verify()):
            pass_.run(module.operation)
        module.operation.verify()
        (actual,) = run_function(module.body.operations[0].operation, operands)
        names = [operation.name for operation in walk(module.operation)]
    exact = source.exact(*operands)
    assert "winograd.filter_gradient" in names
    np.testing.assert_allclose(actual, exact, atol=FLOAT64_TOLERANCE * max(1.0, np.abs(exact).max()), rtol=0)
