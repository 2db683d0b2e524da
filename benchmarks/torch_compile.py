"""`torch.compile` with this project's backend beside Inductor and eager: calls, and the time to the first.

    python -m benchmarks.torch_compile --networks resnet18 mobilenetv2 --output build/torch-compile.json

For each network and number of threads, each backend compiles it in a process of its own with empty caches,
and again in another with those that the first left. In a third process all of them are loaded from their
caches, compared with eager in double precision, and timed in interleaved rounds. Inductor is timed by default
and with `max_autotune` and `freezing`, in both memory formats; the ratio is of the fastest of the others and
ours.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.isolation import answer_task, run_isolated
from benchmarks.networks.catalog import NETWORKS
from benchmarks.networks.pytorchcv_networks import member
from benchmarks.timing import Contender, time_interleaved

if TYPE_CHECKING:
    import torch

_SUBJECTS = {
    **NETWORKS,
    "densenet121": member("densenet121", (3, 224, 224)),
    "efficientnet": member("efficientnet_b0", (3, 224, 224)),
}
_OURS = "winograd"
_INDUCTORS: dict[str, dict[str, bool]] = {
    "inductor": {},
    "inductor-max-autotune": {"max_autotune": True, "freezing": True},
}
_COMPILED = (_OURS, *_INDUCTORS)
_EAGER = "eager"
_CHANNELS_LAST = "-channels-last"


@dataclass(frozen=True)
class Task:
    """A network to compile with one backend, or to time with all of them where that is None."""

    network: str
    threads: int
    batch: int
    rounds: int
    folder: str
    backend: str | None = None


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
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for network in options.networks:
        for threads in options.threads:
            with tempfile.TemporaryDirectory() as folder:
                task = Task(network, threads, options.batch, options.rounds, folder)
                rows.append(_row(task))
            print(_line(rows[-1]), flush=True)
            if options.output is not None:
                options.output.write_text(json.dumps({"torch_compile": rows}, indent=1) + "\n")
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        print(f"geometric mean of {len(ratios)}: {statistics.geometric_mean(ratios):.2f}x")


def _row(task: Task) -> dict[str, Any]:
    row: dict[str, Any] = {"network": task.network, "threads": task.threads, "batch": task.batch}
    for order in ("first", "second"):
        row[f"{order}_seconds"] = {
            backend: _run(Task(**{**asdict(task), "backend": backend})).get("seconds")
            for backend in _COMPILED
        }
    row.update(_run(task))
    medians = row.get("milliseconds")
    if medians is not None:
        best = min(value for name, value in medians.items() if not name.startswith(_OURS))
        row["ratio"] = best / min(value for name, value in medians.items() if name.startswith(_OURS))
    return row


def _run(task: Task) -> dict[str, Any]:
    outcome = run_isolated("benchmarks.torch_compile", asdict(task), threads=task.threads)
    if outcome.failure is not None:
        print(f"{task.network}, {task.backend or 'timing'}: {outcome.failure}", flush=True)
    return outcome.messages[-1] if outcome.messages else {}


def _line(row: dict[str, Any]) -> str:
    times = ", ".join(f"{name} {value:.2f}" for name, value in row.get("milliseconds", {}).items())
    waits = "; ".join(
        f"{order} process "
        + ", ".join(f"{name} {value:.1f}" for name, value in row[f"{order}_seconds"].items() if value)
        for order in ("first", "second")
    )
    ratio = f"{row['ratio']:.2f}x" if "ratio" in row else "failed"
    return (
        f"{row['network']}, {row['threads']} thread(s): {ratio}; ms: {times}; s to the first result: {waits}"
    )


def _work(task: Task) -> dict[str, Any]:
    os.environ["XDG_CACHE_HOME"] = str(Path(task.folder, _OURS))
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(task.folder, "inductor"))
    import torch

    torch.set_num_threads(task.threads)
    with torch.no_grad():
        model = _SUBJECTS[task.network].calibrated()
        images = _SUBJECTS[task.network].input(task.batch)
        if task.backend is None:
            return _time(task, model, images)
        begin = time.perf_counter()
        _compile(task.backend, model)(images)
        return {"seconds": time.perf_counter() - begin}


def _compile(backend: str, model: torch.nn.Module) -> Callable[..., Any]:
    import torch

    if backend == _OURS:
        compiled: Callable[..., Any] = torch.compile(model, backend=_OURS)
        return compiled
    return torch.compile(model, options=_INDUCTORS[backend])


def _time(task: Task, model: torch.nn.Module, images: torch.Tensor) -> dict[str, Any]:
    import copy

    import torch

    # All contenders are of one class, which torch would give up on after a few.
    torch._dynamo.config.recompile_limit = 8 * len(_COMPILED)
    exact = copy.deepcopy(model).double()(images.double())
    contenders, errors = [], {}
    for name in (_EAGER, *_COMPILED):
        for suffix, memory_format in (("", torch.contiguous_format), (_CHANNELS_LAST, torch.channels_last)):
            if suffix and images.dim() != 4:
                continue
            laid_out = copy.deepcopy(model).to(memory_format=memory_format)  # type: ignore[call-overload]
            arguments = images.to(memory_format=memory_format)
            function = laid_out if name == _EAGER else _compile(name, laid_out)
            result = function(arguments)
            errors[name + suffix] = float((result - exact).abs().max() / exact.abs().max())
            contenders.append(
                Contender(name + suffix, lambda run=function, given=arguments: run(given))  # type: ignore[misc]
            )
    timings = time_interleaved(contenders, rounds=task.rounds)
    return {
        "milliseconds": {name: 1e3 * timing.median for name, timing in timings.items()},
        "errors": errors,
    }


if __name__ == "__main__":
    main()
