"""Networks small enough to be compiled in a second, and how far from eager their results may be."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from iree.winograd.torch_compile import backend

UNIT_ROUNDOFF = 2.0**-24
THREADS = {"threads": 1}


class Network(torch.nn.Module):
    """Two convolutions, batch normalization, a shortcut and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.normalization = torch.nn.BatchNorm2d(8)
        self.block = torch.nn.Conv2d(8, 8, 3, padding=1)
        self.classifier = torch.nn.Linear(8, 5)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = torch.relu(self.normalization(self.stem(image)))
        features = features + self.between(self.block(features))
        result: torch.Tensor = self.classifier(features.mean(dim=(2, 3)))
        return result

    def between(self, features: torch.Tensor) -> torch.Tensor:
        """What subclasses compute in the middle."""
        return features


class BesselNetwork(Network):
    """With an operator that torch-mlir doesn't know."""

    def between(self, features: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(features)


class ImageNetwork(torch.nn.Module):
    """Gives an image, and where it is largest."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, stride=2)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.convolution(image)
        return features, features.argmax(dim=1)


def compiled(model: torch.nn.Module, dynamic: bool | None = None, **options: Any) -> Callable[..., Any]:
    def compile_graph(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return backend.winograd(graph, inputs, options={**THREADS, **options})

    return torch.compile(model.eval(), backend=compile_graph, dynamic=dynamic)


def check(model: torch.nn.Module, function: Callable[..., Any], images: torch.Tensor) -> None:
    """Compares with float64: no value depends on more than 72 + 72 + 8 products and 144 sums for the mean."""
    exact = copy.deepcopy(model).double()(images.double())
    result = function(images)
    # The transforms of small tiles enlarge errors by less than ten.
    torch.testing.assert_close(
        result, exact.float(), rtol=0, atol=10 * 300 * UNIT_ROUNDOFF * float(exact.abs().max())
    )
