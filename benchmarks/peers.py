"""One convolution layer in the other tools, each set up the way that is fastest for it.

The `run` of a `Peer` does one inference on prepared buffers, with single-precision arithmetic and as many
threads as asked for; its `output` gives the result as N x H x W x K.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.convolutions import Array, ConvolutionLayer, Operands
from benchmarks.onnxruntime_session import OnnxruntimeSession
from benchmarks.openvino_request import OpenvinoRequest


@dataclass(frozen=True)
class Peer:
    """A tool's version of a layer; `steady_state` if its buffers are in the tool's own blocked layout."""

    name: str
    run: Callable[[], Any]
    output: Callable[[], Array]
    steady_state: bool = False


def layer_peers(tool: str, layer: ConvolutionLayer, operands: Operands, threads: int) -> list[Peer]:
    """The ways in which "torch", "onnxruntime" or "openvino" does it."""
    peers = {
        "torch": torch_peers,
        "onnxruntime": lambda *arguments: [onnxruntime_peer(*arguments)],
        "openvino": openvino_peers,
    }
    return peers[tool](layer, operands, threads)


def torch_peers(layer: ConvolutionLayer, operands: Operands, threads: int) -> list[Peer]:
    """Eager `conv2d` + in-place ReLU in both layouts, and oneDNN's fused operator on prepacked filters."""
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    bias = torch.from_numpy(operands.bias)
    peers = []
    for layout, memory_format in (("nchw", torch.contiguous_format), ("nhwc", torch.channels_last)):
        image = torch.from_numpy(operands.image_nchw).contiguous(memory_format=memory_format)
        kernel = torch.from_numpy(operands.kernel_fchw).contiguous(memory_format=memory_format)
        peers.append(_torch_peer(f"torch-{layout}", _eager(image, kernel, bias)))
        packed = torch.ops.mkldnn._reorder_convolution_weight(
            kernel, [1, 1], [1, 1], [1, 1], 1, list(image.shape)
        )
        peers.append(_torch_peer(f"torch-fused-{layout}", _fused(image, packed, bias)))
        if layout == "nchw":
            peers.append(_torch_peer("onednn-blocked", _eager(image.to_mkldnn(), packed, bias), True))
    return peers


def _eager(image: Any, kernel: Any, bias: Any) -> Callable[[], Any]:
    import torch

    def run() -> Any:
        with torch.inference_mode():
            return torch.conv2d(image, kernel, bias, padding=1).relu_()

    return run


def _fused(image: Any, packed: Any, bias: Any) -> Callable[[], Any]:
    import torch

    convolution = torch.ops.mkldnn._convolution_pointwise.default

    def run() -> Any:
        return convolution(image, packed, bias, [1, 1], [1, 1], [1, 1], 1, "relu", [], "")

    return run


def _torch_peer(name: str, run: Callable[[], Any], steady_state: bool = False) -> Peer:
    def output() -> Array:
        result = run()
        dense = result.to_dense() if result.is_mkldnn else result
        return np.ascontiguousarray(dense.permute(0, 2, 3, 1).numpy())

    return Peer(name, run, output, steady_state)


def onnxruntime_peer(layer: ConvolutionLayer, operands: Operands, threads: int) -> Peer:
    """A Conv + Relu graph (fused by the runtime), both tensors bound to buffers beforehand."""
    session = OnnxruntimeSession(_onnx_model(layer, operands), operands.image_nchw, threads)

    def output() -> Array:
        session.run()
        (result,) = session.results
        return np.ascontiguousarray(result.transpose(0, 2, 3, 1))

    return Peer("onnxruntime", session.run, output)


def _onnx_model(layer: ConvolutionLayer, operands: Operands) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Conv", ["image", "kernel", "bias"], ["sum"], kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("Relu", ["sum"], ["result"]),
    ]
    shape = [layer.batch, layer.channels, layer.height, layer.width]
    result_shape = [layer.batch, layer.filters, layer.height, layer.width]
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("result", TensorProto.FLOAT, result_shape)],
        [
            numpy_helper.from_array(operands.kernel_fchw, "kernel"),
            numpy_helper.from_array(operands.bias, "bias"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def openvino_peers(layer: ConvolutionLayer, operands: Operands, threads: int) -> list[Peer]:
    return [_openvino_peer(layer, operands, threads, layout) for layout in ("nchw", "nhwc")]


def _openvino_peer(layer: ConvolutionLayer, operands: Operands, threads: int, layout: str) -> Peer:
    """A Convolution + Add + Relu model; `layout` ("nchw" or "nhwc") is that of its interface."""
    import openvino
    from openvino import opset13 as ops

    shape = [layer.batch, layer.channels, layer.height, layer.width]
    parameter = ops.parameter(shape, np.float32, name="image")
    convolved = ops.convolution(parameter, ops.constant(operands.kernel_fchw), [1, 1], [1, 1], [1, 1], [1, 1])
    biased = ops.add(convolved, ops.constant(operands.bias.reshape(1, -1, 1, 1)))
    model = openvino.Model([ops.relu(biased)], [parameter], "layer")
    image = operands.image_nchw
    if layout == "nhwc":
        interface = openvino.preprocess.PrePostProcessor(model)
        interface.input().tensor().set_layout(openvino.Layout("NHWC"))
        interface.input().model().set_layout(openvino.Layout("NCHW"))
        interface.output().tensor().set_layout(openvino.Layout("NHWC"))
        interface.output().model().set_layout(openvino.Layout("NCHW"))
        model = interface.build()
        image = operands.image
    request = OpenvinoRequest(model, image, threads)

    def output() -> Array:
        request.run()
        (result,) = request.results
        return result.copy() if layout == "nhwc" else np.ascontiguousarray(result.transpose(0, 2, 3, 1))

    return Peer(f"openvino-{layout}", request.run, output)
