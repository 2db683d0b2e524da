"""Layers of half precision on a GPU of NVIDIA, beside cuDNN: what their kernels take.

    python -m benchmarks.gpu_half_layers --type f16 --jobs 14 --output benchmarks/results/gpu-half-layers.json

Each layer is a chain of four, so that all but the ends find images channels last, and in caches as in a
network. Programs are compiled by `--jobs` processes. Durations are those of kernels by CUPTI, the median of
`--rounds` calls, ours and cuDNN's (channels last, its benchmark on) in one process. What changes the layout
of the first image and of the last one isn't counted. Errors are relative to float64 in the 2-norm.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import iree.winograd
import torch
from torch import nn

from benchmarks.convolutions import DIFFUSION
from benchmarks.gpu_kernel_times import kernel_times
from benchmarks.results_file import ResultsFile

LENGTH = 4
"""Of a chain."""
TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
_LAYOUT = ("transpose", "nchwToNhwc", "nhwcToNchw", "winograd_channels_")
"""Parts of names of kernels that change the layout of images."""


@dataclass(frozen=True)
class Layer:
    """A convolution that keeps the size of images; two in turn where outputs are other than channels."""

    batch: int
    size: int
    channels: int
    outputs: int
    kernel: int

    def __str__(self) -> str:
        channels = (
            f"{self.channels}" if self.channels == self.outputs else f"{self.channels}<->{self.outputs}"
        )
        return f"{self.batch}x{self.size}x{self.size}x{channels} {self.kernel}x{self.kernel}"

    def chain(self) -> nn.Module:
        torch.manual_seed(0)
        sizes = [(self.channels, self.outputs), (self.outputs, self.channels)] * (LENGTH // 2)
        return nn.Sequential(
            *(nn.Conv2d(*each, self.kernel, padding=self.kernel // 2) for each in sizes)
        ).eval()

    def image(self) -> torch.Tensor:
        return torch.randn(self.batch, self.channels, self.size, self.size)


LAYERS = (
    *(
        Layer(batch, size, channels, channels, 3)
        for batch, size, channels in (
            *DIFFUSION,
            (1, 256, 64),
            (32, 56, 64),
            (32, 28, 128),
            (32, 14, 256),
            (32, 7, 512),
            (1, 56, 64),
            (1, 28, 128),
            (1, 14, 256),
            (1, 7, 512),
        )
    ),
    *(
        Layer(batch, size, channels, 4 * channels, 1)
        for batch in (32, 1)
        for size, channels in ((56, 64), (28, 128), (14, 256), (7, 512))
    ),
)
"""Of diffusion models and of ResNets."""


@dataclass(frozen=True)
class Row:
    """Microseconds a layer and relative errors, ours and torch's, and the seconds that we predict."""

    type: str
    ours_us: float
    torch_us: float
    ours_error: float
    torch_error: float
    predicted_us: float
    schedules: str


@dataclass(frozen=True)
class Program:
    layer: Layer
    path: Path
    predicted: float
    schedules: str


def compiled(task: tuple[Layer, str, Path]) -> Program:
    """The program of a chain, and what it is predicted to take."""
    layer, type_, folder = task
    path, report = (folder / f"{layer}.{suffix}".replace("<->", "-") for suffix in ("vmfb", "json"))
    model, image = layer.chain().to(TYPES[type_]), layer.image().to(TYPES[type_])
    imported = iree.winograd.import_torch(model, image)
    iree.winograd.compile(imported, target="cuda:sm_90a", output=path, report=report, strict=True)
    told = json.loads(report.read_text())
    chosen = [each["candidates"][each["chosen"]] for each in told["layers"]]
    kinds = [f"{_tiles(each['output_tile'])}{each['schedule']['kind']}" for each in chosen]
    predicted = sum(each["predicted_seconds"] for each in chosen) / LENGTH
    return Program(layer, path, predicted, ", ".join(dict.fromkeys(kinds)))


def _tiles(output_tile: list[int]) -> str:
    return "" if set(output_tile) == {1} else f"F({'x'.join(map(str, output_tile))}) "


def microseconds(call: Callable[[], object], rounds: int) -> float:
    """Of a call's kernels, but for those that change the layout of images."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    times = kernel_times(call, rounds)
    return sum(each.total for each in times if not any(part in each.name for part in _LAYOUT))


def measured(program: Program, type_: str, rounds: int) -> Row:
    """Both tools, one after the other."""
    layer, number = program.layer, TYPES[type_]
    model, image = layer.chain().to(number).cuda(), layer.image().to(number).cuda()
    exact = layer.chain().to(number).double().cuda()(image.double())
    ours = iree.winograd.load(program.path, "cuda")
    theirs = model.to(memory_format=torch.channels_last)
    last = image.contiguous(memory_format=torch.channels_last)

    def error(result: torch.Tensor) -> float:
        return float((result.double() - exact).norm() / exact.norm())

    return Row(
        type_,
        microseconds(lambda: ours(image), rounds) / LENGTH,
        microseconds(lambda: theirs(last), rounds) / LENGTH,
        error(ours(image)),
        error(theirs(last)),
        1e6 * program.predicted,
        program.schedules,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--type", choices=sorted(TYPES), default="f16")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    results = ResultsFile(options.output, "layers")
    torch.backends.cudnn.benchmark = True
    with tempfile.TemporaryDirectory() as folder:
        tasks = [(layer, options.type, Path(folder)) for layer in LAYERS]
        with multiprocessing.get_context("fork").Pool(options.jobs, maxtasksperchild=1) as pool:
            programs = pool.map(compiled, tasks, chunksize=1)
        with torch.no_grad():
            for program in programs:
                row = measured(program, options.type, options.rounds)
                results.add(f"{program.layer} {options.type}", asdict(row))
                print(f"{program.layer}: {row}", flush=True)


if __name__ == "__main__":
    main()
