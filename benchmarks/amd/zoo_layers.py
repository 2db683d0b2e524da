"""The convolutions of networks of the package pytorchcv, read from their shapes alone.

python -m benchmarks.amd.zoo_layers > layers.txt        # all that differ, one a line
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from torch import nn

from benchmarks.amd.layers import LAYERS, layer_problem

NETWORKS = (
    "resnet18",
    "resnet50",
    "resnext50_32x4d",
    "seresnet50",
    "vgg16",
    "densenet121",
    "mobilenetv2_w1",
    "efficientnet_b0",
    "shufflenetv2_w1",
    "darknet53",
    "wrn50_2",
    "inceptionv3",
)
"""A dozen families: plain, grouped and depthwise convolutions, dense blocks, long and wide kernels."""
BATCHES = (1, 32)
_SIZES = {"inceptionv3": 299}


def network_layers(name: str, batch: int) -> Iterator[ConvolutionProblem]:
    """Those of a network of pytorchcv at a batch, in the order of its layers."""
    from pytorchcv.model_provider import get_model

    size, found = _SIZES.get(name, 224), []

    def note(layer: nn.Module, inputs: tuple[Any, ...], _: Any) -> None:
        assert isinstance(layer, nn.Conv2d)
        _, channels, *image = inputs[0].shape
        padding = tuple(layer.padding)
        found.append(
            ConvolutionProblem(
                batch,
                tuple(image),
                padding,  # type: ignore[arg-type]
                padding,  # type: ignore[arg-type]
                layer.kernel_size,
                layer.stride,
                layer.dilation,
                layer.groups,
                channels,
                layer.out_channels,
            )
        )

    with torch.device("meta"):
        model = get_model(name, pretrained=False).eval()
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(note)
    with torch.no_grad():
        model(torch.empty(batch, 3, size, size, device="meta"))
    yield from found


def zoo_layers() -> Iterator[ConvolutionProblem]:
    """Those of all networks at all batches, and those of `benchmarks.amd`, each once."""
    layers = (network_layers(network, batch) for batch in BATCHES for network in NETWORKS)
    yield from dict.fromkeys(chain(map(layer_problem, LAYERS.values()), *layers))


if __name__ == "__main__":
    print(*zoo_layers(), sep="\n")
