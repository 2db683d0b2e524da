"""Times networks of half precision beside the same in f32, and beside the other tools in that type.

    python -m benchmarks.half_precision --network resnet18 mobilenetv2 --type bf16 f16 --batch 1 --threads 1

All of a row are timed side by side in one process: our program in the type, our program in f32, torch in the
type (eager, and traced and frozen), OpenVINO with that precision, and, if asked for, IREE alone, and what
takes another precision than the row's type: ours by `precision="bf16"`, OpenVINO in f32. Errors are
against float64 of the same weights, of the largest result. On a machine that does other things, too,
`--clock processor` gives the time of the processor; it counts all threads. `--target` is for ours alone.
Rows that the output already has are skipped, so that a run can be continued. So many rows as `--jobs` says
compile side by side, each in a process of its own, and then are timed one after the other.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.compile_then_time import CompiledNetwork
from benchmarks.isolation import answer_task, questions, tell

TYPES = ("bf16", "f16")
TOOLS = ("ours", "ours-f32", "ours-bf16", "torch", "torch-frozen", "openvino", "openvino-f32", "iree")
_MOST_SECONDS = 3600.0
"""For the compilation of a row, and for its timing."""
_CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}


@dataclass(frozen=True)
class Row:
    """A network in a type, for a batch, on so many threads, compiled for a target or this machine."""

    network: str
    type: str
    batch: int
    threads: int
    tools: tuple[str, ...]
    rounds: int
    burst: float = 0.2
    clock: str = "wall"
    target: str | None = None


def main() -> None:
    if answer_task(lambda task: _work(Row(**task))):
        return
    options = _parse_arguments()
    output = options.output
    records = json.loads(output.read_text()) if output is not None and output.exists() else []
    end = time.monotonic() + options.budget
    settings = (tuple(options.tools), options.rounds, options.burst, options.clock, options.target)
    rows = [
        Row(network, type_, batch, threads, *settings)
        for threads, batch, network, type_ in product(
            options.threads, options.batch, options.network, options.type
        )
    ]
    rows = [row for row in rows if _case(asdict(row)) not in map(_case, records)]
    for first in range(0, len(rows), options.jobs):
        for record in _timed(rows[first : first + options.jobs], end):
            records.append(record)
            _print(record)
            if output is not None:
                output.write_text(json.dumps(records, indent=1))


def _timed(rows: Sequence[Row], end: float) -> Iterator[dict[str, Any]]:
    """The rows with their times, as they are timed: all are compiled side by side before the first is, and
    none is begun after `end`."""
    processors = frozenset(os.sched_getaffinity(0))

    def compiled(row: Row) -> CompiledNetwork:
        left = max(0.1, min(_MOST_SECONDS, end - time.monotonic()))
        module, task = "benchmarks.half_precision", asdict(row)
        return CompiledNetwork(module, task, {}, processors=processors, seconds=left)

    with ExitStack() as stack, ThreadPoolExecutor(len(rows)) as pool:
        networks = [stack.enter_context(network) for network in pool.map(compiled, rows)]
        for row, network in zip(rows, networks, strict=True):
            if time.monotonic() < end:
                told = network.timed()
                times = {"failure": told["failure"]} if "failure" in told else told["times"]
                yield {**asdict(row), "times": times}


def _case(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record[name] for name in ("network", "type", "batch", "threads"))


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", nargs="+", default=["resnet18", "resnet50", "mobilenetv2"])
    parser.add_argument("--type", nargs="+", choices=TYPES, default=list(TYPES))
    parser.add_argument("--batch", nargs="+", type=int, default=[1])
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument(
        "--tools",
        nargs="+",
        choices=TOOLS,
        default=[each for each in TOOLS if each not in ("iree", "ours-bf16")],
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--burst", type=float, default=0.2, help="seconds of a tool in a round")
    parser.add_argument("--jobs", type=int, default=1, help="rows that compile at once")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which no row is begun")
    parser.add_argument("--clock", choices=_CLOCKS, default="wall")
    parser.add_argument(
        "--target", help="that ours is compiled for, e.g. cpu:haswell; this machine unless given"
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="a JSON file, continued where it ended, e.g. benchmarks/results/half-zen5.json",
    )
    return parser.parse_args()


def _work(row: Row) -> None:
    """Tells when all tools are ready, and the times when it is asked for them."""
    import torch

    from benchmarks.networks.half import NETWORKS

    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    # Other rows compile meanwhile.
    torch.set_num_threads(1)
    type_ = {"bf16": torch.bfloat16, "f16": torch.float16}[row.type]
    network = NETWORKS[row.network]
    half, images = network.calibrated().to(type_), network.input(row.batch).to(type_)
    exact = copy.deepcopy(half).double()(images.double())
    runs: dict[str, Callable[[], Any]] = {}
    records: dict[str, Any] = {}
    for tool in row.tools:
        try:
            runs[tool] = _prepared(tool, half, images, row)
        except Exception as failure:
            records[tool] = _failed(failure)
    tell({"row": {}, "is_done": True})
    for _ in questions():
        torch.set_num_threads(row.threads)
        records |= _measured(runs, exact, row)
        tell({"row": {"times": {tool: records[tool] for tool in row.tools}}, "is_done": True})


def _measured(runs: dict[str, Callable[[], Any]], exact: Any, row: Row) -> dict[str, Any]:
    """The error and the time of each tool."""
    from benchmarks.timing import Contender, time_interleaved

    records: dict[str, Any] = {}
    contenders = []
    for tool, run in runs.items():
        try:
            difference = (_tensor(run()).double() - exact).abs().max() / exact.abs().max()
        except Exception as failure:
            records[tool] = _failed(failure)
            continue
        records[tool] = {"error": float(difference)}
        contenders.append(Contender(tool, run))
    for tool, timing in time_interleaved(
        contenders, rounds=row.rounds, burst_seconds=row.burst, clock=_CLOCKS[row.clock]
    ).items():
        records[tool] |= {"milliseconds": 1e3 * timing.median, "spread": timing.spread}
    return records


def _failed(failure: Exception) -> dict[str, str]:
    return {"failure": f"{type(failure).__name__}: {str(failure)[:200]}"}


def _prepared(tool: str, half: Any, images: Any, row: Row) -> Callable[[], Any]:
    """One inference in a tool, of a network and images of half precision."""
    import torch

    if tool in ("ours", "ours-f32", "ours-bf16", "iree"):
        model = copy.deepcopy(half).float() if tool == "ours-f32" else half
        precision = "bf16" if tool == "ours-bf16" else "as-written"
        return _program(model, images, row, None if tool == "iree" else precision)
    if tool in ("openvino", "openvino-f32"):
        precision = "f32" if tool == "openvino-f32" else row.type
        return _openvino(half, images, row.threads, precision)
    model = copy.deepcopy(half).to(memory_format=torch.channels_last)
    argument = images.contiguous(memory_format=torch.channels_last)
    if tool == "torch-frozen":
        model = torch.jit.freeze(torch.jit.trace(model, argument))
    return lambda: model(argument)


def _program(model: Any, images: Any, row: Row, precision: str | None) -> Callable[[], Any]:
    """Our program in a precision, or that of IREE alone without one."""
    import iree.winograd

    argument = images.to(next(model.parameters()).dtype)
    imported = iree.winograd.import_torch(copy.deepcopy(model), argument)
    options: dict[str, Any] = {} if precision is None else {"threads": row.threads, "precision": precision}
    if row.target is not None:
        options["target"] = row.target
    compiled = iree.winograd.compile(imported, enable_winograd=precision is not None, **options)
    program = iree.winograd.load(compiled, threads=row.threads)
    return lambda: program(argument)


def _openvino(half: Any, images: Any, threads: int, precision: str) -> Callable[[], Any]:
    """The network in f32, which OpenVINO is asked to compute in a precision.

    Asked for f16 where a processor has no units for it, it takes bf16.
    """
    import openvino

    model = openvino.convert_model(copy.deepcopy(half).float(), example_input=images.float())
    model.reshape(list(images.shape))
    settings = {
        "INFERENCE_PRECISION_HINT": precision,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "ENABLE_CPU_PINNING": False,
    }
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    argument = openvino.Tensor(images.float().numpy(), shared_memory=True)

    def run() -> Any:
        request.infer([argument], share_inputs=True, share_outputs=True)
        return request.get_output_tensor().data

    return run


def _tensor(result: Any) -> Any:
    import torch

    return result if isinstance(result, torch.Tensor) else torch.as_tensor(result)


def _print(record: dict[str, Any]) -> None:
    print(f"{record['network']} {record['type']}, batch {record['batch']}, {record['threads']} thread(s)")
    for tool, values in record["times"].items():
        if not isinstance(values, dict):
            print(f"  {values}", flush=True)
        elif "failure" in values:
            print(f"  {tool:13} failed: {values['failure']}", flush=True)
        else:
            print(f"  {tool:13}{values['milliseconds']:10.2f} ms  error {values['error']:.1e}", flush=True)


if __name__ == "__main__":
    main()
