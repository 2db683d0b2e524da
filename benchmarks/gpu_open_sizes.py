"""Images of several sizes on a GPU: one program of `torch.compile` for all beside those of one size.

    python -m benchmarks.gpu_open_sizes --jobs 11 --output build/gpu-open-sizes.json
    python -m benchmarks.gpu_open_sizes --jobs 11 --tools open static --limit 80
    python -m benchmarks.gpu_open_sizes --type f16 --network dncnn "unet, nearest" mobilenetv2

Each network is compiled for any height and width by our backend and by Inductor, and for each of three sizes
alone by our backend; eager torch takes all of them. Each network has a process of its own; these compile side
by side, and are timed one after the other when all have. All take turns at a size. Milliseconds are of a call
that waits for its end, and of its kernels, which the host doesn't slow down. Torch convolves in TF32, as it
does unless told otherwise, ours doesn't. Errors are against float64 in the 2-norm.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.compile_contenders import (
    OURS,
    allow_compilations,
    keep_inductors_cache_in,
    keep_our_cache_in,
)
from benchmarks.compile_then_time import CompiledNetwork
from benchmarks.gpu_device import device_name, keep_busy, kernel_facts, waiting
from benchmarks.gpu_network_tools import INDUCTOR
from benchmarks.isolation import answer_task, questions, side_by_side, tell
from benchmarks.results_file import ResultsFile
from benchmarks.timing import Contender, time_interleaved
from benchmarks.torch_compile_zoo import largest_error

TITLE = "gpu_open_sizes"
OPEN, STATIC, EAGER = "open", "static", "torch"
_TOOLS = (STATIC, OPEN, INDUCTOR, EAGER)
_TIMES = (1.0, 0.5, 2.0)
"""Sizes over those that images mostly have; the first is the one that is traced."""
_CALLS_TO_WARM = 3
TYPES = MappingProxyType({"f32": "float32", "f16": "float16", "bf16": "bfloat16"})
"""Torch's names of those of weights and images."""


@dataclass(frozen=True)
class Task:
    """A network, and the folder of all processes, in which theirs are."""

    network: str
    type: str
    tools: Sequence[str]
    device: str
    rounds: int
    folder: str


def main() -> None:
    if answer_task(lambda task: _work(Task(**task))):
        return
    from benchmarks.networks.open_sizes import OPEN_NETWORKS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", nargs="+", choices=OPEN_NETWORKS, default=list(OPEN_NETWORKS))
    parser.add_argument("--type", choices=TYPES, default="f32")
    parser.add_argument("--tools", nargs="+", choices=_TOOLS, default=list(_TOOLS))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=1, help="processes at once, at most one per core")
    parser.add_argument(
        "--limit", type=float, default=300, help="seconds to compile a network, and to time it"
    )
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    results = ResultsFile(options.output, TITLE)
    names = [name for name in options.network if name not in results.rows]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        compiled: dict[str, CompiledNetwork] = {}

        def compile(name: str, processors: frozenset[int]) -> None:
            task = asdict(Task(name, options.type, options.tools, options.device, options.rounds, folder))
            started = CompiledNetwork(
                "benchmarks.gpu_open_sizes", task, {}, processors=processors, seconds=options.limit
            )
            compiled[name] = stack.enter_context(started)
            print(f"{name} has compiled", flush=True)

        side_by_side(names, compile, jobs=options.jobs, seconds=options.limit)
        for name in (name for name in names if name in compiled):
            results.add(name, compiled[name].timed())
            print(name, results.rows[name], flush=True)


@dataclass(frozen=True)
class _AtSize:
    """What is called at one size, by tool, and what has been told of each."""

    calls: dict[str, Callable[[], Any]]
    records: dict[str, dict[str, Any]]


def _work(task: Task) -> None:
    own = str(Path(task.folder, task.network.replace(" ", "-")))
    keep_our_cache_in(own)
    keep_inductors_cache_in(own, INDUCTOR)
    import torch

    from benchmarks.networks.open_sizes import OPEN_NETWORKS

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    allow_compilations(2 + len(_TIMES))
    network = OPEN_NETWORKS[task.network]
    type_ = getattr(torch, TYPES[task.type])
    model = network.network.calibrated().to(task.device, type_)
    exact = copy.deepcopy(model).double()
    shapes = [(1, network.channels, *network.usual(times)) for times in _TIMES]
    images = [torch.randn(shape, device=task.device).to(type_) for shape in shapes]
    for image in images:
        for dimension in network.dimensions:
            torch._dynamo.mark_dynamic(image, dimension)
    row: dict[str, Any] = {
        "device": device_name(task.device),
        "torch": torch.__version__,
        "type": task.type,
        "sizes": {},
    }
    of_any_size: dict[str, Callable[..., Any]] = {
        OPEN: torch.compile(copy.deepcopy(model), backend=OURS),
        INDUCTOR: torch.compile(copy.deepcopy(model)),
        EAGER: model,
    }
    sizes: list[_AtSize] = []
    for image in images:
        of_one_size = torch.compile(copy.deepcopy(model), backend=OURS, dynamic=False)
        calls: dict[str, Callable[[], Any]] = {
            STATIC: partial(of_one_size, image.detach().clone()),
            **{name: partial(call, image) for name, call in of_any_size.items()},
        }
        calls = {name: calls[name] for name in task.tools}
        sizes.append(_compiled(calls, exact(image.double())))
        row["sizes"]["x".join(map(str, image.shape[2:]))] = sizes[-1].records
        tell({"row": row, "is_done": False})
    tell({"row": row, "is_done": True})
    for _ in questions():
        for size in sizes:
            _time(task, size)
        tell({"row": row, "is_done": True})


def _compiled(calls: dict[str, Callable[[], Any]], exact: Any) -> _AtSize:
    records: dict[str, dict[str, Any]] = {}
    ready: dict[str, Callable[[], Any]] = {}
    for name, call in calls.items():
        begin = time.perf_counter()
        try:
            result = call()
            records[name] = {"seconds": time.perf_counter() - begin}
            for _ in range(_CALLS_TO_WARM):
                call()
        except Exception as error:
            records[name] = {"failure": f"{type(error).__name__}: {str(error).strip()[:500]}"}
            continue
        records[name]["error"] = largest_error([result], [exact])
        ready[name] = call
    return _AtSize(ready, records)


def _time(task: Task, size: _AtSize) -> None:
    wait = waiting(task.device)
    keep_busy(task.device)
    contenders = [Contender(name, partial(_one, call, wait)) for name, call in size.calls.items()]
    timings = time_interleaved(contenders, rounds=task.rounds, burst_seconds=0.03)
    for name, timing in timings.items():
        size.records[name]["milliseconds"] = 1e3 * timing.median
    if task.device == "cuda":
        for name, call in size.calls.items():
            size.records[name].update(kernel_facts(call))


def _one(call: Callable[[], Any], wait: Callable[[], None]) -> None:
    call()
    wait()


if __name__ == "__main__":
    main()
