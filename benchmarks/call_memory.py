"""What memory a call takes in a process that does nothing else, as a server's does.

It is the most that the process has in a call beyond what it had once the tool's library was imported: the
program with its weights, activations, and what the tool keeps. What compiled it isn't in the process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.convolutions import Array
from benchmarks.memory import resident_bytes, with_peak

Run = Callable[[], Any]


def of_program(tool: str, program: Path, images: Array, threads: int) -> int:
    """Bytes for `program`, the file that `tool` loads. Raises KeyError for a tool that has none."""
    return of_call(_BINDERS[tool]()(program, images, threads))


def of_call(bind: Callable[[], Run]) -> int:
    """Bytes for what `bind` makes, in a call after the first."""
    before = resident_bytes()
    run = bind()
    run()
    _, peak = with_peak(run)
    return peak - before


def _winograd() -> Callable[[Path, Array, int], Callable[[], Run]]:
    from benchmarks.compiled import bind_program

    return lambda program, images, threads: lambda: bind_program(program, images, threads)[0]


def _onnxruntime() -> Callable[[Path, Array, int], Callable[[], Run]]:
    import onnxruntime  # noqa: F401

    from benchmarks.onnxruntime_session import OnnxruntimeSession

    return lambda program, images, threads: lambda: OnnxruntimeSession(program, images, threads).run


def _openvino() -> Callable[[Path, Array, int], Callable[[], Run]]:
    import openvino

    from benchmarks.openvino_request import OpenvinoRequest

    return lambda program, images, threads: (
        lambda: OpenvinoRequest(openvino.Core().read_model(program), images, threads).run
    )


_BINDERS = {
    "ours": _winograd,
    "ours-onnx": _winograd,
    "ours-onnx-dynamo": _winograd,
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
}
