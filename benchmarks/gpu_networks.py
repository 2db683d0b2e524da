"""Whole networks on a GPU as users call them: `torch.compile(backend="winograd")` beside Inductor.

    python -m benchmarks.gpu_networks --jobs 7 --budget 250 --output build/gpu-networks.json
    python -m benchmarks.gpu_networks --types f16 bf16 --jobs 7 --budget 250 --output build/gpu-half.json
    python -m benchmarks.gpu_networks --batches 1 --tools winograd winograd-fewer-guards winograd-loaded
    python -m benchmarks.gpu_networks --networks timm_resnet18 --device cpu     (a trial, without a GPU)

Ours takes and gives f32, Inductor computes in TF32 as it is and with CUDA graphs
(`mode="reduce-overhead"`), with those in fp16 too, and with cuDNN's own search; `inductor-max-autotune`
searches for kernels first, which takes minutes. All get the same images, channels last. With `--types f16`
or `bf16` the network is of that type in all tools, and `eager_error` is that of torch in it. Each network,
batch and type has its own process, on one of the `--gpus`, and another one for each of the tools that tell
what torch takes of a call of ours: `winograd-fewer-guards` has `iree.winograd.fewer_guards`, to which two
models of one process are one, and `winograd-loaded` is the program of `import_torch`, called without torch's
compiler. These compile side by side. When all have, the host does nothing else but to time them, one at once
on each GPU, which is kept busy before. Milliseconds are of a call that waits for its end, of what the host
takes of it before it returns, of one of several in a chain, and of its kernels, of which those that take
most of a call are listed. Errors are |result - exact| / |exact| in the 2-norm, against float64 on the
same device: the geometric mean of those of eight images, or of as many batches as have eight, since that of
one image is chance in half precision. What our backend leaves to the fallback is listed. Networks whose
library isn't installed fail by that alone; those that the output already has are skipped, so that a run can
be continued.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import math
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iree.winograd.pipelines.machines.host import one_processor_per_core

from benchmarks.compile_contenders import (
    OURS,
    allow_compilations,
    keep_inductors_cache_in,
    keep_our_cache_in,
)
from benchmarks.compile_then_time import CompiledNetwork
from benchmarks.gpu_device import (
    allow_tf32,
    alone,
    device_name,
    free_memory,
    keep_busy,
    kernel_facts,
    waiting,
)
from benchmarks.gpu_network_tools import (
    GRAPHS,
    HALF_GRAPHS,
    INDUCTOR,
    TOOLS,
    TYPES,
    as_type,
    prepared,
    processes,
    taken,
    tools_for,
)
from benchmarks.isolation import answer_task, questions, side_by_side, tell
from benchmarks.results_file import ResultsFile
from benchmarks.timing import Contender, time_interleaved
from benchmarks.torch_compile_zoo import largest_error

if TYPE_CHECKING:
    import torch

    from benchmarks.networks.network import Network

TITLE = "gpu_networks"

_CHAINED = 10
"""Calls that follow each other without waiting."""
_CALLS_TO_WARM = 4
"""By which Inductor has recorded its CUDA graphs."""
_HOST_CALLS = 100
"""Calls of which the host's part is timed."""
_ERROR_IMAGES = 8
"""Of which errors are taken."""
_ERROR_SECONDS = 3.0
"""After which no further images are computed in float64."""
_MOST_MEMORY = 0.2
"""Of a GPU's, that a process may have from torch: cuDNN's search tries what takes most of what there is."""


@dataclass(frozen=True)
class Task:
    """A network to call with a batch on a GPU, whose processes share the lock in `folder`."""

    network: str
    batch: int
    type: str
    tools: Sequence[str]
    device: str
    rounds: int
    burst_seconds: float
    folder: str
    gpu: int = 0


@dataclass(frozen=True)
class _Sample:
    """Inputs of a network, and what it gives for them in float64."""

    inputs: Sequence[torch.Tensor]
    exact: Any


@dataclass
class _Row:
    """What is told of a network so far."""

    facts: dict[str, Any]
    tools: dict[str, dict[str, Any]] = field(default_factory=dict)

    def tell(self, *, is_done: bool = False) -> None:
        tell({"row": {**self.facts, "tools": self.tools}, "is_done": is_done})


