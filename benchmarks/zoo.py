"""Compares every tool on a network of every family: is it right, what is left to IREE, how long does it take?

    python -m benchmarks.zoo --jobs 16 --seconds 20 --output benchmarks/results/zoo.json
    python -m benchmarks.report benchmarks/results/zoo.json

One thread and batch 1. Each network has a process of its own on a core of its own, in which all tools take
turns; one that doesn't end, or ends the process, is left out and the others are measured again. Networks that
the output already has are skipped, so that a run can be continued. They are begun in the order in which
`--networks` names them, all of them by the size of their input. With `--seconds 0` nothing is timed.

Where there is no torch-mlir, `--programs` names the folder that `--store` filled on a machine with it. What
is in there holds no weights: they are random.
"""

from __future__ import annotations

import argparse
import math
import warnings
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.isolation import Limits, answer_task, compared, run_isolated, side_by_side, tell
from benchmarks.results_file import ResultsFile
from benchmarks.tool_records import in_a_line

_BURST_SECONDS = 0.1


@dataclass(frozen=True)
class Task:
    """What a process does with a network: compare `tools`, timing them for `seconds`, or write `store`."""

    network: str
    tools: tuple[str, ...]
    seconds: float
    program: str | None
    store: str | None


def main() -> None:
    if answer_task(lambda task: _work(Task(**task))):
        return
    options = _parse_arguments()
    if options.store is not None:
        options.store.mkdir(parents=True, exist_ok=True)
        networks = [name for name in options.networks if not _program(options.store, name).exists()]
        store = partial(_store, options)
        side_by_side(networks, store, jobs=options.jobs, seconds=options.budget)
        return
    results = ResultsFile(options.output, "zoo")
    networks = [name for name in options.networks if name not in results.rows]

    def compare(name: str, processors: frozenset[int]) -> None:
        row = _row(name, options, processors)
        results.add(name, row)
        print(f"{name}: {in_a_line(row)}", flush=True)

    side_by_side(networks, compare, jobs=options.jobs, seconds=options.budget)


def _parse_arguments() -> argparse.Namespace:
    from benchmarks.model_tools import TOOLS
    from benchmarks.networks.zoo import ZOO

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    # Those that take long come first, so that no core is left with one when the others are done.
    by_size = sorted(ZOO, key=lambda network: -math.prod(ZOO[network].input_shape))
    parser.add_argument("--networks", nargs="+", choices=ZOO, default=by_size, metavar="NETWORK")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--jobs", type=int, default=1, help="networks at once, at most one per core")
    parser.add_argument("--seconds", type=float, default=10, help="of timing a network, stock IREE's apart")
    parser.add_argument("--limit", type=float, default=600, help="seconds for a network, all in all")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which none is begun")
    parser.add_argument("--memory", type=float, default=16, help="GiB for a network")
    parser.add_argument("--programs", type=Path, help="the folder of stored programs")
    parser.add_argument("--store", type=Path, help="import the networks into this folder, and no more")
    parser.add_argument("--output", type=Path, help="a JSON file, e.g. benchmarks/results/zoo.json")
    return parser.parse_args()


def _store(options: argparse.Namespace, network: str, processors: frozenset[int]) -> None:
    path = _program(options.store, network)
    task = Task(network, (), 0, program=None, store=str(path))
    outcome = run_isolated("benchmarks.zoo", asdict(task), limits=_limits(options, processors))
    print(f"{network}: {outcome.failure or f'{path.stat().st_size} bytes'}", flush=True)


def _row(network: str, options: argparse.Namespace, processors: frozenset[int]) -> dict[str, Any]:
    program = None if options.programs is None else str(_program(options.programs, network))

    def task(tools: tuple[str, ...]) -> dict[str, Any]:
        return asdict(Task(network, tools, options.seconds, program, store=None))

    return compared("benchmarks.zoo", task, options.tools, limits=_limits(options, processors))


def _program(folder: Path, network: str) -> Path:
    return folder / f"{network}.zip"


def _limits(options: argparse.Namespace, processors: frozenset[int]) -> Limits:
    return Limits(options.limit, int(options.memory * 2**30), processors)


def _work(task: Task) -> None:
    import torch
    from iree.winograd.pipelines.selection.tuning_database import processor_name

    from benchmarks.comparison import Comparison
    from benchmarks.networks.zoo import ZOO
    from benchmarks.subject import Subject, store_program

    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    network = ZOO[task.network]
    model = network.calibrated()
    subject = Subject(model, network.input(1), None if task.program is None else Path(task.program))
    if task.store is not None:
        store_program(subject.imported, model, Path(task.store))
        return
    comparison = Comparison(subject, threads=1)
    comparison.prepare(task.tools, begin=lambda tool: tell({"begins": tool}))
    row = {
        "input_shape": network.input_shape,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "processor": processor_name(),
        "threads": 1,
        "tools": comparison.records,
    }
    tell(row)
    if task.seconds > 0:
        comparison.time_within(task.seconds, _BURST_SECONDS)
        tell(row)


if __name__ == "__main__":
    main()
