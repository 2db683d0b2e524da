"""What choosing and tuning gain per layer over one fixed algorithm, like figure 9 of Mazaheri et al.

    python -m benchmarks.tuning --layers mazaheri resnet18 --threads 1 --budget 1200 \\
        --database build/tuning.db --output benchmarks/results/tuning-1-thread.json \\
        --figure docs/measurements/tuning.svg

Tunes the layers, or goes on with what the database holds, then times side by side, per layer, in one run:
output tile 2 in every layer that tiles gain anything for, as the paper's untuned runs, the implementation
that is chosen without tuning, and the fastest of the database. It also tells how far the choice is from the
fastest that was measured.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.selection.implementation import Implementation, implementation_record
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.pipelines.selection.prediction import predict
from iree.winograd.pipelines.selection.tuning_database import TuningDatabase
from iree.winograd.targets import target_flags
from iree.winograd.tuning.measuring.outcome import Timing
from iree.winograd.tuning.schedulers.batch import Batch, MeasuringDevice
from iree.winograd.tuning.schedulers.local import LocalScheduler
from iree.winograd.tuning.tuner import tune
from iree.winograd.tuning.workloads import Workload, extract

from benchmarks.gpu_programs import MAZAHERI
from benchmarks.tuning_figure import speedup_figure

FIXED_OUTPUT_TILE = 2


@dataclass(frozen=True)
class LayerResult:
    """Seconds of one layer by each contender, in one run."""

    problem: ConvolutionProblem
    layers: str
    fixed: float
    chosen: float
    tuned: float
    implementations: dict[str, Implementation]

    @property
    def is_tiled(self) -> bool:
        """Whether tiles can gain anything."""
        return not self.implementations["fixed"].algorithm.is_direct

    def record(self) -> dict[str, Any]:
        return {
            "problem": str(self.problem),
            "layers": self.layers,
            **{name: getattr(self, name) for name in ("fixed", "chosen", "tuned")},
            "implementations": {
                name: implementation_record(each) for name, each in self.implementations.items()
            },
        }


def main() -> None:
    options = _parse_arguments()
    flags = target_flags("cpu")
    scheduler = LocalScheduler(options.workers)
    results: list[LayerResult] = []
    try:
        flags = scheduler.resolve_flags(flags)
        for name in options.layers:
            source = layer_source(name)
            if options.budget > 0:
                tune(
                    source,
                    database=options.database,
                    budget=options.budget,
                    workers=options.workers,
                    threads=options.threads,
                    report=lambda line: print(line, flush=True),
                )
            workloads = extract(source, flags, WinogradOptions(threads=options.threads))
            with TuningDatabase(options.database, report=print) as database:
                # Networks have layers in common.
                for workload in workloads:
                    if any(workload.problem == result.problem for result in results):
                        continue
                    device = MeasuringDevice("local-task", options.threads)
                    result = _measure(name, workload, database, scheduler, flags, device, options.seconds)
                    if result is not None:
                        results.append(result)
                        print(_line(result), flush=True)
    finally:
        scheduler.close()
    print(summary(results))
    if options.output is not None:
        report = {"threads": options.threads, "layers": [result.record() for result in results]}
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(report, indent=1) + "\n")
    if options.figure is not None:
        options.figure.write_text(
            speedup_figure(
                [
                    (str(each.problem), each.fixed / each.chosen, each.fixed / each.tuned)
                    for each in results
                    if each.is_tiled
                ]
            )
        )


def _parse_arguments() -> argparse.Namespace:
    from benchmarks.networks.catalog import NETWORKS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", nargs="+", choices=["mazaheri", *NETWORKS], default=["mazaheri"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1, help="processes that compile")
    parser.add_argument(
        "--budget", type=float, default=600, help="seconds of tuning for each of LAYERS, or 0"
    )
    parser.add_argument("--seconds", type=float, default=3, help="of timing a layer side by side")
    parser.add_argument("--database", type=Path, default=Path("build/tuning.db"))
    parser.add_argument("--output", type=Path, help="a JSON file")
    parser.add_argument("--figure", type=Path, help="an SVG file")
    return parser.parse_args()


def layer_source(name: str) -> Any:
    """A network as imported from torch, or the layers of the paper as functions of a program."""
    if name == "mazaheri":
        return "\n".join(
            _function(f"layer{number}", layer.batch, layer.size, layer.channels, layer.filters, layer.taps)
            for number, layer in enumerate(MAZAHERI)
        )
    import torch
    from iree.winograd import import_torch

    from benchmarks.networks.catalog import NETWORKS

    return import_torch(NETWORKS[name].calibrated(), torch.zeros(1, *NETWORKS[name].input_shape))


def _function(name: str, batch: int, size: int, channels: int, filters: int, taps: int) -> str:
    """A convolution whose output is as large as its input."""
    padded, pad = size + taps - 1, taps // 2
    image, result = f"{batch}x{size}x{size}x{channels}xf32", f"{batch}x{size}x{size}x{filters}xf32"
    padded_image = f"{batch}x{padded}x{padded}x{channels}xf32"
    weights = f"tensor<{taps}x{taps}x{channels}x{filters}xf32>"
    return f"""
