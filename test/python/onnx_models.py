"""Small ONNX models, for the tests of what reads them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CHANNELS, FILTERS = 8, 16


def convolution_model(
    shape: tuple[int | str, ...] = ("N", CHANNELS, 12, 12),
    operator: str = "Conv",
    opset: int = 17,
    element_type: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    """A convolution of `image` with a bias, then a rectifier, whose result is `features:0`."""
    generator = np.random.default_rng(0)
    dtype = helper.tensor_dtype_to_np_dtype(element_type)
    filters = generator.standard_normal((FILTERS, CHANNELS, 3, 3), np.float32).astype(dtype) / 9
    bias = generator.standard_normal(FILTERS).astype(dtype)
    domain = "" if operator == "Conv" else "my.own"
    nodes = [
        helper.make_node(
            operator, ["image", "filters", "bias"], ["sums"], name="/stem/Conv", domain=domain, pads=[1] * 4
        ),
        helper.make_node("Relu", ["sums"], ["features:0"]),
    ]
    graph = helper.make_graph(
        nodes,
        "a network",
        [helper.make_tensor_value_info("image", element_type, shape)],
        [helper.make_tensor_value_info("features:0", element_type, (shape[0], FILTERS, *shape[2:]))],
        [numpy_helper.from_array(filters, "filters"), numpy_helper.from_array(bias, "bias")],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("my.own", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)
