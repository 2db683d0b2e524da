"""Times networks of half precision beside the same in f32, and beside the other tools in that type.

    python -m benchmarks.half_precision --network resnet18 mobilenetv2 --type bf16 f16 --batch 1 --threads 1

All of a row are timed side by side in one process: our program in the type, our program in f32, torch in the
type (eager, and traced and frozen), OpenVINO with that precision, and, if asked for, IREE alone. Errors are
against float64 of the same weights, of the largest result. On a machine that does other things, too,
`--clock processor` gives the time of the processor; it counts all threads. `--target` is for ours alone.
Rows that the output already has are skipped, so that a run can be continued.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.isolation import answer_task, run_isolated

TYPES = ("bf16", "f16")
TOOLS = ("ours", "ours-f32", "torch", "torch-frozen", "openvino", "iree")
_BURST_SECONDS = 0.2
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
    clock: str = "wall"
    target: str | None = None


def main() -> None:
    if answer_task(lambda task: _measure(Row(**task))):
        return
    options = _parse_arguments()
    output = options.output
    records = json.loads(output.read_text()) if output is not None and output.exists() else []
    for case in product(options.network, options.type, options.batch, options.threads):
        row = Row(*case, tuple(options.tools), options.rounds, options.clock, options.target)
        if any(_case(record) == case for record in records):
            continue
        outcome = run_isolated("benchmarks.half_precision", asdict(row), threads=row.threads)
        times = {"failure": outcome.failure} if outcome.failure else outcome.messages[-1]
        records.append({**asdict(row), "times": times})
        _print(records[-1])
        if output is not None:
            output.write_text(json.dumps(records, indent=1))


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
        "--tools", nargs="+", choices=TOOLS, default=[each for each in TOOLS if each != "iree"]
    )
    parser.add_argument("--rounds", type=int, default=7)
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


def _measure(row: Row) -> dict[str, Any]:
    import torch

    from benchmarks.networks.half import NETWORKS
    from benchmarks.timing import Contender, time_interleaved

    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    torch.set_num_threads(row.threads)
    type_ = {"bf16": torch.bfloat16, "f16": torch.float16}[row.type]
    network = NETWORKS[row.network]
    half, images = network.calibrated().to(type_), network.input(row.batch).to(type_)
    exact = copy.deepcopy(half).double()(images.double())
    records: dict[str, Any] = {}
    contenders = []
    for tool in row.tools:
        try:
            run = _prepared(tool, half, images, row)
            difference = (_tensor(run()).double() - exact).abs().max() / exact.abs().max()
        except Exception as failure:
            records[tool] = {"failure": f"{type(failure).__name__}: {str(failure)[:200]}"}
            continue
        records[tool] = {"error": float(difference)}
        contenders.append(Contender(tool, run))
    clock = _CLOCKS[row.clock]
    for tool, timing in time_interleaved(
        contenders, rounds=row.rounds, burst_seconds=_BURST_SECONDS, clock=clock
    ).items():
        records[tool] |= {"milliseconds": 1e3 * timing.median, "spread": timing.spread}
    return records


def _prepared(tool: str, half: Any, images: Any, row: Row) -> Callable[[], Any]:
    """One inference in a tool, of a network and images of half precision."""
    import torch

    if tool in ("ours", "ours-f32", "iree"):
        model = copy.deepcopy(half).float() if tool == "ours-f32" else half
        return _program(model, images, row, tool != "iree")
    if tool == "openvino":
        return _openvino(half, images, row.threads)
    model = copy.deepcopy(half).to(memory_format=torch.channels_last)
    argument = images.contiguous(memory_format=torch.channels_last)
    if tool == "torch-frozen":
        model = torch.jit.freeze(torch.jit.trace(model, argument))
    return lambda: model(argument)


def _program(model: Any, images: Any, row: Row, enable_winograd: bool) -> Callable[[], Any]:
    import iree.winograd

    argument = images.to(next(model.parameters()).dtype)
    imported = iree.winograd.import_torch(copy.deepcopy(model), argument)
    options: dict[str, Any] = {"threads": row.threads} if enable_winograd else {}
    if row.target is not None:
        options["target"] = row.target
    compiled = iree.winograd.compile(imported, enable_winograd=enable_winograd, **options)
    program = iree.winograd.load(compiled, threads=row.threads)
    return lambda: program(argument)


def _openvino(half: Any, images: Any, threads: int) -> Callable[[], Any]:
    """The network in f32, which OpenVINO computes in half precision."""
    import openvino
    import torch

    precision = {torch.bfloat16: "bf16", torch.float16: "f16"}[images.dtype]
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
