"""One inference of an ONNX model in onnxruntime, set up the way that is fastest for it."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]


class OnnxruntimeSession:
    """A model, its only argument and result bound to buffers beforehand.

    `run` does one inference; the result is then in `result`.
    """

    def __init__(self, model: bytes, argument: Array, threads: int) -> None:
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
        (output,) = session.get_outputs()
        self._result = onnxruntime.OrtValue.ortvalue_from_shape_and_type(output.shape, np.float32)
        binding.bind_ortvalue_output(output.name, self._result)
        self._session, self._binding = session, binding

    def run(self) -> None:
        # A method, as the session doesn't keep the memory of the argument.
        self._session.run_with_iobinding(self._binding)

    @property
    def result(self) -> Array:
        return np.array(self._result.numpy())
