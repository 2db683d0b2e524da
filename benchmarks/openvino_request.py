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

    `run` does one inference, by default in single precision; what came of it is then in `results`. Results
    whose size is known only at run time get a buffer from the tool.
    """

    def __init__(self, model: Any, argument: Array, threads: int, precision: str = "f32") -> None:
        import openvino

        settings = {
            "INFERENCE_PRECISION_HINT": precision,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "ENABLE_CPU_PINNING": False,
        }
        begin = time.perf_counter()
        compiled = openvino.Core().compile_model(model, "CPU", settings)
        self.compile_seconds = time.perf_counter() - begin
        request = compiled.create_infer_request()
        self._source = openvino.Tensor(argument, shared_memory=True)
        self._buffers: list[npt.NDArray[Any]] = []
        for index, output in enumerate(compiled.outputs):
            if output.partial_shape.is_static:
                self._buffers.append(np.zeros(list(output.shape), output.element_type.to_dtype()))
                request.set_output_tensor(index, openvino.Tensor(self._buffers[-1], shared_memory=True))
        self._outputs = len(compiled.outputs)
        self._request = request
        # The binding's own `infer`: the Python class above it also copies the results into a dictionary.
        self._infer: Callable[..., Any] = openvino._pyopenvino.InferRequest.infer

    def run(self) -> None:
        # A method, as the request doesn't keep the memory of the results.
        self._infer(self._request, self._source, True, False)

    @property
    def results(self) -> tuple[npt.NDArray[Any], ...]:
        return tuple(self._request.get_output_tensor(index).data.copy() for index in range(self._outputs))
