"""What lies between convolutions on a GPU of NVIDIA: its kernels beside the speed of memory.

    python -m benchmarks.gpu_between --jobs 14 --output benchmarks/results/gpu-between-h200.json

Each layer is between two pointwise convolutions of few channels, so that its image and its result are
channels last; kernels of convolutions aren't counted, nor what they do of the layer as they store. Durations
are by CUPTI, the median of `--rounds` calls. The limit is what a layer has to read and to write, each number
once, at the speed of copies of 1 GiB on the same GPU. Beside it is a copy of just as many bytes, which has
to begin and to end as the layer's kernels have. Errors are relative to float64 in the 2-norm, of all three.
With `--inductor` the layer by itself is compiled by it, too, and its kernels are timed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

import iree.winograd
import torch
from torch import nn
from torch.nn import functional

from benchmarks.gpu_kernel_times import COPIED_BYTES, copy_microseconds, kernel_times
from benchmarks.reduction_networks import Applied, ChannelNorm, SqueezeAndExcitation
from benchmarks.results_file import ResultsFile

TITLE = "gpu_between"
_FEW = 8
"""Channels of the image before the first convolution and behind the second."""
_OTHER_KERNELS = re.compile(
    rf"winograd_(direct_f1x1|products|input|output|filter)_|channels_last_\d+x{_FEW}$|channels_first_{_FEW}x"
    rf"|dispatch_\d+_transpose_(\d+x)?({_FEW}x\d+|\d+x{_FEW})_f16$"
)
"""Of convolutions, and what changes the layout of the network's image and result."""
_GLU_CHANNELS = 640


@dataclass(frozen=True)
class Layer:
    """A layer of images N x C x H x W that makes `outputs` channels of `channels`."""

    build: Callable[[], nn.Module]
    shape: tuple[int, int, int, int]
    outputs: int
    read_twice: bool = False
    """Whether no kernel can read the image but twice: statistics of more than a cluster of multiprocessors
    holds."""


def _mean(image: torch.Tensor) -> torch.Tensor:
    return image.mean((2, 3), keepdim=True)


def _gated(image: torch.Tensor) -> torch.Tensor:
    values, gates = image.chunk(2, dim=1)
    return values * functional.gelu(gates)


def _reflected(image: torch.Tensor) -> torch.Tensor:
    return functional.pad(image, (1, 1, 1, 1), mode="reflect")


def _replicated(image: torch.Tensor) -> torch.Tensor:
    return functional.pad(image, (1, 1, 1, 1), mode="replicate")


def _resized(factor: float, mode: str, corners: bool | None = None) -> Callable[[], nn.Module]:
    return lambda: nn.Upsample(scale_factor=factor, mode=mode, align_corners=corners)


def _group_norm(channels: int, size: int) -> Layer:
    """Of the U-Net of Stable Diffusion, for two images."""
    return Layer(
        lambda: nn.Sequential(nn.GroupNorm(32, channels), nn.SiLU()), (2, channels, size, size), channels
    )


LAYERS = MappingProxyType(
    {
        "group norm, SiLU": Layer(
            lambda: nn.Sequential(nn.GroupNorm(32, 128), nn.SiLU()), (1, 128, 512, 512), 128, True
        ),
        "group norm, SiLU, small": _group_norm(320, 64),
        "group norm, SiLU, 32x32": _group_norm(640, 32),
        "group norm, SiLU, 16x16": _group_norm(1280, 16),
        "group norm, SiLU, 8x8": _group_norm(1280, 8),
        "instance norm": Layer(lambda: nn.InstanceNorm2d(64, affine=True), (8, 64, 128, 128), 64),
        "layer norm of channels": Layer(lambda: ChannelNorm(96), (32, 96, 56, 56), 96),
        "layer norm, small": Layer(lambda: ChannelNorm(384), (1, 384, 28, 28), 384),
        "softmax of channels": Layer(lambda: nn.Softmax(1), (32, 64, 56, 56), 64),
        "softmax of 21 channels": Layer(lambda: nn.Softmax(1), (8, 21, 256, 256), 21),
        "squeeze and excitation": Layer(lambda: SqueezeAndExcitation(96), (32, 96, 56, 56), 96, True),
        "mean of pixels": Layer(lambda: Applied(_mean), (32, 1280, 14, 14), 1280),
        "max pooling 3x3, stride 2": Layer(lambda: nn.MaxPool2d(3, 2, 1), (32, 64, 112, 112), 64),
        "average pooling 3x3": Layer(lambda: nn.AvgPool2d(3, 1, 1), (32, 288, 35, 35), 288),
        "average pooling 2x2": Layer(lambda: nn.AvgPool2d(2), (32, 128, 56, 56), 128),
        "adaptive pooling to 7x7": Layer(lambda: nn.AdaptiveAvgPool2d(7), (32, 512, 28, 28), 512),
        "nearest, twice the size": Layer(_resized(2.0, "nearest"), (1, 256, 256, 256), 256),
        "bilinear, twice the size": Layer(_resized(2.0, "bilinear"), (1, 256, 128, 128), 256),
        "bilinear, corners aligned": Layer(_resized(2.0, "bilinear", True), (1, 256, 128, 128), 256),
        "bilinear, eight times the size": Layer(_resized(8.0, "bilinear"), (1, 64, 64, 64), 64),
        "bilinear, 21 classes": Layer(_resized(8.0, "bilinear"), (1, 21, 64, 64), 21),
        "bilinear, 1.3 times the size": Layer(_resized(1.3, "bilinear"), (4, 128, 64, 64), 128),
        "bilinear, small": Layer(_resized(2.0, "bilinear"), (1, 64, 32, 32), 64),
        "bicubic, twice the size": Layer(_resized(2.0, "bicubic"), (1, 128, 128, 128), 128),
        "pixel shuffle": Layer(lambda: nn.PixelShuffle(2), (1, 256, 256, 256), 64),
        "reflection": Layer(lambda: Applied(_reflected), (1, 64, 512, 512), 64),
        "replication": Layer(lambda: Applied(_replicated), (8, 64, 128, 128), 64),
        "gated GELU": Layer(lambda: Applied(_gated), (2, 2 * _GLU_CHANNELS, 64, 64), _GLU_CHANNELS),
    }
)
"""Of diffusion models, ConvNeXt, EfficientNet, Inception, DenseNet, super-resolution and segmentation."""
TYPES = MappingProxyType({"f32": torch.float32, "f16": torch.float16})


