"""Quantised models of ONNX: f32 convolutions between numbers that are rounded to bytes, or 16 bits."""

from __future__ import annotations

import json
from pathlib import Path

import iree.winograd
import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from wide import sampled

IMAGE_SCALE, INNER_SCALE, SCALE = 0.04, 0.0513, 0.0937
"""Of the image, of what lies between the layers and of the result."""


def quantized_model(kind: type[np.integer], scale: float = 1.0) -> onnx.ModelProto:
    """Two convolutions and a sum of their results, between integers of a kind, whose scales are so much."""
    generator = np.random.default_rng(0)
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    constants: dict[str, npt.NDArray[np.generic]] = {}
    nodes: list[onnx.NodeProto] = []

    def constant(name: str, values: object, dtype: type[np.generic]) -> str:
        constants[name] = np.array(values, dtype)
        return name

    def through_integers(value: str, of_bytes: float, zero: int) -> str:
        parameters = [
            constant(f"{value}_s", scale * of_bytes, np.float32),
            constant(f"{value}_z", zero, kind),
        ]
        nodes.append(helper.make_node("QuantizeLinear", [value, *parameters], [f"{value}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{value}_q", *parameters], [f"{value}_d"]))
        return f"{value}_d"

    def convolution(value: str, name: str, inputs: int, outputs: int) -> str:
        bytes_ = constant(f"{name}_w", generator.integers(-127, 128, (outputs, inputs, 3, 3)), np.int8)
        scales = constant(f"{name}_ws", generator.uniform(1e-3, 3e-3, outputs), np.float32)
        zeros = constant(f"{name}_wz", np.zeros(outputs), np.int8)
        nodes.append(helper.make_node("DequantizeLinear", [bytes_, scales, zeros], [f"{name}_wd"], axis=0))
        nodes.append(helper.make_node("Conv", [value, f"{name}_wd"], [name], pads=[1, 1, 1, 1]))
        return name

    zero = least + 15 * (most - least + 1) // 32
    first = convolution(through_integers("x", IMAGE_SCALE, zero), "first", 16, 16)
    kept = through_integers(first, INNER_SCALE, least)
    second = through_integers(convolution(kept, "second", 16, 16), INNER_SCALE, zero)
    nodes.append(helper.make_node("Add", [second, kept], ["sum"]))
    nodes.append(helper.make_node("Identity", [through_integers("sum", SCALE, zero)], ["y"]))
    shape = [1, 16, 18, 18]
    graph = helper.make_graph(
        nodes,
        "quantized",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("kind", sampled([np.int8, np.uint8, np.int16, np.uint16], [np.int8]))
def test_integers_between_layers_are_no_operations_of_their_own(
    kind: type[np.integer], tmp_path: Path
) -> None:
    """Filters are constants, and epilogues round. A number near a half may become either integer.

    As many do as sums are off by, of the distance of integers: at most a millionth of the largest one each.
    """
    scale = 256 / (np.iinfo(kind).max - np.iinfo(kind).min + 1)
    model, report = quantized_model(kind, scale), tmp_path / "report.json"
    image = np.random.default_rng(1).standard_normal((1, 16, 18, 18)).astype(np.float32)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": image})
    program = iree.winograd.compile(iree.winograd.import_onnx(model), threads=1, report=report)
    result = np.asarray(iree.winograd.load(program, threads=1)(image))
    steps = np.rint((result - expected) / (scale * SCALE))
    share = max(0.01, 1e-6 * (np.iinfo(kind).max - np.iinfo(kind).min))
    assert np.abs(steps).max() <= 2 and np.mean(steps != 0) < share
    np.testing.assert_allclose(result, expected + scale * SCALE * steps, atol=1e-5)
    stated = json.loads(report.read_text())
    assert not any("run time" in layer["problem"]["text"] for layer in stated["layers"])
    # The image becomes bytes, and the result is channels first: two operations beside the convolutions.
    assert len(stated["dispatches"]) <= len(stated["layers"]) + 2


def moving_model(*moving: onnx.NodeProto) -> onnx.ModelProto:
    """Integers of 16 bits from "x" to "y", 2 x 3 x 4, with nodes from "q" to "moved" between."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        *moving,
        helper.make_node("DequantizeLinear", ["moved", "scale", "zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "moving",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.array(1e-3, np.float32), "scale"),
            numpy_helper.from_array(np.array(-7, np.int16), "zero"),
            numpy_helper.from_array(np.array([4, 6]), "shape"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_operators_that_move_elements_take_16_bits() -> None:
    model = moving_model(
        helper.make_node("Transpose", ["q"], ["t"], perm=[2, 0, 1]),
        helper.make_node("Reshape", ["t", "shape"], ["r"]),
        helper.make_node("Concat", ["r", "r"], ["moved"], axis=1),
    )
    numbers = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": numbers})
    program = iree.winograd.compile(iree.winograd.import_onnx(model), threads=1)
    # A number near a half may become either integer.
    np.testing.assert_allclose(iree.winograd.load(program, threads=1)(numbers), expected, atol=1.01e-3)


def test_operators_that_choose_elements_take_16_bits() -> None:
    """The image is 1 x 2 x 3 x 4, of which pixels are repeated, then the largest of 2x2 are taken."""
    model = moving_model(
        helper.make_node("Unsqueeze", ["q", "first"], ["image"]),
        helper.make_node("Resize", ["image", "", "scales"], ["larger"], mode="nearest"),
        helper.make_node("Tile", ["larger", "twice"], ["tiled"]),
        helper.make_node("Gather", ["tiled", "channels"], ["gathered"], axis=1),
        helper.make_node("MaxPool", ["gathered"], ["moved"], kernel_shape=[2, 2], strides=[1, 2]),
    )
    constants = {
        "first": np.array([0]),
        "scales": np.array([1, 1, 2, 3], np.float32),
        "twice": np.array([1, 1, 1, 2]),
        "channels": np.array([1, 0, 1]),
    }
    model.graph.initializer.extend(numpy_helper.from_array(each, name) for name, each in constants.items())
    numbers = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    rounded = np.rint(numbers / np.float32(1e-3)) * np.float32(1e-3)
    larger = np.tile(rounded.repeat(2, axis=1).repeat(3, axis=2), (1, 1, 2))[[1, 0, 1]]
    columns = np.maximum(larger[:, :, ::2], larger[:, :, 1::2])
    expected = np.maximum(columns[:, :-1], columns[:, 1:])[np.newaxis]
    program = iree.winograd.compile(iree.winograd.import_onnx(model), threads=1)
    np.testing.assert_allclose(iree.winograd.load(program, threads=1)(numbers), expected, atol=1.01e-3)


def test_what_computes_with_16_bits_is_named() -> None:
    model = moving_model(helper.make_node("Sign", ["q"], ["moved"], name="signs"))
    with pytest.raises(
        iree.winograd.ModelImportError, match=r"signs.*Sign isn.t supported with integers of 16"
    ):
        iree.winograd.import_onnx(model)
