"""Rewritten programs compute what they did before: networks, run in float64 before and after the passes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from interpreter import run_function, run_with_values
from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.ops import register_dialect
from iree.winograd.passes.convert_conv import ConvertConv
from iree.winograd.passes.drop_unit_dimensions import DropUnitDimensions
from iree.winograd.passes.fold_filter import FoldFilter
from iree.winograd.passes.fold_scale import FoldScale
from iree.winograd.passes.fuse_epilogue import FuseEpilogue
from iree.winograd.passes.fuse_pad import FusePad
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.merge_elementwise import MergeElementwise
from iree.winograd.passes.normalize_layout import NormalizeLayout
from iree.winograd.passes.verify import Verify
from iree.winograd.pipelines.selection.select_algorithm import SelectAlgorithm
from network import Layer, network_source, permuted_filter_source
from wide import examples

# Both sides compute in float64, F(6, 3) in two dimensions with a condition of about 1e4.
FLOAT64_TOLERANCE = 1e-10
# A batch norm's constants are computed when it is fused, a scale when it is folded, and rounded to float32:
# 6e-8 per layer of up to 7, of the largest value that a layer has.
FUSED_TOLERANCE = 1e-6
# Folding rounds each element of a filter's transform to float32: 6e-8, amplified 100 times by F(6x6, 3x3).
FOLDED_TOLERANCE = 1e-5

TENSOR_PASSES = (NormalizeLayout(), ConvertConv(), FusePad(), MergeElementwise(), FuseEpilogue(), Verify())


def rewrite_and_compare(source: str, passes, input_shape, tolerance: float) -> list[str]:
    """Checks that `passes` keep what `source` computes; returns the names of the operations left."""
    image = np.random.default_rng(0).standard_normal(input_shape)
    with ir.Context() as context:
        register_dialect(context)
        module = ir.Module.parse(source)
        (expected,), values = run_with_values(module.body.operations[0].operation, [image])
        # A network may end in values that are smaller than those that were rounded: tanh's, for example.
        largest = max(float(np.abs(each).max()) for each in values.values() if np.isfinite(each).all())
        with ir.Location.unknown():
            for pass_ in passes:
                pass_.run(module.operation)
        module.operation.verify()
        (actual,) = run_function(module.body.operations[0].operation, [image])
        names = [operation.name for operation in walk(module.operation)]
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(actual, expected, atol=tolerance * max(1.0, largest), rtol=0)
    return names


LAYERS = (
    "conv3x3",
    "conv3x3_bias",
    "conv1x1",
    "conv3x3_stride2",
    "batch_norm",
    "relu",
    "tanh",
    "max_pool",
    "window_maximum",
    "residual",
    "concat",
    "slice",
    "shuffle",
    "tokens",
    "scale_rows",
    "hard_swish",
    "shortcut",
    "squeeze_excitation",
)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("between", LAYERS)
def test_layer_between_convolutions_needs_no_transposition(between, layout):
    shape = (2, 3, 7, 6) if layout == "nchw" else (2, 7, 6, 3)
    source = network_source(
        [Layer(name) for name in ("conv3x3", between, "conv3x3")], shape, layout, False, 1
    )
    passes = (SelectAlgorithm(output_tile=4), *TENSOR_PASSES)
    tolerance = FUSED_TOLERANCE if between == "batch_norm" else FLOAT64_TOLERANCE
    names = rewrite_and_compare(source, passes, shape, tolerance)
    filters = source.count("linalg.conv_2d_nchw")
    around_the_network, shuffles = 2, int(between == "shuffle")
    transpositions = around_the_network + filters if layout == "nchw" else 0
    assert names.count("linalg.transpose") == transpositions + shuffles
    pads_for_itself = between in ("max_pool", "window_maximum", "conv3x3_stride2")
    assert pads_for_itself or "tensor.pad" not in names


@examples(60)
@given(
    layers=st.lists(st.sampled_from(LAYERS), min_size=1, max_size=7),
    layout=st.sampled_from(["nchw", "nhwc"]),
    output_tile=st.sampled_from([2, 3, 4, 6]),
    dynamic_batch=st.booleans(),
    fold_scale=st.booleans(),
    size=st.integers(5, 9),
    seed=st.integers(0, 2**16),
)
# A single channel is shuffled, too.
@example(["slice", "slice", "shuffle"], "nchw", 2, False, False, 5, 0)
def test_random_networks_compute_the_same(layers, layout, output_tile, dynamic_batch, fold_scale, size, seed):
    shape = (2, 3, size, size + 1) if layout == "nchw" else (2, size, size + 1, 3)
    source = network_source([Layer(name) for name in layers], shape, layout, dynamic_batch, seed)
    passes = (
        SelectAlgorithm(output_tile=output_tile),
        *TENSOR_PASSES,
        *((FoldScale(),) if fold_scale else ()),
    )
    tolerance = FUSED_TOLERANCE if fold_scale or "batch_norm" in layers else FLOAT64_TOLERANCE
    names = rewrite_and_compare(source, passes, shape, tolerance)
    assert names.count("winograd.output_transform") == source.count("linalg.conv_2d")


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("output_tile", [None, 2, 4, 6])
def test_folded_filters_compute_the_same(layout, output_tile):
    shape = (1, 3, 12, 12) if layout == "nchw" else (1, 12, 12, 3)
    layers = [Layer(name) for name in ("conv3x3_bias", "batch_norm", "relu", "conv3x3", "residual", "relu")]
    source = network_source(layers, shape, layout, dynamic_batch=False, seed=7)
    passes = (SelectAlgorithm(output_tile=output_tile), *TENSOR_PASSES, FoldScale(), FoldFilter(), Verify())
    names = rewrite_and_compare(source, passes, shape, FOLDED_TOLERANCE)
    assert "winograd.filter_transform" not in names


@pytest.mark.parametrize("fold", [FoldFilter(), FoldScale()], ids=["filter", "scale"])
@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("permutation", [(0, 1, 2), (0, 2, 1), (2, 1, 0), (2, 0, 1)])
@pytest.mark.parametrize("taps", [3, 1])
def test_filters_are_folded_as_their_transforms_read_them(taps, permutation, flipped, fold):
    # As many input channels as output channels, so that a wrong order shows in numbers alone.
    random = np.random.default_rng(0)
    weights = random.standard_normal(np.take((taps, 4, 4), np.argsort(permutation)))
    with ir.Context() as context:
        register_dialect(context)
        module = ir.Module.parse(permuted_filter_source(taps, weights, permutation, flipped))
        function = module.body.operations[0].operation
        image = random.standard_normal((1, 8, 4))
        (expected,) = run_function(function, [image])
        with ir.Location.unknown():
            fold.run(module.operation)
            Verify().run(module.operation)
        (actual,) = run_function(function, [image])
        text = str(module)
    assert ("winograd.filter_transform" if isinstance(fold, FoldFilter) else "arith.mulf") not in text
    np.testing.assert_allclose(actual, expected, atol=FUSED_TOLERANCE * np.abs(expected).max(), rtol=0)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_values_that_a_constant_was_moved_into(layout):
    # Bringing an operation to channels last moves the constants that it uses into it.
    layers = [Layer(name) for name in ("conv3x3", "hard_swish", "shortcut", "squeeze_excitation", "conv1x1")]
    shape = (1, 3, 8, 8) if layout == "nchw" else (1, 8, 8, 3)
    source = network_source(layers, shape, layout, dynamic_batch=False, seed=5)
    names = rewrite_and_compare(
        source, (SelectAlgorithm(output_tile=4), *TENSOR_PASSES), shape, FLOAT64_TOLERANCE
    )
    assert names.count("winograd.output_transform") == 5


@pytest.mark.parametrize("activation", ["hard_swish", "residual", "tokens"])
def test_activations_that_use_their_input_twice_are_fused(activation):
    layers = [Layer(name) for name in ("conv3x3_bias", activation, "conv1x1", activation, "relu")]
    shape = (1, 8, 8, 3)
    source = network_source(layers, shape, "nhwc", dynamic_batch=False, seed=5)
    names = rewrite_and_compare(
        source, (SelectAlgorithm(output_tile=4), *TENSOR_PASSES), shape, FLOAT64_TOLERANCE
    )
    assert "linalg.generic" not in names


UNIT_DIMENSIONS = {
    "depthwise_conv_2d_nchw_chw": ("2x6x11x1", "6x3x1", "2x6x9x1", [[0], [1], [2, 3]]),
    "depthwise_conv_2d_nhwc_hwc": ("2x1x11x6", "1x3x6", "2x1x9x6", [[0], [1, 2], [3]]),
    "conv_2d_nchw_fchw": ("?x3x1x11", "5x3x1x3", "?x5x1x9", [[0], [1], [2, 3]]),
    "conv_2d_nhwc_hwcf": ("?x1x1x6", "1x1x6x5", "?x1x1x5", [[0], [1, 2, 3]]),
    "conv_3d_ncdhw_fcdhw": ("2x3x1x11x1", "5x3x1x3x1", "2x5x1x9x1", [[0], [1], [2, 3, 4]]),
}


@pytest.mark.parametrize("operation", UNIT_DIMENSIONS)
def test_convolutions_without_their_unit_dimensions_compute_the_same(operation):
    image, weights, output, groups = UNIT_DIMENSIONS[operation]
    sizes = output.split("x")
    result = "x".join(next((sizes[d] for d in group if sizes[d] != "1"), "1") for group in groups)
    rank = 3 if "3d" in operation else 2
    generator = np.random.default_rng(0)
    values = generator.standard_normal(tuple(map(int, weights.split("x")))).astype(np.float32)
    dynamic = "%batch" if "?" in output else ""
    source = f"""func.func @main(%x: tensor<{image}xf32>) -> tensor<{result}xf32> {{
      %first = arith.constant 0 : index
      %batch = tensor.dim %x, %first : tensor<{image}xf32>
      %zero = arith.constant 0.0 : f32
      %w = arith.constant dense<"0x{values.tobytes().hex()}"> : tensor<{weights}xf32>
      %empty = tensor.empty({dynamic}) : tensor<{output}xf32>
      %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<{output}xf32>) -> tensor<{output}xf32>
      %c = linalg.{operation} {{
          dilations = dense<1> : vector<{rank}xi64>, strides = dense<1> : vector<{rank}xi64>
        }} ins(%x, %w : tensor<{image}xf32>, tensor<{weights}xf32>)
        outs(%zeros : tensor<{output}xf32>) -> tensor<{output}xf32>
      %r = tensor.collapse_shape %c {groups} : tensor<{output}xf32> into tensor<{result}xf32>
      return %r : tensor<{result}xf32>
    }}"""
    shape = [2 if size == "?" else int(size) for size in image.split("x")]
    passes = (DropUnitDimensions(), NormalizeLayout(), SelectAlgorithm(output_tile=2), *TENSOR_PASSES[1:])
    names = rewrite_and_compare(source, passes, shape, FLOAT64_TOLERANCE)
    assert "winograd.output_transform" in names


def test_layout_can_come_before_or_after_selection():
    layers = [Layer(name) for name in ("conv3x3", "relu", "conv1x1", "max_pool", "conv3x3", "batch_norm")]
    shape = (1, 3, 12, 12)
    source = network_source(layers, shape, "nchw", dynamic_batch=False, seed=3)
    select, layout, *others = SelectAlgorithm(output_tile=4), *TENSOR_PASSES
    before = rewrite_and_compare(source, (layout, select, *others), shape, FUSED_TOLERANCE)
    after = rewrite_and_compare(source, (select, layout, *others), shape, FUSED_TOLERANCE)
    assert before == after
