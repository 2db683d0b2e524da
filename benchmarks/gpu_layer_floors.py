"""Layers of small limits beside what a kernel of ours takes that moves as many bytes, and does little else.

    python -m benchmarks.gpu_layer_floors --type f16 --jobs 16 \\
        --output benchmarks/results/gpu-layer-floors-f16-h200.json

The limit of such a layer is what memory takes for its bytes at the rate of copies of 1 GiB: a few
microseconds. A kernel of as many bytes begins and ends besides: threads run when those ahead have ended,
their loads are back later, and what they store is there later still. The floor is what a depthwise layer of
one tap takes, which multiplies each number once, launched as the layer is, on images that lie in the cache as
its do: of the size of its outputs, and of so many whole quads of channels that it moves about as many bytes,
by which it is scaled.

Times are from the end of the kernel ahead to a kernel's own, in microseconds. Layers of stride one are chains
of four; others are behind one of one tap, which leaves their image in the cache as a network's layer does.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import iree.winograd
import torch
from torch import nn

from benchmarks.gpu_kernel_times import Peaks, times_behind
from benchmarks.gpu_layers import LAYOUT, TYPES, Layer, Program, programs
from benchmarks.results_file import ResultsFile

_QUAD = 4


class _StridedLayer(Layer):
    """Behind a layer of one tap."""

    def chain(self) -> nn.Module:
        ahead = nn.Conv2d(self.channels, self.channels, 1, groups=self.channels)
        return nn.Sequential(ahead, *super().chain().children()).eval()


def _depthwise(size: int, channels: int, kernel: int) -> Layer:
    return Layer(32, size, channels, channels, kernel, 1, channels)


def _strided(size: int, channels: int, outputs: int, kernel: int, groups: int = 1) -> Layer:
    return _StridedLayer(32, size, channels, outputs, kernel, 2, groups)


_OF_BOTH = (
    _depthwise(28, 120, 5),
    _depthwise(28, 240, 5),
    _depthwise(28, 192, 7),
    _depthwise(56, 96, 7),
    _strided(56, 144, 144, 5, groups=144),
    _strided(56, 56, 56, 3, groups=7),
    _strided(112, 24, 24, 3, groups=3),
    _strided(112, 32, 24, 1),
    Layer(32, 28, 116, 116, 1),
    Layer(32, 28, 40, 240, 1),
)
LAYERS = {
    "f16": (
        *_OF_BOTH,
        _depthwise(14, 480, 3),
        _depthwise(14, 480, 5),
        _depthwise(14, 672, 5),
        _depthwise(14, 384, 7),
    ),
    "f32": _OF_BOTH,
}
"""Those that were below 0.7 of their limits in one of both types, but wide ones."""


@dataclass(frozen=True)
class Row:
    """Microseconds of a layer, its limit, and its floor."""

    type: str
    ours_us: float
    floor_us: float
    limit_us: float
    schedules: str


def floor_of(layer: Layer, type_: str) -> Layer:
    """The depthwise layer of one tap that moves about as many bytes."""
    size = math.ceil(layer.size / layer.stride)
    numbers = layer.moved_bytes(type_) / TYPES[type_].itemsize
    quads = round(numbers / (2 * layer.batch * size**2 * _QUAD))
    return _depthwise(size, quads * _QUAD, 1)


def microseconds(program: Program, type_: str, rounds: int) -> float:
    """Of a layer of a program in its chain."""
    layer = program.layer
    image = layer.image().to(TYPES[type_]).cuda()
    ours = iree.winograd.load(program.path, "cuda")
    times = times_behind(lambda: ours(image), rounds)
    of_layers = [each for each in times if not any(part in each.name for part in LAYOUT)]
    counted = of_layers[1:] if layer.stride > 1 else of_layers
    return sum(each.microseconds for each in counted) / layer.length


def _measured(found: Sequence[Program], layer: Layer, type_: str, peaks: Peaks, rounds: int) -> Row:
    by_layer = {program.layer: program for program in found}
    floor, program = floor_of(layer, type_), by_layer[layer]
    share = layer.moved_bytes(type_) / floor.moved_bytes(type_)
    return Row(
        type_,
        microseconds(program, type_, rounds),
        share * microseconds(by_layer[floor], type_, rounds),
        layer.limit_us(type_, peaks),
        program.schedules,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--type", choices=sorted(LAYERS), default="f16")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--budget", type=float, default=math.inf, metavar="SECONDS")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    end = time.monotonic() + options.budget
    results = ResultsFile(options.output, "layers")
    layers = LAYERS[options.type]
    floors = [floor_of(layer, options.type) for layer in layers]
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        tasks = list(dict.fromkeys([*layers, *floors]))
        found = list(programs(tasks, options.type, Path(folder), options.jobs, end - time.monotonic()))
        peaks = Peaks.measured(options.rounds)
        print(peaks, flush=True)
        for layer in layers:
            row = _measured(found, layer, options.type, peaks, options.rounds)
            results.add(f"{layer} {options.type}", asdict(row))
            print(f"{layer}: {row}", flush=True)


if __name__ == "__main__":
    main()
