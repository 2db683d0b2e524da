"""ONNX's `AveragePool` whose windows overhang images of sizes known only at run time, against torch."""

from __future__ import annotations

from pathlib import Path

import iree.winograd as winograd
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

POOLINGS = [(3, 2, 0, False), (2, 3, 1, True), (2, 2, 1, False), (5, 3, 2, True)]
"""Taps, strides, padding and whether it counts; of the second the last window may begin behind the image."""
SIZES = [(6, 6), (7, 9), (8, 10), (13, 5), (5, 14)]


def pooling(**attributes: list[int]) -> onnx.ModelProto:
    nodes, results = [], []
    for number, (taps, stride, padding, counts) in enumerate(POOLINGS):
        windows = {"kernel_shape": [taps] * 2, "strides": [stride] * 2, "pads": [padding] * 4}
        name = f"result {number}"
        node = helper.make_node(
            "AveragePool",
            ["image"],
            [name],
            ceil_mode=1,
            count_include_pad=int(counts),
            **windows,
            **attributes,
        )
        nodes.append(node)
        results.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8, None, None]))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 8, "height", "width"])
    graph = helper.make_graph(nodes, "pooling", [image], results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=8)


@pytest.mark.wide
def test_open_sizes_agree_with_torch(tmp_path: Path) -> None:
    path = tmp_path / "pooling.onnx"
    onnx.save(pooling(), path)
    compiled = winograd.compile(winograd.import_onnx(path), threads=1, strict=True)
    program = winograd.load(compiled, device="local-sync")
    for size in SIZES:
        image = torch.randn(1, 8, *size)
        for (taps, stride, padding, counts), result in zip(POOLINGS, program(image.numpy()), strict=True):
            exact = torch.nn.functional.avg_pool2d(
                image.double(), taps, stride, padding, ceil_mode=True, count_include_pad=counts
            )
            # A sum, and a quotient for it and each dimension.
            bound = 2.0**-24 * (taps**2 + 4) * image.abs().max().item()
            np.testing.assert_allclose(np.asarray(result), exact.numpy(), atol=bound, rtol=0)


def test_windows_with_gaps_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "pooling.onnx"
    onnx.save(pooling(dilations=[2, 2]), path)
    with pytest.raises(winograd.ModelImportError, match="with ceil_mode, dilations and sizes that are known"):
        winograd.import_onnx(path)
