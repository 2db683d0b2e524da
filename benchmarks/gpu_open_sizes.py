"""Images of several sizes on a GPU: one program of `torch.compile` for all beside those of one size.

    python -m benchmarks.gpu_open_sizes --jobs 11 --output build/gpu-open-sizes.json

Each network is compiled for any height and width by our backend and by Inductor, and for each of three sizes
alone by our backend; eager torch takes all of them. All take turns at a size, and calls wait for their ends.
Torch convolves in TF32, as it does unless told otherwise, ours doesn't. Milliseconds, and errors against
float64 in the 2-norm. Each network has a process of its own; these compile side by side, and what they time
they time one process at once.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.compile_contenders import (
    OURS,
    allow_compilations,
    keep_inductors_cache_in,
    keep_our_cache_in,
)
from benchmarks.gpu_networks import INDUCTOR, alone, device_name, keep_busy, waiting
from benchmarks.isolation import Limits, answer_task, run_isolated, side_by_side, tell
from benchmarks.results_file import ResultsFile
from benchmarks.timing import Contender, time_interleaved
from benchmarks.torch_compile_zoo import largest_error

TITLE = "gpu_open_sizes"
OPEN, STATIC, EAGER = "open", "static", "torch"
_TIMES = (1.0, 0.5, 2.0)
"""Sizes over those that images mostly have; the first is the one that is traced."""
_CALLS_TO_WARM = 3


@dataclass(frozen=True)
class Task:
    """A network, and the folder of all processes, in which theirs are and the lock."""

    network: str
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
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=1, help="processes at once, at most one per core")
    parser.add_argument("--limit", type=float, default=300, help="seconds for a network")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    results = ResultsFile(options.output, TITLE)
    with tempfile.TemporaryDirectory() as folder:

        def measure(name: str, processors: frozenset[int]) -> None:
            task = Task(name, options.device, options.rounds, folder)
            limits = Limits(options.limit, processors=processors)
            outcome = run_isolated("benchmarks.gpu_open_sizes", asdict(task), limits=limits)
            *_, row = [{}, *outcome.messages]
            results.add(name, row if outcome.failure is None else {**row, "failure": outcome.failure})
            print(name, results.rows[name], flush=True)

        names = [name for name in options.network if name not in results.rows]
        side_by_side(names, measure, jobs=options.jobs, seconds=options.limit)


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
    model = network.network.calibrated().to(task.device)
    exact = copy.deepcopy(model).double()
    images = [torch.randn(1, network.channels, *network.usual(times), device=task.device) for times in _TIMES]
    for image in images:
        for dimension in network.dimensions:
            torch._dynamo.mark_dynamic(image, dimension)
    row: dict[str, Any] = {"device": device_name(task.device), "torch": torch.__version__, "sizes": {}}
    compiled: dict[str, Callable[..., Any]] = {
        OPEN: torch.compile(copy.deepcopy(model), backend=OURS),
        INDUCTOR: torch.compile(copy.deepcopy(model)),
        EAGER: model,
    }
    for image in images:
        alone_at = torch.compile(copy.deepcopy(model), backend=OURS, dynamic=False)
        fixed = image.detach().clone()
        calls: Mapping[str, Callable[[], Any]] = {
            STATIC: partial(alone_at, fixed),
            **{name: partial(call, image) for name, call in compiled.items()},
        }
        size = "x".join(map(str, image.shape[2:]))
        row["sizes"][size] = _measured(task, calls, exact(image.double()))
        tell(row)


def _measured(task: Task, calls: Mapping[str, Callable[[], Any]], exact: Any) -> dict[str, dict[str, Any]]:
    """What is told of each tool at one size."""
    records: dict[str, dict[str, Any]] = {}
    wait = waiting(task.device)
    contenders = []
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
        contenders.append(Contender(name, partial(_one, call, wait)))
    with alone(task.folder, task.device):
        keep_busy(task.device)
        timings = time_interleaved(contenders, rounds=task.rounds, burst_seconds=0.03)
    for name, timing in timings.items():
        records[name]["milliseconds"] = 1e3 * timing.median
    return records


def _one(call: Callable[[], Any], wait: Callable[[], None]) -> None:
    call()
    wait()


if __name__ == "__main__":
    main()
