"""Rewritten convolutions compute what they did before: any sizes and layout, in float64 before and after."""

from __future__ import annotations

import numpy as np
from convolution_source import Source
from hypothesis import assume, given
from hypothesis import strategies as st
from interpreter import run_function
from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import register_dialect
from iree.winograd.passes.convert_conv import ConvertConv
from iree.winograd.passes.fold_filter import FoldFilter
from iree.winograd.passes.fuse_epilogue import FuseEpilogue
from iree.winograd.passes.fuse_pad import FusePad
from iree.winograd.passes.infrastructure.algorithm import Algorithm, set_algorithm
from iree.winograd.passes.match.convolutions.convolution import Convolution, match_convolution
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.merge_phases import MergePhases
from iree.winograd.passes.normalize_layout import NormalizeLayout
from iree.winograd.passes.split_transposed import SplitTransposed
from iree.winograd.passes.verify import Verify
from wide import examples

# Tiles of up to 6 elements amplify an error 30 times per dimension at most, relative to the largest output.
FLOAT64_TOLERANCE = 1e-10
FOLDED_TOLERANCE = 1e-4


@st.composite
def sources(draw: st.DrawFn) -> Source:
    rank = draw(st.sampled_from([1, 2, 2, 2, 3]))

    def sizes(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    is_transposed, depthwise = draw(st.booleans()), draw(st.booleans())
    source = Source(
        size=sizes(1, 7 if rank < 3 else 4),
        kernel=sizes(1, {1: 11, 2: 5, 3: 3}[rank]),
        strides=(1,) * rank if is_transposed else sizes(1, 4),
        dilations=sizes(1, 3),
        low=sizes(0, 3),
        high=sizes(0, 3),
        inserted=sizes(0, 2) if is_transposed else (0,) * rank,
        groups=draw(st.integers(1, 3)),
        channels=draw(st.integers(1, 3)),
        outputs=draw(st.integers(1, 3)),
        batch=draw(st.integers(1, 2)),
        channels_last=draw(st.booleans()),
        depthwise=depthwise,
        dynamic_batch=draw(st.booleans()),
        constant_filter=draw(st.booleans()),
        bias=draw(st.booleans()),
        epilogue=draw(st.booleans()),
        named=draw(st.booleans()),
    )
    assume(min(source.output_size) >= 1)
    return source


@examples(100)
@given(
    source=sources(), tiles=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=3, max_size=3)
)
def test_random_convolutions_compute_the_same(source: Source, tiles: list[tuple[int, int]]) -> None:
    generator = np.random.default_rng(0)
    image = generator.standard_normal(source.image_shape(source.size))
    filters = generator.standard_normal(source.filter_shape).astype(np.float32)
    bias = generator.standard_normal(source.groups * source.outputs).astype(np.float32)
    if source.depthwise:
        bias = bias[: source.groups]
    arguments = [image] if source.constant_filter else [image, filters]
    with ir.Context() as context:
        register_dialect(context)
        module = ir.Module.parse(source.text(filters, bias))
        (expected,) = run_function(module.body.operations[0].operation, arguments)
        with ir.Location.unknown():
            for pass_ in (SplitTransposed(), NormalizeLayout()):
                pass_.run(module.operation)
            module.operation.verify()
            (normalized,) = run_function(module.body.operations[0].operation, arguments)
            _annotate(module.operation, tiles)
            for pass_ in (ConvertConv(), FusePad(), FuseEpilogue(), FoldFilter(), Verify()):
                pass_.run(module.operation)
        module.operation.verify()
        (actual,) = run_function(module.body.operations[0].operation, arguments)
        names = [operation.name for operation in walk(module.operation)]
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(normalized, expected, atol=FLOAT64_TOLERANCE * scale, rtol=0)
    tolerance = FOLDED_TOLERANCE if source.constant_filter else FLOAT64_TOLERANCE
    np.testing.assert_allclose(actual, expected, atol=tolerance * scale, rtol=0)
    assert not any("conv" in name for name in names)
    assert ("winograd.filter_transform" in names) <= (not source.constant_filter)


@st.composite
def synthesis_sources(draw: st.DrawFn) -> Source:
    """Frames of taps that overlap, at every 16th output or more."""
    stride = draw(st.integers(16, 19))
    source = Source(
        size=(draw(st.integers(1, 6)),),
        kernel=(draw(st.integers(stride, 3 * stride)),),
        strides=(1,),
        dilations=(1,),
        low=(draw(st.integers(0, 4 * stride)),),
        high=(draw(st.integers(0, 4 * stride)),),
        inserted=(stride - 1,),
        groups=1,
        channels=draw(st.integers(1, 3)),
        outputs=draw(st.integers(1, 3)),
        batch=draw(st.integers(1, 2)),
        channels_last=draw(st.booleans()),
        depthwise=False,
        dynamic_batch=draw(st.booleans()),
        constant_filter=True,
        bias=draw(st.booleans()),
        epilogue=draw(st.booleans()),
        named=draw(st.booleans()),
    )
    assume(min(source.output_size) >= 1)
    return source


@examples(60)
@given(source=synthesis_sources())
def test_phases_of_long_strides_compute_the_same_as_channels(source: Source) -> None:
    generator = np.random.default_rng(0)
    image = generator.standard_normal(source.image_shape(source.size))
    filters = generator.standard_normal(source.filter_shape).astype(np.float32)
    bias = generator.standard_normal(source.outputs).astype(np.float32)
    with ir.Context() as context:
        register_dialect(context)
        module = ir.Module.parse(source.text(filters, bias))
        (expected,) = run_function(module.body.operations[0].operation, [image])
        with ir.Location.unknown():
            MergePhases().run(module.operation)
        module.operation.verify()
        (actual,) = run_function(module.body.operations[0].operation, [image])
        text = str(module)
    assert "phase_filter" in text
    np.testing.assert_allclose(
        actual, expected, atol=FLOAT64_TOLERANCE * max(1.0, np.abs(expected).max()), rtol=0
    )


def _annotate(module: ir.Operation, tiles: list[tuple[int, int]]) -> None:
    """Tiles of (m, p) per dimension, parts no larger than the kernel."""
    for operation in list(convolutions(module)):
        convolution = match_convolution(operation)
        assert isinstance(convolution, Convolution), convolution
        chosen = list(zip(tiles, convolution.kernel_size, strict=False))
        part_size = tuple(min(p, taps) for (_, p), taps in chosen)
        set_algorithm(operation, Algorithm(tuple(m for (m, _), _ in chosen), part_size))
