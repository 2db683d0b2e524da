"""Times programs for images of any size beside those of one size and other tools: batch 1.

    python -m benchmarks.open_sizes --output benchmarks/results/open-sizes.json
    python -m benchmarks.open_sizes --type bf16 --tools torch openvino --network mobilenetv2

A network's program is compiled once, for the size that its images mostly have. All are timed side by side at
that size, half of it and twice in each dimension: the program, one that is for that size alone, torch,
Inductor's code for any size, ONNX Runtime and OpenVINO. Arguments are bound beforehand, as tools do it
that can. On one thread the processor's time is measured, which a busy machine hardly changes, on several the
time that passes. Programs are kept in a folder, if one is given: several processes can compile them side by
side before one of them times them.

    python -m benchmarks.open_sizes --threads 16 --programs build/open-sizes --compile-only --network film

In half precision weights and images have the type that is asked for, in our programs and in torch. OpenVINO
is given the network in f32 and that type as its precision: for f16 it takes bf16 where a processor has no
units for it. ONNX Runtime has no kernels of half precision for CPUs.
"""

from __future__ import annotations

import argparse
import copy
import io
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import iree.winograd
import ml_dtypes
import numpy as np
import numpy.typing as npt
import torch
from torch.utils._pytree import tree_leaves

from benchmarks.compile_contenders import keep_inductors_cache_in
from benchmarks.compiled import bind_program
from benchmarks.networks.open_sizes import OPEN_NETWORKS, OpenNetwork
from benchmarks.one_processor import on_one_processor
from benchmarks.onnxruntime_session import OnnxruntimeSession
from benchmarks.openvino_request import OpenvinoRequest
from benchmarks.results_file import ResultsFile
from benchmarks.timing import Contender, time_interleaved

_TIMES = (1.0, 0.5, 2.0)
INDUCTOR = "inductor"
TOOLS = ("torch", INDUCTOR, "onnxruntime", "openvino")
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", nargs="+", choices=OPEN_NETWORKS, default=list(OPEN_NETWORKS))
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS), help="beside our programs")
    parser.add_argument("--type", choices=TYPES, default="f32", help="of weights and images")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--burst", type=float, default=0.1, help="seconds of a tool's turn in a round")
    parser.add_argument("--programs", type=Path, help="a folder in which programs are kept")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--output", type=Path, help="a JSON file, continued where it ended")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    torch.set_num_threads(options.threads)
    if options.programs is not None:
        keep_inductors_cache_in(str(options.programs), f"{INDUCTOR}-{options.threads}")
    if options.type != "f32" and "onnxruntime" in options.tools:
        parser.error("onnxruntime has no kernels of half precision for CPUs: leave it out of --tools")
    results = ResultsFile(options.output, "networks")
    for name in options.network:
        subject = _Subject(name, OPEN_NETWORKS[name], options.type, options.threads, options.programs)
        if options.compile_only:
            _compile_all(subject, options.tools)
        elif name not in results.rows:
            with on_one_processor() if options.threads == 1 else nullcontext():
                results.add(name, _measured(subject, options.tools, options.rounds, options.burst))
            for size, milliseconds in results.rows[name].items():
                print(name, size, {tool: f"{each:.2f}" for tool, each in milliseconds.items()}, flush=True)


def _compile_all(subject: _Subject, tools: Sequence[str]) -> None:
    """Everything that `_measured` compiles, and keeps in the subject's folder."""
    subject.open_program()
    for times in _TIMES:
        subject.static_program(times)
    if INDUCTOR in tools:
        for times in _TIMES:
            subject.inductor(subject.image(times))


