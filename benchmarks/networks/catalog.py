"""The networks that the benchmarks run, with weights as they are before training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from benchmarks.networks.googlenet import GoogLeNet
from benchmarks.networks.unet import UNet


@dataclass(frozen=True)
class Network:
    """How to make a network; `input_shape` is that of one image, channels x height x width."""

    build: Callable[[], nn.Module]
    input_shape: tuple[int, int, int]


def _from_pytorchcv(name: str) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        from pytorchcv.model_provider import get_model

        model: nn.Module = get_model(name, pretrained=False)
        return model

    return build


NETWORKS = {
    "alexnet": Network(_from_pytorchcv("alexnet"), (3, 224, 224)),
    "vgg16": Network(_from_pytorchcv("vgg16"), (3, 224, 224)),
    "resnet18": Network(_from_pytorchcv("resnet18"), (3, 224, 224)),
    "resnet50": Network(_from_pytorchcv("resnet50"), (3, 224, 224)),
    "resnet152": Network(_from_pytorchcv("resnet152"), (3, 224, 224)),
    "googlenet": Network(GoogLeNet, (3, 224, 224)),
    "inceptionv3": Network(_from_pytorchcv("inceptionv3"), (3, 299, 299)),
    "densenet161": Network(_from_pytorchcv("densenet161"), (3, 224, 224)),
    "unet": Network(UNet, (1, 256, 256)),
}


def build_network(name: str) -> nn.Module:
    """The network in evaluation mode; batch normalization has the statistics of random images."""
    torch.manual_seed(0)
    network = NETWORKS[name]
    model = network.build()
    normalizations = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    if normalizations:
        for normalization in normalizations:
            normalization.momentum = 1.0
        with torch.no_grad():
            model.train()(torch.randn(4, *network.input_shape))
    return model.eval()
