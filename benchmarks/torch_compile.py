"""`torch.compile` with this project's backend beside Inductor and eager: calls, and the time to the first.

    python -m benchmarks.torch_compile --networks resnet18 mobilenetv2 --output build/torch-compile.json
    python -m benchmarks.torch_compile --device cuda --machine benchmarks/results/machine-h200.json

For each network and number of threads, each backend compiles it in a process of its own with empty caches,
and again in another with those that the first left. In a third process all of them are loaded from their
caches, compared with eager in double precision, and timed in interleaved rounds, until the device is done.
On CPUs Inductor is timed by default and with `max_autotune` and `freezing`, on GPUs with CUDA graphs, with
and without `freezing`, TF32 off and cuDNN's own search on; in both memory formats. The ratio is of the
fastest of the others and ours.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.compile_contenders import (
    EAGER,
    OURS,
    allow_compilations,
    answer_of,
    keep_inductors_cache_in,
    keep_our_cache_in,
    ratio,
)
from benchmarks.isolation import answer_task
from benchmarks.networks.catalog import NETWORKS
from benchmarks.networks.convnext import ConvNeXt
from benchmarks.networks.network import Network
from benchmarks.networks.pytorchcv_networks import flattening, member
from benchmarks.timing import Contender, time_interleaved

if TYPE_CHECKING:
    import torch

_SUBJECTS = {
    **NETWORKS,
    "convnext": Network(ConvNeXt, (3, 224, 224)),
    "densenet121": member("densenet121", (3, 224, 224)),
    "efficientnet": member("efficientnet_b0", (3, 224, 224)),
    "vgg16": flattening("vgg16", (3, 224, 224)),
}
_INDUCTORS: dict[str, dict[str, dict[str, bool]]] = {
    "cpu": {"inductor": {}, "inductor-max-autotune": {"max_autotune": True, "freezing": True}},
    "cuda": {
        "inductor-graphs": {"triton.cudagraphs": True},
        "inductor-graphs-freezing": {"triton.cudagraphs": True, "freezing": True},
    },
}
_LAYOUTS = {"nchw": "contiguous_format", "nhwc": "channels_last"}
"""Torch's names of the layouts."""


@dataclass(frozen=True)
class Task:
    """A network to compile with one backend, or to time with all of them where that is None."""

    network: str
    threads: int
    batch: int
    rounds: int
    layouts: tuple[str, ...]
    device: str
    machine: str | None
    folder: str
    backend: str | None = None

    @property
    def backends(self) -> tuple[str, ...]:
        """Those that compile."""
        return (OURS, *_INDUCTORS[self.device])


def main() -> None:
    if answer_task(lambda task: _work(Task(**task))):
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", nargs="+", choices=_SUBJECTS, default=["resnet18"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--layouts", nargs="+", choices=_LAYOUTS, default=list(_LAYOUTS))
    parser.add_argument("--device", choices=_INDUCTORS, default="cpu")
    parser.add_argument("--machine", help="what times are predicted for, as `calibrate` wrote it")
    parser.add_argument("--caches", type=Path, help="keep the caches in this folder")
    parser.add_argument("--only-times", action="store_true", help="time what an earlier run left in --caches")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for network in options.networks:
        for threads in options.threads:
            with tempfile.TemporaryDirectory() as temporary:
                folder = options.caches / f"{network}-{threads}" if options.caches else temporary
                task = Task(
                    network,
                    threads,
                    options.batch,
                    options.rounds,
                    tuple(options.layouts),
                    options.device,
                    options.machine,
                    str(folder),
                )
                rows.append(_row(task, options.only_times))
            print(_line(rows[-1]), flush=True)
            if options.output is not None:
                options.output.write_text(json.dumps({"torch_compile": rows}, indent=1) + "\n")
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        print(f"geometric mean of {len(ratios)}: {statistics.geometric_mean(ratios):.2f}x")


def _row(task: Task, only_times: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "network": task.network,
        "threads": task.threads,
        "batch": task.batch,
        "device": task.device,
    }
    for order in () if only_times else ("first", "second"):
        row[f"{order}_seconds"] = {
            backend: _run(Task(**{**asdict(task), "backend": backend})).get("seconds")
            for backend in task.backends
        }
    row.update(_run(task))
    if (found := ratio(row.get("milliseconds", {}))) is not None:
        row["ratio"] = found
    return row


def _run(task: Task) -> dict[str, Any]:
    subject = f"{task.network}, {task.backend or 'timing'}"
    return answer_of("benchmarks.torch_compile", asdict(task), task.threads, subject)


def _line(row: dict[str, Any]) -> str:
    times = ", ".join(f"{name} {value:.2f}" for name, value in row.get("milliseconds", {}).items())
    waits = "; ".join(
        f"{order} process "
        + ", ".join(f"{name} {value:.1f}" for name, value in row[f"{order}_seconds"].items() if value)
        for order in ("first", "second")
        if f"{order}_seconds" in row
    )
    ratio = f"{row['ratio']:.2f}x" if "ratio" in row else "failed"
    return (
        f"{row['network']}, {row['threads']} thread(s): {ratio}; ms: {times}; s to the first result: {waits}"
    )


def _work(task: Task) -> dict[str, Any]:
    keep_our_cache_in(task.folder)
    import torch

    torch.set_num_threads(task.threads)
    with torch.no_grad():
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        model = _SUBJECTS[task.network].calibrated().to(task.device)
        images = _SUBJECTS[task.network].input(task.batch).to(task.device)
        if task.backend is None:
            return _time(task, model, images)
        begin = time.perf_counter()
        _compile(task, task.backend, model)(images).cpu()
        return {"seconds": time.perf_counter() - begin}


def _compile(task: Task, backend: str, model: torch.nn.Module) -> Callable[..., Any]:
    import torch

    keep_inductors_cache_in(task.folder, backend)
    if backend == OURS:
        options = {} if task.machine is None else {"machine": task.machine}
        compiled: Callable[..., Any] = torch.compile(model, backend=OURS, options=options)
        return compiled
    return torch.compile(model, options=_INDUCTORS[task.device][backend])


def _time(task: Task, model: torch.nn.Module, images: torch.Tensor) -> dict[str, Any]:
    import copy

    import torch

    allow_compilations(len(task.backends))
    wait = torch.cuda.synchronize if task.device == "cuda" else lambda: None
    exact = copy.deepcopy(model).double()(images.double())
    contenders, errors = [], {}
    for name in (EAGER, *task.backends):
        for layout in task.layouts:
            memory_format = getattr(torch, _LAYOUTS[layout])
            laid_out = copy.deepcopy(model).to(memory_format=memory_format)
            arguments = images.to(memory_format=memory_format)
            function = laid_out if name == EAGER else _compile(task, name, laid_out)
            result = function(arguments)
            contender = f"{name}-{layout}"
            errors[contender] = float((result - exact).abs().max() / exact.abs().max())
            contenders.append(Contender(contender, partial(_call, function, arguments, wait)))
    timings = time_interleaved(contenders, rounds=task.rounds)
    return {
        "milliseconds": {name: 1e3 * timing.median for name, timing in timings.items()},
        "errors": errors,
    }


def _call(function: Callable[..., Any], arguments: torch.Tensor, wait: Callable[[], None]) -> None:
    function(arguments)
    wait()


if __name__ == "__main__":
    main()