@dataclass(frozen=True)
class _Subject:
    """A network and its programs, which are kept in a `folder` if there is one."""

    name: str
    network: OpenNetwork
    type: str
    threads: int
    folder: Path | None

    @cached_property
    def model(self) -> torch.nn.Module:
        return self.network.network.calibrated().to(TYPES[self.type])

    @cached_property
    def exact(self) -> torch.nn.Module:
        """The same weights in f64."""
        return copy.deepcopy(self.model).double()

    @cached_property
    def inductor(self) -> Callable[..., Any]:
        """The network as Inductor compiles it for any size, in its first call."""
        return torch.compile(self.model, dynamic=True)

    def image(self, times: float = 1) -> torch.Tensor:
        """One of so many times the size that images mostly have."""
        return torch.randn(1, self.network.channels, *self.network.usual(times)).to(TYPES[self.type])

    def size(self, times: float) -> str:
        """That of such an image."""
        return "x".join(map(str, self.network.usual(times)))

    def open_program(self) -> bytes:
        """That for all sizes."""
        return self._program("open", self.image(), {"dynamic_shapes": (self.network.dimensions,)})

    def static_program(self, times: float) -> bytes:
        """That for so many times the usual size alone."""
        return self._program(f"static-{self.size(times)}", self.image(times), {})

    def _program(self, kind: str, example: torch.Tensor, options: dict[str, Any]) -> bytes:
        path = None
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            of_type = "" if self.type == "f32" else f"{self.type}-"
            path = self.folder / f"{self.name.replace(' ', '-')}-{self.threads}-{of_type}{kind}.vmfb"
            if path.exists():
                return path.read_bytes()
        exported = torch.export.export(self.model, (example,), **options)
        program = iree.winograd.compile(iree.winograd.import_torch(exported), threads=self.threads)
        if path is not None:
            path.write_bytes(program)
        return program

    def onnx_file(self) -> bytes:
        """The network for all sizes, in f32."""
        file = io.BytesIO()
        axes = {"image": {dimension: f"size_{dimension}" for dimension in self.network.dimensions}}
        names = {"input_names": ["image"], "dynamic_axes": axes}
        model = copy.deepcopy(self.model).float()
        torch.onnx.export(model, (self.image().float(),), file, dynamo=False, **names)
        return file.getvalue()


def _measured(
    subject: _Subject, tools: Sequence[str], rounds: int, burst: float
) -> dict[str, dict[str, float]]:
    """Milliseconds by tool, by size."""
    onnx = subject.onnx_file() if {"onnxruntime", "openvino"}.intersection(tools) else b""
    measured = {}
    for times in _TIMES:
        image = subject.image(times)
        runs = {
            "open": _bound(subject, subject.open_program(), image),
            "static": _bound(subject, subject.static_program(times), image),
        }
        runs |= {tool: _run(tool, subject, onnx, image) for tool in tools}
        contenders = [Contender(tool, run) for tool, run in runs.items()]
        clock = time.process_time if subject.threads == 1 else time.perf_counter
        timings = time_interleaved(contenders, rounds=rounds, burst_seconds=burst, clock=clock)
        measured[subject.size(times)] = {tool: 1e3 * timing.median for tool, timing in timings.items()}
    return measured


def _run(tool: str, subject: _Subject, onnx: bytes, image: torch.Tensor) -> Callable[[], Any]:
    """An inference of the network in a tool of `TOOLS`, on this image."""
    if tool == "torch":
        return lambda: subject.model(image)
    if tool == INDUCTOR:
        return lambda: subject.inductor(image)
    if tool == "onnxruntime":
        return OnnxruntimeSession(onnx, image.numpy(), subject.threads).run
    import openvino

    model = openvino.Core().read_model(onnx)
    return OpenvinoRequest(model, image.float().numpy(), subject.threads, subject.type).run


def _bound(subject: _Subject, program: bytes, image: torch.Tensor) -> Callable[[], Any]:
    """A call of a program of ours on this image, which is checked once: as exact as torch, or nearly."""
    run, results = bind_program(program, _array(image), subject.threads)
    exact, rounded = (
        map(_array, tree_leaves(each)) for each in (subject.exact(image.double()), subject.model(image))
    )
    for result, wanted, by_torch in zip(results(), exact, rounded, strict=True):
        largest = np.abs(wanted).max()
        error, of_torch = (
            np.abs(each.astype(np.float64) - wanted).max() / largest for each in (result, by_torch)
        )
        assert error <= max(1e-4, 2 * of_torch), error
    return run


def _array(tensor: torch.Tensor) -> npt.NDArray[Any]:
    """The tensor as numpy has it, which lacks bf16."""
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


if __name__ == "__main__":
    main()
