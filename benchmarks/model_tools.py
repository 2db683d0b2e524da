"""A whole network in each of the tools, set up the way that is fastest for it, and what that cost.

Every function takes a network with its batch, and the number of threads.
"""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt
import torch
from iree.winograd.compiling.embedding import stock_tool
from iree.winograd.importers.imported_model import ImportedModel
from iree.winograd.report.schema import DecisionReport

from benchmarks.compile_contenders import CALLS_UNTIL_DECIDED, allow_compilations
from benchmarks.compiled import DATA_TILED_FLAGS, PLAIN_FLAGS, bind_program
from benchmarks.onnxruntime_session import OnnxruntimeSession
from benchmarks.openvino_request import OpenvinoRequest
from benchmarks.processor_time import processor_seconds
from benchmarks.subject import Made, Subject, make, result_arrays

_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


@dataclass(frozen=True)
class PreparedModel:
    """`run` does one inference, `results` also gives what came of it.

    Seconds are of processor time; `size` is that of the program in bytes; `report` is ours on its decisions;
    `program` reads the file that the tool loads, where it loads one.
    """

    run: Callable[[], Any]
    results: Callable[[], tuple[npt.NDArray[Any], ...]]
    import_seconds: float = 0.0
    compile_seconds: float = 0.0
    size: int = 0
    report: DecisionReport | None = None
    program: Callable[[], bytes] | None = None


Prepare = Callable[[Subject, int], PreparedModel]


def torch_eager(subject: Subject, threads: int) -> PreparedModel:
    """Operator by operator, on channels-last tensors if the model can use them."""
    torch.set_num_threads(threads)
    layout = _CHANNELS_LAST.get(subject.images.ndim)
    model = copy.deepcopy(subject.model)
    if layout is None:
        return _torch_model(model, subject.images)
    try:
        laid_out = model.to(memory_format=layout)  # type: ignore[call-overload]
        prepared = _torch_model(laid_out, subject.images.contiguous(memory_format=layout))
        prepared.run()
    except RuntimeError:
        # A view of the features, as in AlexNet, asks for contiguous ones.
        return _torch_model(copy.deepcopy(subject.model), subject.images)
    return prepared


def torch_frozen(subject: Subject, threads: int) -> PreparedModel:
    """Traced and frozen: batch normalization folded, oneDNN's fused operators in its own layout."""
    torch.set_num_threads(threads)
    trace: Callable[..., Any] = torch.jit.trace
    frozen = make(
        lambda: torch.jit.optimize_for_inference(torch.jit.freeze(trace(subject.model, subject.images)))
    )
    return _torch_model(frozen.value, subject.images, frozen.seconds)


def _torch_model(model: Any, images: torch.Tensor, compile_seconds: float = 0.0) -> PreparedModel:
    def run() -> Any:
        with torch.inference_mode():
            return model(images)

    return PreparedModel(run, lambda: result_arrays(run()), compile_seconds=compile_seconds)


def onnxruntime_model(subject: Subject, threads: int) -> PreparedModel:
    """From ONNX, with inputs and outputs bound to buffers beforehand."""
    program = subject.onnx
    session = make(lambda: OnnxruntimeSession(program.value, subject.images.numpy(), threads))

    def results() -> tuple[npt.NDArray[Any], ...]:
        session.value.run()
        return session.value.results

    return _from_onnx(session.value.run, results, program, session.seconds)


def openvino_model(subject: Subject, threads: int) -> PreparedModel:
    """From ONNX, in single precision, with inputs and outputs set beforehand."""
    import openvino

    program = subject.onnx
    request = make(
        lambda: OpenvinoRequest(openvino.Core().read_model(program.value), subject.images.numpy(), threads)
    )

    def results() -> tuple[npt.NDArray[Any], ...]:
        request.value.run()
        return request.value.results

    return _from_onnx(request.value.run, results, program, request.seconds)


def _from_onnx(
    run: Callable[[], Any],
    results: Callable[[], tuple[npt.NDArray[Any], ...]],
    program: Made[bytes],
    compile_seconds: float,
) -> PreparedModel:
    return PreparedModel(
        run,
        results,
        program.seconds,
        compile_seconds,
        size=len(program.value),
        program=lambda: program.value,
    )


def stock_iree(subject: Subject, threads: int) -> PreparedModel:
    """IREE alone, at its highest optimization level."""
    return _compiled_model(subject, threads, PLAIN_FLAGS, enable_winograd=False)


