"""One inference of an ONNX model in onnxruntime, set up the way that is fastest for it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

_DTYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64}


class OnnxruntimeSession:
    """A model, its only argument and its results bound to buffers beforehand.

    `run` does one inference; what came of it is then in `results`. Results whose size
    is known only at run time get a buffer in each inference.
    """

    def __init__(self, model: bytes | Path, argument: Array, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        begin = time.perf_counter()
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.compile_seconds = time.perf_counter() - begin
        binding = session.io_binding()
        # The runtime borrows the argument's memory without holding on to the array.
        self._argument = argument
        image = onnxruntime.OrtValue.ortvalue_from_numpy(argument)
        binding.bind_ortvalue_input(session.get_inputs()[0].name, image)
        for output in session.get_outputs():
            if all(isinstance(size, int) for size in output.shape):
                dtype = _DTYPES[output.type]
                buffer = onnxruntime.OrtValue.ortvalue_from_shape_and_type(output.shape, dtype)
                binding.bind_ortvalue_output(output.name, buffer)
            else:
                binding.bind_output(output.name)
        self._session, self._binding = session, binding

    def run(self) -> None:
        # A method, as the session doesn't keep the memory of the argument.
        self._session.run_with_iobinding(self._binding)

    @property
    def results(self) -> tuple[npt.NDArray[Any], ...]:
        return tuple(np.array(output) for output in self._binding.copy_outputs_to_cpu())
