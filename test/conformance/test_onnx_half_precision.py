"""The forms in which ONNX files have half precision: all of it, all but arguments, or the weights alone."""

from __future__ import annotations

import json
from pathlib import Path

import iree.winograd
import numpy as np
import numpy.typing as npt
import onnx
import pytest
from half_precision import ROUNDOFF
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from torch import float16

ELEMENTS = {np.float16: TensorProto.FLOAT16, np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE}
ROUNDINGS = 16
"""Results in the network that are rounded, one after the other, each of which none behind it enlarges."""


def network(
    computed: type[np.floating], stored: type[np.floating], taken: type[np.floating]
) -> onnx.ModelProto:
    """A block of MobileNetV2 and a classifier: what they compute in, and the types of weights and arguments.

    The weights are numbers of f16.
    """
    generator = np.random.default_rng(0)
    weights: list[onnx.TensorProto] = []
    nodes: list[onnx.NodeProto] = []

    def node(operator: str, *operands: str, **attributes: object) -> str:
        result = f"v{len(nodes)}"
        nodes.append(helper.make_node(operator, operands, [result], **attributes))
        return result

    def cast(value: str, to: type[np.floating]) -> str:
        return node("Cast", value, to=ELEMENTS[to])

    def weight(values: npt.ArrayLike) -> str:
        name = f"w{len(weights)}"
        weights.append(numpy_helper.from_array(np.asarray(values, np.float16).astype(stored), name))
        return name if stored == computed else cast(name, computed)

    def convolution(value: str, inputs: int, outputs: int, size: int, **attributes: object) -> str:
        filters = weight(generator.standard_normal((outputs, inputs, size, size)) / np.sqrt(inputs) / size)
        value = node("Conv", value, filters, pads=[size // 2] * 4, **attributes)
        scale, variance = generator.uniform(0.5, 1, (2, outputs))
        bias, mean = generator.standard_normal((2, outputs)) / 4
        return node("BatchNormalization", value, *map(weight, (scale, bias, mean, variance + 0.5)))

    def bounded(value: str) -> str:
        return node("Clip", value, weight(0.0), weight(6.0))

    image = "image" if taken == computed else cast("image", computed)
    first = bounded(convolution(image, 3, 16, 3, strides=[2, 2]))
    x = bounded(convolution(first, 16, 48, 1))
    x = bounded(convolution(x, 1, 48, 3, group=48))
    x = node("Add", convolution(x, 48, 16, 1), first)
    x = node("Flatten", node("GlobalAveragePool", x))
    x = node("Gemm", x, weight(generator.standard_normal((10, 16)) / 4), weight(np.zeros(10)), transB=1)
    nodes.append(helper.make_node("Cast", [x], ["scores"], to=ELEMENTS[taken]))
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("image", ELEMENTS[taken], [2, 3, 24, 24])],
        [helper.make_tensor_value_info("scores", ELEMENTS[taken], [2, 10])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("computed", "taken"),
    [
        pytest.param(np.float16, np.float16, id="all"),
        pytest.param(np.float16, np.float32, id="keep_io_types", marks=pytest.mark.wide),
        pytest.param(np.float32, np.float32, id="weights", marks=pytest.mark.wide),
    ],
)
def test_files_of_half_precision(
    computed: type[np.floating], taken: type[np.floating], tmp_path: Path
) -> None:
    """Filters are constants, in whichever type they are, and results are rounded where the file says."""
    image = np.random.default_rng(1).standard_normal((2, 3, 24, 24)).astype(np.float16)
    exact = network(np.float64, np.float64, np.float64)
    (expected,) = ReferenceEvaluator(exact).run(None, {"image": image.astype(np.float64)})
    model, report = network(computed, np.float16, taken), tmp_path / "report.json"
    compiled = iree.winograd.compile(iree.winograd.import_onnx(model), threads=1, report=report, strict=True)
    result = np.asarray(iree.winograd.load(compiled, threads=1)(image.astype(taken)))
    assert result.dtype == taken
    roundoff = ROUNDOFF[float16] if computed == np.float16 else 2.0**-20
    bound = np.sqrt(ROUNDINGS) * roundoff * np.linalg.norm(expected)
    assert np.linalg.norm(result - expected) <= bound
    layers = json.loads(report.read_text())["layers"]
    assert len(layers) == 5 and not any("run time" in layer["problem"]["text"] for layer in layers)
