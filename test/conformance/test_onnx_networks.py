"""A network that ONNX tests backends with, its weights drawn anew: those of its file are all the same."""

from __future__ import annotations

from pathlib import Path

import iree.winograd
import numpy as np
import onnx
import onnxruntime
import pytest
from conformance import compile_rewritten
from onnx import numpy_helper

FOLDER = Path(onnx.__file__).parent / "backend/test/data/light"


@pytest.mark.wide
def test_squeezenet_agrees_with_onnxruntime() -> None:
    model = with_random_weights(onnx.load(FOLDER / "light_squeezenet.onnx"))
    imported = iree.winograd.import_onnx(model)
    compiled = compile_rewritten(imported)
    assert len(compiled.rewritten) >= sum(node.op_type == "Conv" for node in model.graph.node)
    program = iree.winograd.load(compiled.program, "local-sync")
    (signature,) = program.main.signature.inputs
    image = np.random.default_rng(1).standard_normal(signature.shape, np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {signature.name: image})
    # Of logarithms of probabilities, which are the last layer's outputs: each layer may err by 1e-6 of its
    # largest output, and there are at most 60 in a row.
    actual, exact = np.log(program(image)), np.log(expected)
    assert np.ptp(exact) > 0.1, "all outputs are the same, whatever the layers compute"
    assert np.abs(actual - exact).max() < 60e-6 * np.abs(exact).max()


def with_random_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` with values that keep the magnitude of images for its constant weights.

    Vectors, among which are variances, are positive.
    """
    generator = np.random.default_rng(0)
    shapes = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    constant = [node for node in model.graph.node if node.op_type == "ConstantOfShape"]
    for node in constant:
        shape = tuple(map(int, shapes[node.input[0]]))
        weights = generator.uniform(0.5, 1.5, shape)
        if len(shape) > 1:
            weights = np.sqrt(2 / np.prod(shape[1:])) * generator.standard_normal(shape)
        model.graph.initializer.append(numpy_helper.from_array(weights.astype(np.float32), node.output[0]))
        if model.ir_version < 4:
            # Initializers are inputs there.
            value = onnx.helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, shape)
            model.graph.input.append(value)
        model.graph.node.remove(node)
    return model
