"""Times programs for images of any size beside those of one size and other tools: batch 1.

    python -m benchmarks.open_sizes --output benchmarks/results/open-sizes.json

A network's program is compiled once, for the size that its images mostly have. All are timed side by side at
that size, half of it and twice in each dimension: the program, at the first size one that is for that alone,
torch and ONNX Runtime. On one thread the processor's time is measured, which a busy machine hardly changes,
on several the time that passes. Programs are kept in a folder, if one is given: several processes can compile
them side by side before one of them times them.

    python -m benchmarks.open_sizes --threads 16 --programs build/open-sizes --compile-only --network film
"""

from __future__ import annotations

import argparse
import io
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import iree.winograd
import numpy as np
import torch
from torch.utils import _pytree as pytree

from benchmarks.networks.open_sizes import OPEN_NETWORKS, OpenNetwork
from benchmarks.one_processor import on_one_processor
from benchmarks.onnxruntime_session import OnnxruntimeSession
from benchmarks.results_file import ResultsFile
from benchmarks.timing import Contender, time_interleaved

_TIMES = (1.0, 0.5, 2.0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", nargs="+", choices=OPEN_NETWORKS, default=list(OPEN_NETWORKS))
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
    results = ResultsFile(options.output, "networks")
    for name in options.network:
        subject = _Subject(name, OPEN_NETWORKS[name], options.threads, options.programs)
        if options.compile_only:
            subject.open_program()
            subject.static_program()
        elif name not in results.rows:
            with on_one_processor() if options.threads == 1 else nullcontext():
                results.add(name, _measured(subject, options.rounds, options.burst))
            for size, milliseconds in results.rows[name].items():
                print(name, size, {tool: f"{each:.2f}" for tool, each in milliseconds.items()}, flush=True)


@dataclass(frozen=True)
class _Subject:
    """A network and its programs, which are kept in a `folder` if there is one."""

    name: str
    network: OpenNetwork
    threads: int
    folder: Path | None

    @cached_property
    def model(self) -> torch.nn.Module:
        return self.network.network.calibrated()

    @cached_property
    def example(self) -> torch.Tensor:
        """An image of the size that they mostly have."""
        return torch.randn(1, *self.network.network.input_shape)

    def open_program(self) -> bytes:
        """That for all sizes."""
        return self._program("open", {"dynamic_shapes": (self.network.dimensions,)})

    def static_program(self) -> bytes:
        """That for the usual size alone."""
        return self._program("static", {})

    def _program(self, kind: str, options: dict[str, Any]) -> bytes:
        path = None
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{self.name.replace(' ', '-')}-{self.threads}-{kind}.vmfb"
            if path.exists():
                return path.read_bytes()
        exported = torch.export.export(self.model, (self.example,), **options)
        program = iree.winograd.compile(iree.winograd.import_torch(exported), threads=self.threads)
        if path is not None:
            path.write_bytes(program)
        return program

    def onnx_file(self) -> bytes:
        """The network for all sizes."""
        file = io.BytesIO()
        axes = {"image": {dimension: f"size_{dimension}" for dimension in self.network.dimensions}}
        names = {"input_names": ["image"], "dynamic_axes": axes}
        torch.onnx.export(self.model, (self.example,), file, dynamo=False, **names)
        return file.getvalue()


def _measured(subject: _Subject, rounds: int, burst: float) -> dict[str, dict[str, float]]:
    """Milliseconds by tool, by size."""
    threads, model = subject.threads, subject.model
    program, onnx = _loaded(subject.open_program(), threads), subject.onnx_file()
    measured = {}
    for times in _TIMES:
        size = subject.network.usual(times)
        image = torch.randn(1, subject.network.channels, *size)
        tools: dict[str, Callable[[], Any]] = {
            "open": lambda image=image: program(image.numpy()),
            "torch": lambda image=image: model(image),
            "onnxruntime": OnnxruntimeSession(onnx, image.numpy(), threads).run,
        }
        if times == 1:
            static = _loaded(subject.static_program(), threads)
            tools["static"] = lambda image=image, static=static: static(image.numpy())
        _check(tools["open"](), model(image))
        contenders = [Contender(tool, run) for tool, run in tools.items()]
        clock = time.process_time if threads == 1 else time.perf_counter
        timings = time_interleaved(contenders, rounds=rounds, burst_seconds=burst, clock=clock)
        key = "x".join(map(str, size))
        measured[key] = {tool: 1e3 * timing.median for tool, timing in timings.items()}
    return measured


def _loaded(program: bytes, threads: int) -> Callable[..., Any]:
    if threads == 1:
        return iree.winograd.load(program, device="local-sync")
    return iree.winograd.load(program, device="local-task", threads=threads)


def _check(results: Any, expected: Any) -> None:
    for result, exact in zip(pytree.tree_leaves(results), pytree.tree_leaves(expected), strict=True):
        error = np.abs(np.asarray(result) - exact.numpy()).max()
        assert error <= 1e-4 * float(exact.abs().max()), error


if __name__ == "__main__":
    main()
