"""A whole network in each of the tools, set up the way that is fastest for it, and what that cost.

Every function takes the network, a batch of images N x C x H x W and the number of threads.
"""

from __future__ import annotations

import copy
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.compiled import PLAIN_FLAGS, bind_program
from benchmarks.onnxruntime_session import OnnxruntimeSession
from benchmarks.openvino_request import OpenvinoRequest

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class PreparedModel:
    """`run` does one inference, `output` also gives its result; `size` is that of the program in bytes."""

    run: Callable[[], Any]
    output: Callable[[], Array]
    import_seconds: float = 0.0
    compile_seconds: float = 0.0
    size: int = 0


Prepare = Callable[[torch.nn.Module, torch.Tensor, int], PreparedModel]


def torch_eager(model: torch.nn.Module, images: torch.Tensor, threads: int) -> PreparedModel:
    """Operator by operator, on channels-last tensors if the model can use them."""
    torch.set_num_threads(threads)
    layout: dict[str, Any] = {"memory_format": torch.channels_last}
    prepared = _torch_model(copy.deepcopy(model).to(**layout), images.contiguous(**layout))
    try:
        prepared.run()
    except RuntimeError:
        # A view of the features, as in AlexNet, asks for contiguous ones.
        return _torch_model(model, images)
    return prepared


def torch_frozen(model: torch.nn.Module, images: torch.Tensor, threads: int) -> PreparedModel:
    """Traced and frozen: batch normalization folded, oneDNN's fused operators in its own layout."""
    torch.set_num_threads(threads)
    begin = time.perf_counter()
    trace: Callable[..., Any] = torch.jit.trace
    frozen = torch.jit.optimize_for_inference(torch.jit.freeze(trace(model, images)))
    return _torch_model(frozen, images, time.perf_counter() - begin)


def _torch_model(model: Any, images: torch.Tensor, compile_seconds: float = 0.0) -> PreparedModel:
    def run() -> Any:
        with torch.inference_mode():
            return model(images)

    return PreparedModel(run, lambda: run().numpy(), compile_seconds=compile_seconds)


def onnxruntime_model(model: torch.nn.Module, images: torch.Tensor, threads: int) -> PreparedModel:
    """From ONNX, with inputs and outputs bound to buffers beforehand."""
    program, import_seconds = _timed(lambda: _to_onnx(model, images))
    session = OnnxruntimeSession(program, images.numpy(), threads)

    def output() -> Array:
        session.run()
        return session.result

    return PreparedModel(session.run, output, import_seconds, session.compile_seconds, len(program))


def openvino_model(model: torch.nn.Module, images: torch.Tensor, threads: int) -> PreparedModel:
    """From ONNX, in single precision, with inputs and outputs set beforehand."""
    import openvino

    program, import_seconds = _timed(lambda: _to_onnx(model, images))
    network, read_seconds = _timed(lambda: openvino.Core().read_model(program))
    request = OpenvinoRequest(network, images.numpy(), threads)

    def output() -> Array:
        request.run()
        return request.result.copy()

    compile_seconds = read_seconds + request.compile_seconds
    return PreparedModel(request.run, output, import_seconds, compile_seconds, len(program))


def _to_onnx(model: torch.nn.Module, images: torch.Tensor) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        torch.onnx.export(
            model, (images,), path, dynamo=False, input_names=["images"], output_names=["result"]
        )
        return path.read_bytes()


def stock_iree(model: torch.nn.Module, images: torch.Tensor, threads: int) -> PreparedModel:
    """IREE alone, at its highest optimization level."""
    return _compiled_model(model, images, threads, enable_winograd=False)


def iree_winograd(model: torch.nn.Module, images: torch.Tensor, threads: int) -> PreparedModel:
    """IREE with our passes, otherwise alike."""
    return _compiled_model(model, images, threads, enable_winograd=True)


def _compiled_model(
    model: torch.nn.Module, images: torch.Tensor, threads: int, *, enable_winograd: bool
) -> PreparedModel:
    import iree.winograd

    imported, import_seconds = _timed(lambda: iree.winograd.import_torch(model, images))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.vmfb")
        _, compile_seconds = _timed(
            lambda: iree.winograd.compile(
                imported,
                output=path,
                flags=PLAIN_FLAGS,
                enable_winograd=enable_winograd,
                threads=threads,
            )
        )
        # The file stays mapped after it is gone.
        run, output = bind_program(path, images.numpy(), threads)
        return PreparedModel(run, output, import_seconds, compile_seconds, path.stat().st_size)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begin


TOOLS: dict[str, Prepare] = {
    "ours": iree_winograd,
    "iree": stock_iree,
    "torch": torch_eager,
    "torch-frozen": torch_frozen,
    "onnxruntime": onnxruntime_model,
    "openvino": openvino_model,
}
