"""Compiles what lies between convolutions for AMD's GPUs: kernels of ours, and IREE's own.

    python -m benchmarks.amd.between --output benchmarks/results/amd-between.json

Each operation is between two pointwise convolutions. Kernels of convolutions are left out, which
`benchmarks.amd.chosen` has, but for those that read or write parts of a concatenation in their place. Needs
torch. What is missing in the file is added. The exit status is 1 where a kernel spills registers or leaves a
SIMD less than two waves.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import iree.winograd
import torch
from iree.winograd.importers.imported_model import ImportedModel
from torch import nn
from torch.nn import functional

from benchmarks.amd.chosen import FEWEST_WAVES, kernel_facts
from benchmarks.amd.compiled import ALL_TARGETS, CompiledProgram, compiled_for_each
from benchmarks.amd.kernel import CompiledKernel
from benchmarks.amd.radv import MESA, is_installed
from benchmarks.amd.rocm import TARGETS
from benchmarks.reduction_networks import (
    IMAGE_CHANNELS,
    Applied,
    Attention,
    Between,
    ChannelNorm,
    SqueezeAndExcitation,
)
from benchmarks.results_file import ResultsFile

_BATCH = 2
_OF_LAYERS = re.compile(r"winograd_(?:direct|products|input|output|fused|depthwise|filter)_")
"""How the names of kernels of convolutions begin."""


@dataclass(frozen=True)
class Operation:
    """A layer on images of so many channels, `size` x `size`."""

    channels: int
    size: int
    layer: nn.Module
    concatenates: bool = False
    """Whether its convolutions read and write parts of larger tensors, so that their kernels count."""

    def imported(self) -> ImportedModel:
        """The program, with convolutions before and after the layer."""
        torch.manual_seed(0)
        model = Between([(self.channels, self.layer)]).eval()
        image = torch.randn(_BATCH, IMAGE_CHANNELS, self.size, self.size)
        return iree.winograd.import_torch(model, image)

    def own(self, kernels: Sequence[CompiledKernel]) -> list[CompiledKernel]:
        """Those of the kernels of its program that are looked at."""
        return [each for each in kernels if self.concatenates or not _OF_LAYERS.match(each.name)]


class DenseBlock(nn.Module):
    """Layers that read an image and what layers before made of it, and a transition to as many channels."""

    def __init__(self, channels: int, growth: int, layers: int) -> None:
        super().__init__()
        widths = [channels + growth * layer for layer in range(layers + 1)]
        self.narrow = nn.ModuleList(nn.Conv2d(width, 4 * growth, 1) for width in widths[:-1])
        self.grow = nn.ModuleList(nn.Conv2d(4 * growth, growth, 3, padding=1) for _ in range(layers))
        self.transition = nn.Conv2d(widths[-1], channels, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        for narrow, grow in zip(self.narrow, self.grow, strict=True):
            image = torch.cat([image, grow(torch.relu(narrow(image)))], 1)
        return self.transition(image)


class SkipConnection(nn.Module):
    """A level of a U-Net: an image beside what is made of a smaller one, by a transposed convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.skip, self.deep = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.up = nn.ConvTranspose2d(channels, channels, 2, stride=2)
        self.merge = nn.Conv2d(2 * channels, channels, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        skip = torch.relu(self.skip(image))
        deep = torch.relu(self.deep(functional.max_pool2d(skip, 2)))
        return self.merge(torch.cat([skip, self.up(deep)], 1))


def _softmax_of_pixels(image: torch.Tensor) -> torch.Tensor:
    return torch.softmax(image.flatten(2), 2).reshape(image.shape)


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "group normalization": Operation(320, 64, nn.GroupNorm(32, 320)),
        "normalization of one group": Operation(96, 56, nn.GroupNorm(1, 96)),
        "layer normalization": Operation(768, 14, ChannelNorm(768)),
        "softmax of channels": Operation(64, 32, Applied(lambda image: torch.softmax(image, 1))),
        "softmax of pixels": Operation(64, 32, Applied(_softmax_of_pixels)),
        "maxima of windows": Operation(64, 112, nn.MaxPool2d(3, 2, 1)),
        "means of windows": Operation(256, 56, nn.AvgPool2d(2)),
        "means of images": Operation(2048, 7, nn.AdaptiveAvgPool2d(1)),
        "squeeze and excitation": Operation(240, 28, SqueezeAndExcitation(240)),
        "nearest resizing": Operation(320, 32, nn.Upsample(scale_factor=2)),
        "bilinear resizing": Operation(256, 28, nn.Upsample(scale_factor=2, mode="bilinear")),
        "attention of eight heads": Operation(320, 32, Attention(320, 32, 8)),
        "attention of one head": Operation(128, 32, Attention(128, 32, 1)),
        "SiLU": Operation(64, 56, nn.SiLU()),
        "GELU": Operation(384, 14, nn.GELU()),
        "dense block": Operation(64, 56, DenseBlock(64, 32, 3), concatenates=True),
        "dense block of odd channels": Operation(30, 28, DenseBlock(30, 18, 3), concatenates=True),
        "skip connection": Operation(64, 64, SkipConnection(64), concatenates=True),
    }
)
"""By name: ResNet's, EfficientNet's, ConvNeXt's, Stable Diffusion's, DenseNet's and U-Net's."""


def main(command_line: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--operations", nargs="+", choices=OPERATIONS, default=list(OPERATIONS))
    parser.add_argument("--targets", nargs="+", metavar="TARGET", help="all that there is a compiler for")
    parser.add_argument("--output", type=Path, help="a JSON file")
    parser.add_argument("--mesa", type=Path, default=MESA, help="the folder that Mesa is in")
    arguments = parser.parse_args(command_line)
    targets = arguments.targets or (ALL_TARGETS if is_installed(arguments.mesa) else TARGETS)
    results = ResultsFile(arguments.output, "operations")
    wrong = 0
    for name in arguments.operations:
        missing = [each for each in targets if f"{name}, {each}" not in results.rows]
        if not missing:
            continue
        for target, compiled in compiled_for_each(OPERATIONS[name].imported(), missing, mesa=arguments.mesa):
            row = f"{name}, {target}"
            if not isinstance(compiled, CompiledProgram):
                wrong += 1
                print(f"{row}: {compiled}", file=sys.stderr)
                continue
            kernels = OPERATIONS[name].own(compiled.kernels)
            results.add(
                row, {"operation": name, "target": target, "kernels": list(map(kernel_facts, kernels))}
            )
            for kernel in kernels:
                if kernel.spilled or kernel.waves < FEWEST_WAVES:
                    wrong += 1
                    print(f"{row}: {kernel.name} spills {kernel.spilled}, {kernel.waves} waves")
            print(f"{row}: {len(kernels)} kernels", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