@dataclass(frozen=True)
class Row:
    """Bytes that have to be moved, microseconds of all kernels and of a copy of so many bytes, errors."""

    layer: str
    type: str
    shape: tuple[int, ...]
    bytes: int
    microseconds: float
    copy_microseconds: float
    kernels: tuple[tuple[str, float, float], ...]
    """Names, launches a call, microseconds of one."""
    error: float
    torch_error: float
    equal_copy_microseconds: float
    """Of one kernel that copies as many bytes."""
    inductor_microseconds: float | None = None
    """Of all of its kernels for the layer, of an image that is channels last."""


def network(layer: Layer) -> nn.Sequential:
    """The layer between two convolutions."""
    torch.manual_seed(0)
    before, after = nn.Conv2d(_FEW, layer.shape[1], 1), nn.Conv2d(layer.outputs, _FEW, 1)
    return nn.Sequential(before, layer.build(), after).eval()


def image(layer: Layer) -> torch.Tensor:
    """What the network takes."""
    batch, _, height, width = layer.shape
    return torch.randn(batch, _FEW, height, width)


def compiled(task: tuple[str, str, Path]) -> Path:
    """The program of a layer."""
    name, type_, folder = task
    layer = LAYERS[name]
    path = folder / f"{list(LAYERS).index(name)}-{type_}.vmfb"
    imported = iree.winograd.import_torch(network(layer).to(TYPES[type_]), image(layer).to(TYPES[type_]))
    iree.winograd.compile(imported, target="cuda:sm_90a", output=path, strict=True)
    return path


@torch.no_grad()
def measured(
    name: str, type_: str, path: Path, bytes_per_microsecond: float, rounds: int, *, inductor: bool
) -> Row:
    """The kernels of a layer's program."""
    layer, dtype = LAYERS[name], TYPES[type_]
    model, data = network(layer).to("cuda", dtype), image(layer).to("cuda", dtype)
    exact = network(layer).to("cuda", dtype).double()(data.double())
    ours = iree.winograd.load(path, "cuda")

    def error(result: torch.Tensor) -> float:
        return float((result.double() - exact).norm() / exact.norm())

    for _ in range(3):
        ours(data)
    torch.cuda.synchronize()
    kernels = [
        each for each in kernel_times(lambda: ours(data), rounds) if not _OTHER_KERNELS.search(each.name)
    ]
    inputs = model[0](data)
    moved = (inputs.numel() * (2 if layer.read_twice else 1) + model[1](inputs).numel()) * inputs.itemsize
    return Row(
        name,
        type_,
        layer.shape,
        moved,
        sum(each.total for each in kernels),
        moved / bytes_per_microsecond,
        tuple((each.name[:100], each.count, each.microseconds) for each in kernels),
        error(ours(data)),
        error(model(data)),
        copy_microseconds(moved // 2, rounds),
        _inductor_microseconds(model[1], inputs, rounds) if inductor else None,
    )


def _inductor_microseconds(layer: nn.Module, inputs: torch.Tensor, rounds: int) -> float:
    # Layers of a class before it would have sizes be unknown.
    torch.compiler.reset()
    call, channels_last = torch.compile(layer), inputs.contiguous(memory_format=torch.channels_last)
    for _ in range(3):
        call(channels_last)
    return sum(each.total for each in kernel_times(lambda: call(channels_last), rounds))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", nargs="+", choices=LAYERS, default=list(LAYERS), metavar="LAYER")
    parser.add_argument("--types", nargs="+", choices=TYPES, default=list(TYPES))
    parser.add_argument("--inductor", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    results = ResultsFile(options.output, TITLE)
    with tempfile.TemporaryDirectory() as folder:
        subjects = [(name, type_) for name in options.layers for type_ in options.types]
        with multiprocessing.get_context("fork").Pool(options.jobs, maxtasksperchild=1) as pool:
            paths = pool.map(compiled, [(*each, Path(folder)) for each in subjects], chunksize=1)
        speed = 2 * COPIED_BYTES / copy_microseconds(COPIED_BYTES, options.rounds)
        for subject, path in zip(subjects, paths, strict=True):
            row = measured(*subject, path, speed, options.rounds, inductor=options.inductor)
            results.add(" ".join(subject), asdict(row))
            print(f"{' '.join(subject)}: {row}", flush=True)


if __name__ == "__main__":
    main()
