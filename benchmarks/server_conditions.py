"""What kernels that wait for each other take where processors are few or busy, beside barriers.

    python -m benchmarks.server_conditions --output benchmarks/results/server-conditions.json

A network of eight layers is compiled twice for all processors: as it is, and with a barrier of IREE's after
each kernel in place of waiting in memory. Both take turns under each condition, in a process of its own:

* `free`: a thread for each processor, nothing else at work;
* `taskset`: the process may use half of the processors, and `load` counts these;
* `quota`: a control group lets it use half of the time of all, and `load` counts that;
* `quota, all threads`: the same, with a thread for each processor;
* `twice the threads`: two for each processor;
* `busy`: as many other processes compute as there are processors;
* `two servers`: another process calls the same program without end.

Linux only. The quota needs a control group that may be written to, most often root.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import iree.winograd
import numpy as np
from iree.winograd.pipelines.machines.quota import processor_quota
from iree.winograd.pipelines.on_program.chain_kernels import ChainKernels

from benchmarks.tables.threads import server_conditions
from benchmarks.timing import Contender, time_interleaved

LAYERS, SIZE, CHANNELS = 8, 28, 64
SHAPE = (1, SIZE, SIZE, CHANNELS)
_PERIOD_MICROSECONDS = 100_000
"""In which a quota is spent."""
_START_SECONDS = 3.0
"""After which other processes are at work."""
_CONTROL_GROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Measurement:
    """Seconds of a call, medians, with their quotients in rounds: the median, and that of one in ten."""

    condition: str
    threads: int | None
    waiting: float
    barriers: float
    ratio: float
    high_ratio: float


@dataclass(frozen=True)
class Task:
    folder: str
    condition: str
    threads: int | None
    rounds: int


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    processors = len(os.sched_getaffinity(0))
    measured = []
    with TemporaryDirectory() as folder:
        compile_both(Path(folder), processors)
        for condition, (threads, holds) in conditions(processors).items():
            task = Task(folder, condition, threads, options.rounds)
            try:
                with holds(Path(folder)):
                    measured.append(asdict(in_process_of_its_own(task)))
            except OSError as error:
                print(f"{condition}: left out: {error}", file=sys.stderr)
                continue
            print(measured[-1], flush=True)
    results = {"network": f"{LAYERS} layers of {SIZE}x{SIZE}x{CHANNELS}", "measured": measured}
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(results, indent=1) + "\n")
    print("\n".join(server_conditions([results])))


Holds = Callable[[Path], AbstractContextManager[None]]
"""Keeps a condition up; it is told the folder of the programs."""


def conditions(processors: int) -> dict[str, tuple[int | None, Holds]]:
    """By name, the threads that programs run on, None for what `load` counts, and what keeps it up."""
    half = max(1, processors // 2)
    return {
        "free": (processors, lambda _: nullcontext()),
        "taskset": (None, lambda _: _on_processors(half)),
        "quota": (None, lambda _: _quota(half)),
        "quota, all threads": (processors, lambda _: _quota(half)),
        "twice the threads": (2 * processors, lambda _: nullcontext()),
        "busy": (processors, lambda _: _others(processors, _compute)),
        "two servers": (processors, lambda folder: _others(1, _call, folder, processors)),
    }


@contextmanager
def _on_processors(count: int) -> Iterator[None]:
    """This process, and those that it starts, may use so many processors."""
    available = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(available)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, available)


@contextmanager
def _quota(processors: int) -> Iterator[None]:
    """The same by time. Raises OSError where no control group can be made, or has no quota."""
    name = f"iree-winograd-{os.getpid()}"
    is_unified = (_CONTROL_GROUPS / "cgroup.controllers").exists()
    parent = _CONTROL_GROUPS if is_unified else _CONTROL_GROUPS / "cpu"
    group = parent / name
    if is_unified:
        (parent / "cgroup.subtree_control").write_text("+cpu")
    group.mkdir()
    try:
        quota = processors * _PERIOD_MICROSECONDS
        if is_unified:
            (group / "cpu.max").write_text(f"{quota} {_PERIOD_MICROSECONDS}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_MICROSECONDS))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        (group / "cgroup.procs").write_text(str(os.getpid()))
        if processor_quota() is None:
            raise OSError("the system keeps no quotas, or tells none")
        yield
    finally:
        (parent / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


@contextmanager
def _others(count: int, work: Callable[..., None], *arguments: object) -> Iterator[None]:
    """So many other processes are at work."""
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=work, args=arguments, daemon=True) for _ in range(count)]
    for other in others:
        other.start()
    time.sleep(_START_SECONDS)
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.join()


def _compute() -> None:
    while True:
        pass


def _call(folder: Path, threads: int) -> None:
    program = iree.winograd.load(folder / "waiting", threads=threads)
    image = np.ones(SHAPE, np.float32)
    while True:
        program(image)


def compile_both(folder: Path, threads: int) -> None:
    """The files `waiting` and `barriers`."""
    iree.winograd.compile(network(), threads=threads, strict=True, output=folder / "waiting")
    with mock.patch.object(ChainKernels, "run", lambda self, module: None):
        iree.winograd.compile(network(), threads=threads, strict=True, output=folder / "barriers")
    assert (folder / "waiting").read_bytes() != (folder / "barriers").read_bytes()


def network() -> str:
    """Its MLIR: each layer a padded convolution, and an activation."""
    image = f"tensor<{'x'.join(map(str, SHAPE))}xf32>"
    padded = f"tensor<1x{SIZE + 2}x{SIZE + 2}x{CHANNELS}xf32>"
    filters = f"tensor<3x3x{CHANNELS}x{CHANNELS}xf32>"
    layers = "".join(
        f"""
  %padded{n} = tensor.pad %image{n} low[0, 1, 1, 0] high[0, 1, 1, 0] {{
  ^bb0(%i{n}: index, %j{n}: index, %k{n}: index, %l{n}: index):
    tensor.yield %zero : f32
  }} : {image} to {padded}
  %filters{n} = arith.constant dense<{0.001 * (n + 1)}> : {filters}
  %sums{n} = linalg.conv_2d_nhwc_hwcf ins(%padded{n}, %filters{n} : {padded}, {filters})
    outs(%zeros : {image}) -> {image}
  %image{n + 1} = arith.maximumf %sums{n}, %zeros : {image}"""
        for n in range(LAYERS)
    )
    return f"""
func.func @main(%image0: {image}) -> {image} {{
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : {image}{layers}
  return %image{LAYERS} : {image}
}}
"""


def in_process_of_its_own(task: Task) -> Measurement:
    """Workers and what `load` counts are a process's."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_measure, task).result()


def _measure(task: Task) -> Measurement:
    image = np.random.default_rng(0).standard_normal(SHAPE, np.float32)
    names = ("waiting", "barriers")
    loaded = {name: iree.winograd.load(Path(task.folder, name), threads=task.threads) for name in names}
    contenders = [Contender(name, partial(loaded[name], image)) for name in names]
    times = time_interleaved(contenders, rounds=task.rounds, burst_seconds=0.1)
    waiting, barriers = (times[name] for name in names)
    ratios = [one / other for one, other in zip(waiting.samples, barriers.samples, strict=True)]
    return Measurement(
        task.condition,
        loaded["waiting"].main.device.threads,
        waiting.median,
        barriers.median,
        waiting.ratio_to(barriers),
        float(np.quantile(ratios, 0.9)),
    )


if __name__ == "__main__":
    main()
