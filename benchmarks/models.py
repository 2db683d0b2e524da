"""Times whole networks against the other tools, side by side, and measures what it costs to get there.

    python -m benchmarks.models --network resnet18 vgg16 --batch 1 8 --threads 1

Each tool imports and compiles the network in a process of its own, whose peak of memory is reported; then one
process holds the network in all tools and times them turn by turn.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.isolation import answer_task, run_isolated


@dataclass(frozen=True)
class Task:
    """What a process of its own measures: cost or time of a network at a batch size in some tools."""

    measure: str
    network: str
    batch: int
    threads: int
    tools: tuple[str, ...]
    rounds: int


def main() -> None:
    if answer_task(lambda task: _work(Task(**task))):
        return
    options = _parse_arguments()
    records = []
    for network in options.network:
        for batch in options.batch:
            costs = {tool: _in_process(Task("cost", network, batch, 1, (tool,), 1)) for tool in options.tools}
            for threads in options.threads:
                task = Task("time", network, batch, threads, tuple(options.tools), options.rounds)
                records.append({**asdict(task), "costs": costs, "times": _in_process(task)})
                _print(records[-1])
                if options.output is not None:
                    options.output.parent.mkdir(parents=True, exist_ok=True)
                    options.output.write_text(json.dumps(records, indent=1))


def _parse_arguments() -> argparse.Namespace:
    from benchmarks.model_tools import TOOLS
    from benchmarks.networks.catalog import NETWORKS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 8])
    every = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", nargs="+", type=int, default=sorted({1, every}))
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--output", type=Path, help="a JSON file, e.g. benchmarks/results/models.json")
    return parser.parse_args()


def _in_process(task: Task) -> dict[str, Any]:
    outcome = run_isolated("benchmarks.models", asdict(task), threads=task.threads)
    return {"failure": outcome.failure} if outcome.failure else outcome.messages[-1]


def _work(task: Task) -> dict[str, Any]:
    import torch

    from benchmarks.comparison import Comparison
    from benchmarks.model_tools import TOOLS
    from benchmarks.networks.catalog import NETWORKS
    from benchmarks.subject import Subject

    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    network = NETWORKS[task.network]
    subject = Subject(network.calibrated(), network.input(task.batch))
    if task.measure == "cost":
        before = _peak_memory()
        prepared = TOOLS[task.tools[0]](subject, task.threads)
        prepared.run()
        return {
            "import_seconds": prepared.import_seconds,
            "compile_seconds": prepared.compile_seconds,
            "size": prepared.size,
            "weights": sum(parameter.nbytes for parameter in subject.model.parameters()),
            "memory_before": before,
            "peak_memory": _peak_memory(),
        }
    comparison = Comparison(subject, task.threads)
    comparison.prepare(task.tools)
    comparison.time(task.rounds, burst_seconds=0.2)
    return comparison.records


def _peak_memory() -> int:
    """Bytes; Linux counts in units of 1024."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _print(record: dict[str, Any]) -> None:
    print(f"\n{record['network']}, batch {record['batch']}, {record['threads']} thread(s)")
    if "failure" in record["times"]:
        print(f"  failed: {record['times']['failure']}")
        return
    for tool, values in record["times"].items():
        if "failure" in values:
            print(f"  {tool:13} failed: {values['failure']}")
    timed = {tool: values for tool, values in record["times"].items() if "failure" not in values}
    for tool, values in sorted(timed.items(), key=lambda item: float(item[1]["milliseconds"])):
        cost = record["costs"][tool]
        details = cost.get("failure") or (
            f"import {cost['import_seconds']:5.1f} s  compile {cost['compile_seconds']:5.1f} s"
            f"  {cost['size'] / 1e6:6.0f} MB  memory {cost['peak_memory'] / 1e6:6.0f} MB"
        )
        ratio = "" if values["speedup"] is None else f"{values['speedup']:5.2f}"
        print(
            f"  {tool:13}{values['milliseconds']:10.2f} ms +-{50 * values['spread']:4.1f}%  {ratio:>5}"
            f"  error {values['error']:.1e}  {details}"
        )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
