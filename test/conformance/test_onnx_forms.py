"""Forms of ONNX operators that its own cases don't have, beside ONNX Runtime."""

from __future__ import annotations

import iree.winograd
import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from conformance import compile_rewritten
from iree.winograd.dialect.algebra.numerics import UNIT_ROUNDOFF
from wide import wide_combinations

BOXES = 12


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> network {text}')


def both(text: str, *arguments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What our program and ONNX Runtime return."""
    network = model(text)
    program = iree.winograd.compile(iree.winograd.import_onnx(network), threads=1)
    session = onnxruntime.InferenceSession(network.SerializeToString(), providers=["CPUExecutionProvider"])
    names = (each.name for each in session.get_inputs())
    (expected,) = session.run(None, dict(zip(names, arguments, strict=True)))
    return iree.winograd.load(program, "local-sync")(*arguments), expected


@pytest.mark.parametrize(("threshold", "most"), [(0.5, 3), *wide_combinations([(0.0, BOXES), (2.0, BOXES)])])
def test_boxes_with_a_least_score(threshold: float, most: int) -> None:
    generator = np.random.default_rng(0)
    corners = generator.uniform(0, 1, (1, BOXES, 2))
    boxes = np.concatenate([corners, corners + generator.uniform(0.3, 0.6, (1, BOXES, 2))], -1)
    scores = generator.uniform(-1, 1, (1, 1, BOXES))
    actual, expected = both(
        f"""(float[1, {BOXES}, 4] boxes, float[1, 1, {BOXES}] scores) => (int64[n, 3] selected)
        <int64[1] most = {{{most}}}, float[1] overlap = {{0.4}}, float[1] threshold = {{{threshold}}}>
        {{ selected = NonMaxSuppression(boxes, scores, most, overlap, threshold) }}""",
        boxes.astype(np.float32),
        scores.astype(np.float32),
    )
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    "operator, size, pads",
    [
        ("AveragePool", 2, 1),
        *wide_combinations(
            [
                ("MaxPool", 5, 0),
                ("AveragePool", 4, 0),
                ("MaxPool", 4, 0),
                ("AveragePool", 5, 0),
                ("MaxPool", 2, 1),
            ]
        ),
    ],
)
def test_a_single_window_that_leaves_a_rest(operator: str, size: int, pads: int) -> None:
    image = np.random.default_rng(0).standard_normal((2, 3, size, 7), np.float32)
    actual, expected = both(
        f"""(float[n, 3, {size}, 7] image) => (float[n, 3, 1, w] result) {{ result = {operator}
        <kernel_shape = [3, 3], strides = [3, 2], pads = [{pads}, 1, {pads}, 1]>(image) }}""",
        image,
    )
    assert np.abs(actual - expected).max() < 10 * UNIT_ROUNDOFF["float32"] * np.abs(image).max()


def test_windows_that_overhang_in_a_batch_of_any_size() -> None:
    image = np.random.default_rng(0).standard_normal((2, 3, 8, 9), np.float32)
    actual, expected = both(
        """(float[n, 3, 8, 9] image) => (float[n, 3, h, w] result) { result = AveragePool
        <kernel_shape = [3, 3], strides = [2, 3], ceil_mode = 1>(image) }""",
        image,
    )
    assert np.abs(actual - expected).max() < 10 * UNIT_ROUNDOFF["float32"] * np.abs(image).max()


def test_windows_that_overhang_images_of_any_size() -> None:
    image = np.random.default_rng(0).standard_normal((1, 3, 8, 9), np.float32)
    actual, expected = both(
        """(float[1, 3, h, w] image) => (float[1, 3, y, x] result) { result = AveragePool
        <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1>(image) }""",
        image,
    )
    assert np.abs(actual - expected).max() < 10 * UNIT_ROUNDOFF["float32"] * np.abs(image).max()


def test_slices_by_negative_steps() -> None:
    image = np.random.default_rng(0).standard_normal((2, 9, 12), np.float32)
    actual, expected = both(
        """(float[n, 9, 12] image) => (float[m, h, w] result)
        <int64[3] starts = {-1, 1, 20}, int64[3] ends = {-20, 8, 2}, int64[3] axes = {1, 0, -1},
        int64[3] steps = {-2, 1, -3}>
        { result = Slice(image, starts, ends, axes, steps) }""",
        image,
    )
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(("batch", "leading"), [("n", (49,)), *wide_combinations([(2, (7, 7))])])
def test_matrices_by_a_constant(batch: int | str, leading: tuple[int, ...]) -> None:
    generator = np.random.default_rng(0)
    rows, matrix = (
        generator.standard_normal(shape).astype(np.float32) for shape in ((2, *leading, 64), (64, 128))
    )
    sizes = ", ".join(map(str, (batch, *leading)))
    network = model(
        f"""(float[{sizes}, 64] rows) => (float[{sizes}, 128] result) {{ result = MatMul(rows, matrix) }}"""
    )
    network.graph.initializer.append(onnx.numpy_helper.from_array(matrix, "matrix"))
    compiled = compile_rewritten(iree.winograd.import_onnx(network))
    assert len(compiled.rewritten) == (1 if batch == 2 else 0)
    result = iree.winograd.load(compiled.program, "local-sync")(rows)
    expected = rows.astype(np.float64) @ matrix
    assert np.abs(result - expected).max() < 64 * UNIT_ROUNDOFF["float32"] * 64
