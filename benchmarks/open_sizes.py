"""Times programs for images of any size beside those of one size and other tools: batch 1.

    python -m benchmarks.open_sizes --output benchmarks/results/open-sizes.json

A network's program is compiled once, for the size that its images mostly have. All are timed side by side at
that size, half of it and twice in each dimension: the program, at the first size one that is for that alone,
torch and ONNX Runtime. On one thread the processor's time is measured, which a busy machine hardly changes,
on several the time that passes.
"""

from __future__ import annotations

import argparse
import io
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
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
    parser.add_argument("--output", type=Path, help="a JSON file, continued where it ended")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    torch.set_num_threads(options.threads)
    results = ResultsFile(options.output, "networks")
    for name in options.network:
        if name not in results.rows:
            with on_one_processor() if options.threads == 1 else nullcontext():
                results.add(name, _measured(OPEN_NETWORKS[name], options.threads, options.rounds))
            for size, milliseconds in results.rows[name].items():
                print(name, size, {tool: f"{each:.2f}" for tool, each in milliseconds.items()}, flush=True)


def _measured(network: OpenNetwork, threads: int, rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds by tool, by size."""
    model = network.network.calibrated()
    channels, *usual = network.network.input_shape
    example = torch.randn(1, channels, *usual)
    exported = torch.export.export(model, (example,), dynamic_shapes=(network.dimensions,))
    program = _loaded(iree.winograd.import_torch(exported), threads)
    file = io.BytesIO()
    axes = {"image": {dimension: f"size_{dimension}" for dimension in network.dimensions}}
    torch.onnx.export(model, (example,), file, dynamo=False, input_names=["image"], dynamic_axes=axes)
    measured = {}
    for times in _TIMES:
        size = network.usual(times)
        image = torch.randn(1, channels, *size)
        tools: dict[str, Callable[[], Any]] = {
            "open": lambda image=image: program(image.numpy()),
            "torch": lambda image=image: model(image),
            "onnxruntime": OnnxruntimeSession(file.getvalue(), image.numpy(), threads).run,
        }
        if times == 1:
            static = _loaded(iree.winograd.import_torch(model, image), threads)
            tools["static"] = lambda image=image, static=static: static(image.numpy())
        _check(tools["open"](), model(image))
        contenders = [Contender(tool, run) for tool, run in tools.items()]
        clock = time.process_time if threads == 1 else time.perf_counter
        timings = time_interleaved(contenders, rounds=rounds, burst_seconds=0.1, clock=clock)
        key = "x".join(map(str, size))
        measured[key] = {tool: 1e3 * timing.median for tool, timing in timings.items()}
    return measured


def _loaded(imported: Any, threads: int) -> Callable[..., Any]:
    program = iree.winograd.compile(imported, threads=threads)
    if threads == 1:
        return iree.winograd.load(program, device="local-sync")
    return iree.winograd.load(program, device="local-task", threads=threads)


def _check(results: Any, expected: Any) -> None:
    for result, exact in zip(pytree.tree_leaves(results), pytree.tree_leaves(expected), strict=True):
        error = np.abs(np.asarray(result) - exact.numpy()).max()
        assert error <= 1e-4 * float(exact.abs().max()), error


if __name__ == "__main__":
    main()
