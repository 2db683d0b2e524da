"""Times IREE's own products of rows and a matrix beside this project's, on a CPU.

    python -m benchmarks.matmul --threads 1 --output benchmarks/results/matmul-1-thread.json

Each product is followed by its bias and ReLU, as in networks. What the cost model predicts of both stands
beside, for the machine that was calibrated, or the one in `--machine`; `pipelines/cpu/choice/iree_cost.py` is
fitted to these times.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from math import exp, log, prod
from pathlib import Path
from statistics import fmean, pstdev

from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.pipelines.selection.prediction import predict
from iree.winograd.targets import target_flags
from iree.winograd.tuning.measuring.outcome import Failure, Timing
from iree.winograd.tuning.schedulers.batch import Batch, MeasuringDevice, Scheduler
from iree.winograd.tuning.schedulers.local import LocalScheduler
from iree.winograd.tuning.workloads import extract

SHAPES = (
    *("1x512x1000", "1x2048x1000", "1x1024x1024", "1x4096x4096", "1x768x3072", "1x128x10"),
    *("2x2048x1000", "4x512x1000", "4x4096x4096", "8x512x1000", "8x4096x4096", "8x768x768"),
    *("16x2048x1000", "32x512x1000", "32x84x10", "64x1024x1024", "64x768x768", "49x3072x768"),
    *("196x768x768", "196x768x3072", "196x256x1024", "784x128x512", "3136x96x384"),
    *(
        "70x64x32",
        "16x128x128",
        "256x32x32",
        "196x64x64",
        "8x768x960",
        "8x768x1008",
        "8x768x1536",
        "8x768x1000",
    ),
    *("1x7x7x768x3072", "1x14x14x384x1536", "1x56x56x96x384", "2x5x7x64x32"),
)
"""Rows or the sizes of an image whose pixels they are, channels, columns."""
BATCH_SECONDS = 1.5
DEADLINE_SECONDS = 600.0


@dataclass(frozen=True)
class MatmulTimes:
    """Of the fastest call of one product, in seconds: whatever else a machine does can only slow it down."""

    pixels: tuple[int, ...]
    """Rows, or the sizes of an image."""
    channels: int
    columns: int
    iree: float
    ours: float
    """By the default schedule."""
    predicted_iree: float
    predicted_ours: float

    @property
    def shape(self) -> str:
        return "x".join(map(str, (*self.pixels, self.channels, self.columns)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="RxCxK")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--target", default="cpu", help="as in iree.winograd.compile")
    parser.add_argument("--machine", help="a file of `iree-winograd calibrate`")
    parser.add_argument("--output", type=Path, help="a JSON file")
    options = parser.parse_args()
    scheduler = LocalScheduler(1)
    try:
        flags = tuple(scheduler.resolve_flags(target_flags(options.target)))
        choices = WinogradOptions(threads=options.threads, machine=options.machine)
        measure = partial(_measure, scheduler, flags, choices)
        results = []
        for shape in options.shapes:
            *pixels, channels, columns = map(int, shape.split("x"))
            results.append(measure(tuple(pixels), channels, columns))
            print(_line(results[-1]), flush=True)
    finally:
        scheduler.close()
    errors = [log(each.predicted_iree / each.iree) for each in results]
    print(f"IREE, predicted over measured: {exp(fmean(errors)):.2f}, deviation {pstdev(errors):.0%}")
    if options.output is not None:
        report = {
            "command": " ".join(["python -m benchmarks.matmul", *sys.argv[1:]]),
            "products": list(map(asdict, results)),
        }
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(report, indent=1) + "\n")


def _measure(
    scheduler: Scheduler,
    flags: tuple[str, ...],
    options: WinogradOptions,
    pixels: tuple[int, ...],
    channels: int,
    columns: int,
) -> MatmulTimes:
    (workload,) = extract(_program(pixels, channels, columns), flags, options)
    problem, space = workload.problem, workload.space
    candidates = sorted(predict(problem, space), key=lambda each: each.predicted_seconds)
    theirs = next(each for each in candidates if each.implementation.is_left_to_iree)
    ours = next(each for each in candidates if not each.implementation.is_left_to_iree)
    assert options.threads is not None
    device = MeasuringDevice("local-task" if options.threads > 1 else "local-sync", options.threads)
    batch = Batch(problem, (ours.implementation, theirs.implementation), flags, device, BATCH_SECONDS)
    ((_, outcomes),) = scheduler.evaluate([batch], time.monotonic() + DEADLINE_SECONDS)
    timings = [outcomes[each.implementation] for each in (theirs, ours)]
    failures = [each.reason for each in timings if isinstance(each, Failure)]
    if failures:
        raise RuntimeError(f"{problem}: {failures[0]}")
    iree, own = (min(each.samples) for each in timings if isinstance(each, Timing))
    return MatmulTimes(pixels, channels, columns, iree, own, theirs.predicted_seconds, ours.predicted_seconds)


def _program(pixels: tuple[int, ...], channels: int, columns: int) -> str:
    count = prod(pixels)
    image = f"tensor<{'x'.join(map(str, (*pixels, channels)))}xf32>"
    rows, result = f"tensor<{count}x{channels}xf32>", f"tensor<{count}x{columns}xf32>"
    matrix = f"tensor<{channels}x{columns}xf32>"
    merged = [list(range(len(pixels))), [len(pixels)]]
    return f"""
func.func @main(%x: {image}) -> {result} {{
  %zero = arith.constant 0.0 : f32
  %w = arith.constant dense<1.0> : {matrix}
  %rows = tensor.collapse_shape %x {merged} : {image} into {rows}
  %empty = tensor.empty() : {result}
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : {result}) -> {result}
  %r = linalg.matmul ins(%rows, %w : {rows}, {matrix}) outs(%zeros : {result}) -> {result}
  return %r : {result}
}}
"""


def _line(times: MatmulTimes) -> str:
    return (
        f"{times.shape:>16}: IREE {1e6 * times.iree:8.1f} us, predicted {1e6 * times.predicted_iree:8.1f} "
        f"({times.predicted_iree / times.iree:.2f}); ours {1e6 * times.ours:8.1f}, "
        f"predicted {1e6 * times.predicted_ours:8.1f} ({times.predicted_ours / times.ours:.2f})"
    )


if __name__ == "__main__":
    main()
