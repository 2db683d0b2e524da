"""Layers on a GPU of NVIDIA, beside cuDNN and the limits of the GPU: what their kernels take.

    python -m benchmarks.gpu_layers --type f16 --jobs 14 --output benchmarks/results/gpu-half-layers.json
    python -m benchmarks.gpu_layers --type f32 --batches 1 32 --ours-alone --jobs 16 \\
        --networks timm_efficientnet_b0 timm_convnext_tiny timm_mobilenetv3_large_100 timm_regnety_002 \\
        shufflenetv2_w1 --output benchmarks/results/gpu-layer-limits-h200.json

Each layer is a chain of four, so that all but the ends find images channels last, and in caches as in a
network. Programs are compiled by `--jobs` processes. Durations are those of kernels by CUPTI, the median of
`--rounds` calls, ours and cuDNN's (channels last, its benchmark on) in one process; of pointwise layers
cuBLAS's where it is faster, and both in TF32 for f32. What changes the layout of the first image and of the
last one isn't counted. Errors are relative to float64 in the 2-norm.

With `--networks` the layers are the distinct pointwise, depthwise and grouped ones of networks, but for those
of images of one pixel, which are parts of squeeze-and-excitation. Those that aren't of stride one are alone
instead of in a chain. The limit of a layer is the larger of the time in which its image, filters and result
are moved, each number once, at the speed of copies of 1 GiB, and of that of its operations: on matrix units,
in f32 three products of f16 for each, or by multiply-adds of f32 if it is depthwise, at the rate of cuBLAS's
largest products. Taps in the padding are none. In a chain images of less than 50 MB come out of the GPU's
cache, faster than that. With `--least-limit` only layers of such a limit in microseconds are measured.

A kernel of few bytes takes longer than its limit, however it is written: until its threads run, ask for what
they read, and what they wrote is there. So each layer is told beside a kernel of torch's that copies as many
bytes as it moves, over and over, so that they come out of the cache where they fit.

Layers are measured as they are compiled, and written as they are measured: one that the output already has
is skipped. After `--budget` seconds no further one is waited for.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import hypot
from pathlib import Path

import iree.winograd
import torch
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.algebra.numerics import rounding_error
from torch import nn
from torch.nn import functional

from benchmarks.convolutions import DIFFUSION
from benchmarks.gpu_kernel_times import KernelTime, Peaks, copy_microseconds, kernel_times
from benchmarks.networks.gpu import NETWORKS
from benchmarks.networks.network import Network
from benchmarks.results_file import ResultsFile

LENGTH = 4
"""Of a chain."""
TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
LAYOUT = ("transpose", "nchwToNhwc", "nhwcToNchw", "winograd_channels_")
"""Parts of names of kernels that change the layout of images."""


@dataclass(frozen=True)
class Layer:
    """A convolution; two in turn where outputs are other than channels."""

    batch: int
    size: int
    channels: int
    outputs: int
    kernel: int
    stride: int = 1
    groups: int = 1

    def __str__(self) -> str:
        channels = (
            f"{self.channels}" if self.channels == self.outputs else f"{self.channels}<->{self.outputs}"
        )
        stride = f", stride {self.stride}" if self.stride > 1 else ""
        groups = f", groups of {self.channels // self.groups}" if self.groups > 1 else ""
        kinds = f"{stride}{', depthwise' if self.is_depthwise else groups}"
        return f"{self.batch}x{self.size}x{self.size}x{channels} {self.kernel}x{self.kernel}{kinds}"

    @property
    def is_depthwise(self) -> bool:
        return self.groups == self.channels > 1

    @property
    def length(self) -> int:
        """Of its chain: images that a layer makes smaller aren't those of the next one."""
        return 1 if self.stride > 1 else LENGTH

    def chain(self) -> nn.Module:
        torch.manual_seed(0)
        sizes = [(self.channels, self.outputs), (self.outputs, self.channels)] * (LENGTH // 2)
        return nn.Sequential(
            *(
                nn.Conv2d(*each, self.kernel, self.stride, self.kernel // 2, groups=self.groups)
                for each in sizes[: self.length]
            )
        ).eval()

    def limit_us(self, type_: str, peaks: Peaks) -> float:
        """Microseconds that the layer takes at least, by memory or by what multiplies."""
        weights = self.channels // self.groups * self.outputs
        on_matrix_units = peaks.matrix_operations / (3 if type_ == "f32" else 1)
        rate = peaks.f32_operations if self.is_depthwise else max(on_matrix_units, peaks.f32_operations)
        operations = 2 * self.batch * self._taps_inside**2 * weights
        return max(self.moved_bytes(type_) / peaks.bytes, operations / rate)

    def moved_bytes(self, type_: str) -> int:
        """Of its image, filters and result, each number once."""
        pixels = self.batch * ceil_div(self.size, self.stride) ** 2
        read = pixels if self.kernel == 1 else self.batch * self.size**2
        filters = self.kernel**2 * (self.channels // self.groups) * self.outputs
        return (read * self.channels + filters + pixels * self.outputs) * TYPES[type_].itemsize

    @property
    def _taps_inside(self) -> int:
        """Of all outputs of a row or a column, those that multiply a pixel."""
        first = range(-(self.kernel // 2), self.size - self.kernel // 2, self.stride)
        return sum(0 <= each + tap < self.size for each in first for tap in range(self.kernel))

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


@torch.no_grad()
def layers_of(network: Network, batch: int) -> list[Layer]:
    """Distinct pointwise, depthwise and grouped layers of images of more than a pixel.

    Of a pointwise one and that which goes back there is one, as a chain has both.
    """
    found: dict[Layer, None] = {}
    model = network.build().eval()

    def add(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        shape = inputs[0].shape
        if isinstance(module, nn.Conv2d):
            kernel, stride = module.kernel_size[0], module.stride[0]
            layer = Layer(
                batch, shape[-1], module.in_channels, module.out_channels, kernel, stride, module.groups
            )
        elif isinstance(module, nn.Linear) and len(shape) == 4:
            layer = Layer(batch, shape[1], module.in_features, module.out_features, 1)
        else:
            return
        if layer.size == 1 or (layer.kernel > 1 and layer.groups == 1):
            return
        if layer.kernel == layer.stride == 1:
            fewer, more = sorted((layer.channels, layer.outputs))
            layer = replace(layer, channels=fewer, outputs=more)
        found[layer] = None

    for module in model.modules():
        module.register_forward_pre_hook(add)
    model(*network.inputs(1))
    return list(found)


@dataclass(frozen=True)
class Row:
    """Microseconds a layer and relative errors, ours and torch's, those that we predict, and the limit."""

    type: str
    ours_us: float
    torch_us: float | None
    ours_error: float
    torch_error: float
    predicted_us: float
    schedules: str
    limit_us: float
    predicted_error: float
    """Of a chain, whose layers' roundings are independent, those of results among them."""
    copied_us: float
    """Of a kernel that copies as many bytes as the layer moves."""
    kernels: dict[str, float]
    """Microseconds of each of ours in a call of the chain, by its name."""


@dataclass(frozen=True)
class Program:
    layer: Layer
    path: Path
    predicted: float
    schedules: str
    predicted_error: float


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
    predicted = sum(each["predicted_seconds"] for each in chosen) / layer.length
    rounding = 0.0 if type_ == "f32" else rounding_error(str(TYPES[type_]).removeprefix("torch."))
    error = hypot(*(hypot(each["predicted_error"], rounding) for each in chosen))
    return Program(layer, path, predicted, ", ".join(dict.fromkeys(kinds)), error)


def _tiles(output_tile: list[int]) -> str:
    return "" if set(output_tile) == {1} else f"F({'x'.join(map(str, output_tile))}) "


def programs(
    layers: Sequence[Layer], type_: str, folder: Path, jobs: int, seconds: float
) -> Iterator[Program]:
    """Those of layers as they are compiled, for at most so long."""
    end = time.monotonic() + seconds
    # Processes that this one forks wouldn't be without the GPU once it is used here.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.gpu_layers"])
    with context.Pool(jobs, maxtasksperchild=1) as pool:
        found = pool.imap_unordered(compiled, [(layer, type_, folder) for layer in layers])
        for _ in layers:
            try:
                yield found.next(max(0.0, end - time.monotonic()))
            except multiprocessing.TimeoutError:
                return
            except iree.winograd.CompilationError as error:
                print(f"a layer is left out: {error}", flush=True)


def times_of(call: Callable[[], object], rounds: int) -> list[KernelTime]:
    """Those of a warm call's kernels, but for those that change the layout of images."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    times = kernel_times(call, rounds)
    return [each for each in times if not any(part in each.name for part in LAYOUT)]


def microseconds(call: Callable[[], object], rounds: int) -> float:
    """Of all of them together."""
    return sum(each.total for each in times_of(call, rounds))


def _products(chain: nn.Module, image: torch.Tensor) -> torch.Tensor:
    """A chain of pointwise layers of an image channels last, as products of matrices."""
    pixels = image.permute(0, 2, 3, 1)
    for each in chain.children():
        assert isinstance(each, nn.Conv2d)
        pixels = functional.linear(pixels, each.weight.flatten(1), each.bias)
    return pixels


def measured(program: Program, type_: str, peaks: Peaks, rounds: int, *, ours_alone: bool) -> Row:
    """Both tools, one after the other, or ours alone.

    Torch's is the better of cuDNN's convolution and, of a pointwise layer, cuBLAS's product.
    """
    layer, number = program.layer, TYPES[type_]
    model, image = layer.chain().to(number).cuda(), layer.image().to(number).cuda()
    exact = layer.chain().to(number).double().cuda()(image.double())
    ours = iree.winograd.load(program.path, "cuda")
    theirs = model.to(memory_format=torch.channels_last)
    last = image.contiguous(memory_format=torch.channels_last)

    def error(result: torch.Tensor) -> float:
        return float((result.double() - exact).norm() / exact.norm())

    calls: list[Callable[[], object]] = [] if ours_alone else [lambda: theirs(last)]
    if layer.kernel == layer.stride == layer.groups == 1 and calls:
        calls.append(lambda: _products(theirs, last))
    torchs = [microseconds(call, rounds) / layer.length for call in calls]
    times = times_of(lambda: ours(image), rounds)
    return Row(
        type_,
        sum(each.total for each in times) / layer.length,
        min(torchs, default=None),
        error(ours(image)),
        error(theirs(last)),
        1e6 * program.predicted,
        program.schedules,
        layer.limit_us(type_, peaks),
        program.predicted_error,
        copy_microseconds(layer.moved_bytes(type_) // 2, rounds),
        {each.name: each.total for each in times},
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--type", choices=sorted(TYPES), default="f16")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=[], metavar="NETWORK")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 32], help="of layers of networks")
    parser.add_argument("--ours-alone", action="store_true", help="without torch's times")
    parser.add_argument("--least-limit", type=float, default=0.0, metavar="MICROSECONDS")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--budget", type=float, default=math.inf, metavar="SECONDS")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    begin = time.monotonic()
    results = ResultsFile(options.output, "layers")
    torch.backends.cudnn.benchmark = torch.backends.cuda.matmul.allow_tf32 = not options.ours_alone
    peaks = Peaks.measured(options.rounds)
    print(peaks, flush=True)
    layers = [
        layer
        for batch in options.batches
        for name in options.networks
        for layer in layers_of(NETWORKS[name], batch)
        if layer.limit_us(options.type, peaks) >= options.least_limit
    ]
    missing = [
        layer for layer in dict.fromkeys(layers) or LAYERS if f"{layer} {options.type}" not in results.rows
    ]
    left = options.budget - (time.monotonic() - begin)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for program in programs(missing, options.type, Path(folder), options.jobs, left):
            row = measured(program, options.type, peaks, options.rounds, ours_alone=options.ours_alone)
            results.add(f"{program.layer} {options.type}", asdict(row))
            print(f"{program.layer}: {row}", flush=True)


if __name__ == "__main__":
    main()