def main() -> None:
    if answer_task(lambda task: _work(Task(**task))):
        return
    from benchmarks.networks.gpu import NETWORKS, PARTS, batches
    from benchmarks.tables.gpu_calls import called_networks

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = {**NETWORKS, **PARTS}
    parser.add_argument("--networks", nargs="+", choices=known, default=list(NETWORKS), metavar="NETWORK")
    parser.add_argument("--batches", nargs="+", type=int, help="by default 1 and 32, 1 of large images")
    parser.add_argument("--types", nargs="+", choices=TYPES, default=["f32"])
    parser.add_argument(
        "--tools", nargs="+", choices=TOOLS, default=[OURS, GRAPHS, INDUCTOR, HALF_GRAPHS], metavar="TOOL"
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--burst", type=float, default=0.03, help="seconds of a tool's turn in a round")
    parser.add_argument("--jobs", type=int, default=1, help="that compile at once, at most one per core")
    parser.add_argument("--gpus", type=int, default=1, help="that networks are divided between")
    parser.add_argument(
        "--limit", type=float, default=300, help="seconds to compile a network, and to time it"
    )
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which none is begun")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    results = ResultsFile(options.output, TITLE)
    # Small batches first: each network has been called once before any is for the second time.
    counts = [options.batches or batches(known[name]) for name in options.networks]
    subjects = {
        f"{name} x{batch}" + ("" if type_ == "f32" else f" {type_}"): (name, batch, type_)
        for turn in range(max(map(len, counts)))
        for name, of_network in zip(options.networks, counts, strict=True)
        for batch in of_network[turn : turn + 1]
        for type_ in options.types
    }
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        tasks: dict[str, Task] = {}
        subject_of: dict[str, str] = {}
        for number, subject in enumerate(each for each in subjects if each not in results.rows):
            network, batch, type_ = subjects[subject]
            gpu = number % options.gpus
            rest = (options.device, options.rounds, options.burst, str(Path(folder, str(gpu))), gpu)
            for tools in processes(options.tools):
                process = f"{subject} by {', '.join(tools)}"
                subject_of[process] = subject
                tasks[process] = Task(network, batch, type_, tools, *rest)
        compiled: dict[str, CompiledNetwork] = {}

        def compile(process: str, processors: frozenset[int]) -> None:
            compiled[process] = stack.enter_context(_compiled(tasks[process], processors, options.limit))
            print(f"{process}: {_summary(compiled[process].row)}", flush=True)

        def measure(gpu: int) -> None:
            for process in (each for each, task in tasks.items() if task.gpu == gpu and each in compiled):
                row, subject = compiled[process].timed(), subject_of[process]
                results.add(subject, _merged(results.rows.get(subject), row, tasks[process].tools))
                print(f"{process}: {_summary(row)}", flush=True)

        # A network of some hundred kernels has enough to compile for several processors.
        threads = max(1, len(one_processor_per_core()) // options.jobs)
        side_by_side(tasks, compile, jobs=options.jobs, seconds=options.budget, threads=threads)
        with ThreadPoolExecutor(options.gpus) as pool:
            for finished in [pool.submit(measure, gpu) for gpu in range(options.gpus)]:
                finished.result()
    print("\n".join(called_networks([{TITLE: results.rows}])))


def _compiled(task: Task, processors: frozenset[int], seconds: float) -> CompiledNetwork:
    facts = {"network": task.network, "batch": task.batch, "type": task.type}
    gpu = task.gpu if task.device == "cuda" else None
    return CompiledNetwork(
        "benchmarks.gpu_networks", asdict(task), facts, processors=processors, seconds=seconds, gpu=gpu
    )


def _merged(before: Mapping[str, Any] | None, row: Mapping[str, Any], tools: Sequence[str]) -> dict[str, Any]:
    """The row of a network with what another process tells of some of its tools."""
    if before is None:
        return dict(row)
    told = row.get("tools", {})
    if "failure" in row:
        told = {name: {"failure": row["failure"], **told.get(name, {})} for name in tools}
    return {**before, "tools": {**before.get("tools", {}), **told}}


def _summary(row: Mapping[str, Any]) -> str:
    tools = row.get("tools", {})
    parts = [
        f"{name} {each['milliseconds']:.2f} ms" for name, each in tools.items() if "milliseconds" in each
    ]
    parts += [f"{name}: {each['failure'][:200]}" for name, each in tools.items() if "failure" in each]
    if "error" in tools.get(OURS, {}):
        parts.append(f"error {tools[OURS]['error']:.1e}, torch's {row['eager_error']:.1e}")
    parts += [str(warning)[:200] for warning in row.get("left", ())]
    return "; ".join([*parts, *([row["failure"]] if "failure" in row else [])])


def _work(task: Task) -> None:
    Path(task.folder).mkdir(exist_ok=True)
    own = str(Path(task.folder, f"{task.network}-{task.batch}-{task.type}"))
    keep_our_cache_in(own)
    keep_inductors_cache_in(own, INDUCTOR)
    import torch

    from benchmarks.networks.gpu import NETWORKS, PARTS

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    if task.device == "cuda":
        torch.cuda.set_per_process_memory_fraction(_MOST_MEMORY)
    tools = tools_for(task.tools, task.type)
    allow_compilations(len(tools))
    network, type_ = {**NETWORKS, **PARTS}[task.network], getattr(torch, TYPES[task.type])
    model = network.calibrated()
    model = model.to(task.device, type_)
    row = _Row({"device": device_name(task.device), "torch": torch.__version__})
    allow_tf32(False)
    with alone(task.folder, task.device):
        samples = _samples(network, task.batch, model, task.device, type_)
        row.facts |= {"eager_error": _error(model, samples), "error_samples": len(samples)}
        torch.cuda.empty_cache()
    row.tell()
    # What is compared with needs no search.
    torch.backends.cudnn.benchmark = True
    runs = {}
    for name, tool in tools.items():
        record = row.tools[name] = {}
        begin = time.perf_counter()
        try:
            first = taken(tool, samples[0].inputs)
            with _noted_warnings() as left:
                call = prepared(tool, model, first)
                call(*first)
            record["seconds"] = time.perf_counter() - begin
            record["error"] = _error(
                lambda *inputs, tool=tool, call=call: call(*taken(tool, inputs)), samples
            )
            run = partial(call, *first)
            for _ in range(_CALLS_TO_WARM):
                run()
        except Exception as error:
            record["failure"] = f"{type(error).__name__}: {str(error).strip()[:1000]}"
        else:
            runs[name] = run
            if name == OURS:
                row.facts["left"] = left
        row.tell()
    del samples
    free_memory(task.device)
    row.tell(is_done=True)
    for _ in questions():
        _time(task, runs, row)
        row.tell(is_done=True)


def _samples(
    network: Network, batch: int, model: torch.nn.Module, device: str, type_: torch.dtype
) -> list[_Sample]:
    """Those of which errors are taken: as many as have enough images, unless these take long."""
    import torch

    samples: list[_Sample] = []
    exact, begin = copy.deepcopy(model).double(), time.perf_counter()
    while len(samples) * batch < _ERROR_IMAGES and (
        not samples or time.perf_counter() - begin < _ERROR_SECONDS
    ):
        inputs = [as_type(each.to(device), type_) for each in network.inputs(batch)]
        samples.append(_Sample(inputs, exact(*(as_type(each, torch.float64) for each in inputs))))
        waiting(device)()
    return samples


def _error(call: Callable[..., Any], samples: Sequence[_Sample]) -> float:
    """The geometric mean over samples of the error of what `call` gives."""
    # A tool may leave a result where that of the next call will be.
    return statistics.geometric_mean(
        largest_error([call(*sample.inputs)], [sample.exact]) for sample in samples
    )


def _time(task: Task, runs: Mapping[str, Callable[[], Any]], row: _Row) -> None:
    wait = waiting(task.device)

    def several(run: Callable[[], Any]) -> None:
        for _ in range(_CHAINED):
            run()
        wait()

    def one(run: Callable[[], Any]) -> None:
        run()
        wait()

    keep_busy(task.device)
    for fact, call, count in (("milliseconds", one, 1), ("chained", several, _CHAINED)):
        timings = time_interleaved(
            [Contender(name, partial(call, run)) for name, run in runs.items()],
            rounds=task.rounds,
            burst_seconds=task.burst_seconds,
        )
        for name, timing in timings.items():
            row.tools[name][fact] = 1e3 * timing.median / count
        row.tell()
    if task.device == "cuda":
        for name, run in runs.items():
            row.tools[name]["host_milliseconds"] = 1e3 * _host_seconds(run, wait)
            row.tools[name].update(kernel_facts(run))
            row.tell()


def _host_seconds(run: Callable[[], Any], wait: Callable[[], None]) -> float:
    """What a call takes until it returns, on a GPU that has nothing to do."""
    seconds: list[float] = []
    for _ in range(_HOST_CALLS):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
        wait()
    return statistics.median(seconds)


@contextlib.contextmanager
def _noted_warnings() -> Iterator[list[str]]:
    """What is left to the fallback, each once."""
    from iree.winograd.torch_compile.fallback_warning import FallbackWarning

    left: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", FallbackWarning)
        yield left
    left += dict.fromkeys(str(each.message) for each in caught)


if __name__ == "__main__":
    main()