def data_tiled_iree(subject: Subject, threads: int) -> PreparedModel:
    """IREE alone, with convolutions on tiled data: by its command, as flags for that are of a process."""
    imported = subject.imported
    with tempfile.TemporaryDirectory() as folder:
        program, path = Path(folder, "model.mlirbc"), Path(folder, "model.vmfb")
        imported.value.save(program)
        seconds = processor_seconds([stock_tool("iree-compile"), *DATA_TILED_FLAGS, program, "-o", path])
        run, results = bind_program(path, subject.images.numpy(), threads)
        return PreparedModel(run, results, imported.seconds, seconds, path.stat().st_size)


def iree_winograd(subject: Subject, threads: int) -> PreparedModel:
    """IREE with our passes, none of which may fail, otherwise alike."""
    return _compiled_model(subject, threads, PLAIN_FLAGS, enable_winograd=True)


def iree_winograd_of_onnx(subject: Subject, threads: int) -> PreparedModel:
    """The same from the ONNX of torch's exporter of TorchScript."""
    return _compiled_onnx(subject, subject.onnx, threads)


def iree_winograd_of_dynamo_onnx(subject: Subject, threads: int) -> PreparedModel:
    """The same from that of torch's exporter of graphs that it captures."""
    return _compiled_onnx(subject, subject.dynamo_onnx, threads)


def _compiled_onnx(subject: Subject, model: Made[bytes], threads: int) -> PreparedModel:
    from iree.winograd import import_onnx

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        path.write_bytes(model.value)
        imported = make(lambda: import_onnx(path))
    return _compiled_model(subject, threads, PLAIN_FLAGS, enable_winograd=True, imported=imported)


def torch_compile_winograd(subject: Subject, threads: int) -> PreparedModel:
    """By `torch.compile` with this project's backend."""
    return _torch_compiled(subject, threads, "winograd")


def inductor(subject: Subject, threads: int) -> PreparedModel:
    """By `torch.compile` with its own, weights frozen."""
    return _torch_compiled(subject, threads, "inductor", {"freezing": True})


def _torch_compiled(
    subject: Subject, threads: int, backend: str, options: dict[str, Any] | None = None
) -> PreparedModel:
    torch.set_num_threads(threads)
    # A reset would have models that were compiled before compile anew.
    allow_compilations(len(WITH_EXPORTERS))

    def compile_model() -> Any:
        model = torch.compile(copy.deepcopy(subject.model), backend=backend, options=options)
        model(subject.images)
        return model

    compiled = make(compile_model)
    for _ in range(CALLS_UNTIL_DECIDED):
        compiled.value(subject.images)
    return PreparedModel(
        lambda: compiled.value(subject.images),
        lambda: result_arrays(compiled.value(subject.images)),
        compile_seconds=compiled.seconds,
    )


def _compiled_model(
    subject: Subject,
    threads: int,
    flags: Sequence[str],
    *,
    enable_winograd: bool,
    imported: Made[ImportedModel] | None = None,
) -> PreparedModel:
    import iree.winograd

    imported = imported or subject.imported
    folder = tempfile.TemporaryDirectory()
    path, report_path = Path(folder.name, "model.vmfb"), Path(folder.name, "report.json")
    compiled = make(
        lambda: iree.winograd.compile(
            imported.value,
            output=path,
            flags=flags,
            enable_winograd=enable_winograd,
            report=report_path if enable_winograd else None,
            threads=threads,
            strict=True,
        )
    )
    report = json.loads(report_path.read_text()) if enable_winograd else None
    run, results = bind_program(path, subject.images.numpy(), threads)

    def program() -> bytes:
        return Path(folder.name, "model.vmfb").read_bytes()

    size = path.stat().st_size
    return PreparedModel(run, results, imported.seconds, compiled.seconds, size, report, program)


TOOLS: dict[str, Prepare] = {
    "ours": iree_winograd,
    "iree": stock_iree,
    "iree-tiled": data_tiled_iree,
    "torch": torch_eager,
    "torch-frozen": torch_frozen,
    "onnxruntime": onnxruntime_model,
    "openvino": openvino_model,
}

WITH_EXPORTERS: dict[str, Prepare] = {
    "ours": iree_winograd,
    "ours-onnx": iree_winograd_of_onnx,
    "ours-onnx-dynamo": iree_winograd_of_dynamo_onnx,
    "ours-torch-compile": torch_compile_winograd,
    "torch": torch_eager,
    "inductor": inductor,
    "onnxruntime": onnxruntime_model,
    "openvino": openvino_model,
}
"""Ours from everywhere that models come from, and what their authors would take in its place."""