func.func @{name}(%image: tensor<{image}>) -> tensor<{result}> {{
  %zero = arith.constant 0.0 : f32
  %weights = arith.constant dense<1.0> : {weights}
  %padded = tensor.pad %image low[0, {pad}, {pad}, 0] high[0, {pad}, {pad}, 0] {{
  ^bb0(%n: index, %h: index, %w: index, %c: index):
    tensor.yield %zero : f32
  }} : tensor<{image}> to tensor<{padded_image}>
  %empty = tensor.empty() : tensor<{result}>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<{result}>) -> tensor<{result}>
  %sums = linalg.conv_2d_nhwc_hwcf ins(%padded, %weights : tensor<{padded_image}>, {weights})
    outs(%init : tensor<{result}>) -> tensor<{result}>
  return %sums : tensor<{result}>
}}"""


def _measure(
    layers: str,
    workload: Workload,
    database: TuningDatabase,
    scheduler: LocalScheduler,
    flags: Sequence[str],
    device: MeasuringDevice,
    seconds: float,
) -> LayerResult | None:
    """Times the contenders for a layer; None for one that wasn't tuned."""
    problem, space = workload.problem, workload.space
    fixed = predict(problem, space, FIXED_OUTPUT_TILE)[-1].implementation
    machine = scheduler.machine(device.uri)
    known = database.measurements(problem, space.key, machine=machine)
    if not known:
        return None
    implementations = {
        "fixed": fixed,
        "chosen": workload.default.implementation,
        "tuned": known[0].implementation,
    }
    distinct = tuple(dict.fromkeys(implementations.values()))
    batch = Batch(problem, distinct, tuple(flags), device, seconds)
    ((_, outcomes),) = scheduler.evaluate([batch], time.monotonic() + 60 + seconds)
    taken = {name: outcomes[each] for name, each in implementations.items()}
    if not all(isinstance(outcome, Timing) for outcome in taken.values()):
        print(f"{problem}: {taken}")
        return None
    medians = {name: outcome.median for name, outcome in taken.items() if isinstance(outcome, Timing)}
    return LayerResult(problem, layers, **medians, implementations=implementations)


def _line(result: LayerResult) -> str:
    return (
        f"{result.problem!s:110} F(2) {1e3 * result.fixed:8.3f} ms  chosen {1e3 * result.chosen:8.3f} "
        f"({result.fixed / result.chosen:.2f}x)  tuned {1e3 * result.tuned:8.3f} "
        f"({result.fixed / result.tuned:.2f}x)  {result.implementations['tuned']}"
    )


def summary(results: Sequence[LayerResult]) -> str:
    """Geometric means over layers."""
    if not results:
        return "no layers"
    excess = [result.chosen / min(result.chosen, result.tuned) for result in results]
    lines = [
        f"{len(results)} layers: the choice takes {geometric_mean(excess):.3f} times as long as the faster "
        f"of choice and tuned (geometric mean; worst {max(excess):.2f})"
    ]
    if tiled := [result for result in results if result.is_tiled]:
        chosen = geometric_mean(result.fixed / result.chosen for result in tiled)
        tuned = geometric_mean(result.fixed / result.tuned for result in tiled)
        lines.append(
            f"{len(tiled)} of them in tiles: over F(2) the choice is {chosen:.2f} times as fast, and the "
            f"tuned {tuned:.2f} times (geometric means)"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
