"""A torch network compiled in the process that it runs in, and what became of its operators.

python samples/torch_compile.py
"""

from __future__ import annotations

import copy

import torch
from iree.winograd import explain


class Network(torch.nn.Module):
    """Two convolutions, an operator that has to be left to others, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Sequential(
            torch.nn.Conv2d(3, 32, 3, padding=1, bias=False), torch.nn.BatchNorm2d(32), torch.nn.ReLU()
        )
        self.block = torch.nn.Conv2d(32, 32, 3, padding=1)
        self.classifier = torch.nn.Linear(32, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = self.stem(image)
        features = torch.special.bessel_j0(self.block(features) + features)
        result: torch.Tensor = self.classifier(features.mean(dim=(2, 3)))
        return result


def main() -> None:
    torch.manual_seed(0)
    network = Network().eval()
    images = torch.randn(4, 3, 32, 32)
    options = {"fallback": "eager"}
    # The backend is found by its name: torch.compile needs no import of ours.
    compiled = torch.compile(network, backend="winograd", options=options)
    with torch.inference_mode():
        print(f"largest error {largest_error(compiled(images), network, images):.1e}")
        print(explain(network, images, options=options))
        network.load_state_dict(Network().state_dict())
        print(f"with other weights {largest_error(compiled(images), network, images):.1e}")


def largest_error(result: torch.Tensor, network: Network, images: torch.Tensor) -> float:
    """Relative to the largest output in double precision."""
    exact = copy.deepcopy(network).double()(images.double())
    return float((result - exact).abs().max() / exact.abs().max())


if __name__ == "__main__":
    main()
