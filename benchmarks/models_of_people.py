"""Compares every way to run the models that people bring: right, how fast, and in how much memory?

    python -m benchmarks.models_of_people --jobs 14 --output benchmarks/results/models-of-people.json

Batch 1. Ours is what `import_torch`, the ONNX of both of torch's exporters and `torch.compile` give; beside
it are torch's eager mode and Inductor, ONNX Runtime and OpenVINO. Each model has a process of its own on
cores of its own, in which all tools take turns; one that doesn't end, or ends the process, is left out and
the others are measured again. Then each tool that loads a file, and torch's eager mode, has its memory
measured in a process without compilers (`benchmarks/call_memory.py`). Models that the output already has are
skipped, so that a run can be continued, and those whose library isn't installed fail by themselves. With
`--seconds 0` nothing is timed. `--processor-time` is for a machine that does other work, and one thread.

Multiply-adds in registers take turns with the tools: what the processor reaches at most meanwhile, beside
the multiplications and additions that the model asks for.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import call_memory
from benchmarks.isolation import Limits, answer_task, compared, run_isolated, side_by_side, tell
from benchmarks.results_file import ResultsFile
from benchmarks.tool_records import in_a_line

if TYPE_CHECKING:
    import torch

TITLE = "models_of_people"
_MODULE = "benchmarks.models_of_people"
_EAGER = "torch"
_IMAGES = "images.npy"
_BURST_SECONDS = 0.1
_LEAST_ROUNDS = 5


@dataclass(frozen=True)
class Task:
    """A model to compare `tools` on, timing them for `seconds`, and the folder of caches."""

    model: str
    tools: tuple[str, ...]
    threads: int
    seconds: float
    processor_time: bool
    folder: str


@dataclass(frozen=True)
class MemoryTask:
    """What a call of `model` takes in `tool`, whose program, if it has one, is in `folder`."""

    model: str
    tool: str
    threads: int
    folder: str

    @property
    def program(self) -> Path:
        return Path(self.folder, f"{self.tool}.program")


def main() -> None:
    if answer_task(_answer):
        return
    options = _parse_arguments()
    results = ResultsFile(options.output, TITLE)
    end = time.monotonic() + options.budget
    for threads in options.threads:
        names = [name for name in options.models if _key(name, threads) not in results.rows]

        def compare(name: str, processors: frozenset[int], threads: int = threads) -> None:
            row = _row(name, threads, options, processors)
            results.add(_key(name, threads), row)
            print(f"{_key(name, threads)}: {in_a_line(row)}", flush=True)

        seconds = end - time.monotonic()
        side_by_side(names, compare, jobs=options.jobs, seconds=seconds, threads=threads)


def _parse_arguments() -> argparse.Namespace:
    from benchmarks.model_tools import WITH_EXPORTERS
    from benchmarks.networks.people import MODELS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), metavar="MODEL")
    parser.add_argument("--tools", nargs="+", choices=WITH_EXPORTERS, default=list(WITH_EXPORTERS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--jobs", type=int, default=1, help="models at once, at most one per core")
    parser.add_argument("--seconds", type=float, default=10, help="of timing a model")
    parser.add_argument("--processor-time", action="store_true", help="in place of time that passes")
    parser.add_argument("--limit", type=float, default=900, help="seconds for a model, all in all")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which none is begun")
    parser.add_argument("--memory", type=float, default=16, help="GiB for a model")
    parser.add_argument(
        "--output", type=Path, help="a JSON file, e.g. benchmarks/results/models-of-people.json"
    )
    options = parser.parse_args()
    if options.processor_time and options.threads != [1]:
        parser.error("--processor-time is that of all threads: it needs --threads 1")
    return options


def _key(model: str, threads: int) -> str:
    return f"{model}, {threads} thread{'s' if threads > 1 else ''}"


def _row(model: str, threads: int, options: argparse.Namespace, processors: frozenset[int]) -> dict[str, Any]:
    limits = Limits(options.limit, int(options.memory * 2**30), processors)
    with tempfile.TemporaryDirectory() as folder:

        def task(tools: tuple[str, ...]) -> dict[str, Any]:
            return asdict(Task(model, tools, threads, options.seconds, options.processor_time, folder))

        row = compared(_MODULE, task, options.tools, threads=threads, limits=limits)
        for tool, record in row["tools"].items():
            memory_task = MemoryTask(model, tool, threads, folder)
            if "failure" not in record and (tool == _EAGER or memory_task.program.exists()):
                outcome = run_isolated(_MODULE, asdict(memory_task), threads=threads, limits=limits)
                failure = {"memory_failure": outcome.failure}
                record |= outcome.messages[-1] if outcome.failure is None else failure
    return {"model": model, "threads": threads, **row}


def _answer(task: dict[str, Any]) -> dict[str, Any] | None:
    if "tool" in task:
        return {"memory": _memory(MemoryTask(**task))}
    _work(Task(**task))
    return None


def _memory(task: MemoryTask) -> int:
    if task.tool != _EAGER:
        return call_memory.of_program(
            task.tool, task.program, np.load(Path(task.folder, _IMAGES)), task.threads
        )
    import torch

    from benchmarks.model_tools import torch_eager
    from benchmarks.networks.people import MODELS
    from benchmarks.subject import Subject

    torch.set_grad_enabled(False)
    # The tool takes a copy, so that weights count.
    subject = Subject(
        MODELS[task.model].build().eval(), torch.from_numpy(np.load(Path(task.folder, _IMAGES)))
    )
    return call_memory.of_call(lambda: torch_eager(subject, task.threads).run)


def _work(task: Task) -> None:
    os.environ["XDG_CACHE_HOME"] = str(Path(task.folder, "winograd"))
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(task.folder, "inductor"))
    import torch
    from iree.winograd.pipelines.selection.tuning_database import processor_name

    from benchmarks.comparison import Comparison
    from benchmarks.limits import LimitProbes
    from benchmarks.model_tools import WITH_EXPORTERS
    from benchmarks.networks.people import FRAMES, MODELS
    from benchmarks.subject import Subject

    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    torch.set_num_threads(task.threads)
    network = MODELS[task.model]
    model = network.calibrated()
    images = network.input(FRAMES.get(task.model, 1))
    np.save(Path(task.folder, _IMAGES), images.numpy())
    comparison = Comparison(Subject(model, images), task.threads, WITH_EXPORTERS)
    row = {
        "input_shape": network.input_shape,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "operations": operations_of(model, images),
        "processor": processor_name(),
        "tools": comparison.records,
    }
    comparison.prepare(task.tools, begin=lambda tool: tell({"begins": tool}))
    tell(row)
    for tool, program in comparison.programs().items():
        MemoryTask(task.model, tool, task.threads, task.folder).program.write_bytes(program)
    if task.seconds > 0:
        probes = LimitProbes(task.threads)
        timings = comparison.time_within(
            task.seconds,
            _BURST_SECONDS,
            least_rounds=_LEAST_ROUNDS,
            clock=time.process_time if task.processor_time else time.perf_counter,
            probes=probes.contenders,
        )
        tell({**row, "peak": probes.limits(timings).flops})


def operations_of(model: torch.nn.Module, images: torch.Tensor) -> int:
    """The multiplications and additions of a call's convolutions and products, as the model writes them."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(images)
    return counter.get_total_flops()


if __name__ == "__main__":
    main()
