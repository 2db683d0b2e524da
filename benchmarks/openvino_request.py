"""One inference of an OpenVINO model, set up the way that is fastest for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]


class OpenvinoRequest:
    """A compiled model, its argument and its results bound to buffers beforehand.

    `run` does one inference, in single precision; what came of it is then in `results`.
    """

    def __init__(self, model: Any, argument: Array, threads: int) -> None:
        import openvino

        settings = {
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "ENABLE_CPU_PINNING": False,
        }
        begin = time.perf_counter()
        compiled = openvino.Core().compile_model(model, "CPU", settings)
        self.compile_seconds = time.perf_counter() - begin
        request = compiled.create_infer_request()
        self._source = openvino.Tensor(argument, shared_memory=True)
        self._buffers = [
            np.zeros(list(output.shape), output.element_type.to_dtype()) for output in compiled.outputs
        ]
        for index, buffer in enumerate(self._buffers):
            request.set_output_tensor(index, openvino.Tensor(buffer, shared_memory=True))
        self._request = request
        # The binding's own `infer`: the Python class above it also copies the results into a dictionary.
        self._infer: Callable[..., Any] = openvino._pyopenvino.InferRequest.infer

    def run(self) -> None:
        # A method, as the request doesn't keep the memory of the results.
        self._infer(self._request, self._source, True, False)

    @property
    def results(self) -> tuple[npt.NDArray[Any], ...]:
        return tuple(buffer.copy() for buffer in self._buffers)
