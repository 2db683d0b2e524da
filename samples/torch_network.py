"""A torch network compiled once, for any batch size, and run on numpy arrays and torch tensors.

python samples/torch_network.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from iree.winograd import compile, import_torch, load


class Network(torch.nn.Module):
    """Three convolutions, one of them around a shortcut, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Sequential(
            torch.nn.Conv2d(3, 32, 3, padding=1, bias=False), torch.nn.BatchNorm2d(32), torch.nn.ReLU()
        )
        self.block = torch.nn.Sequential(
            torch.nn.Conv2d(32, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3, padding=1)
        )
        self.classifier = torch.nn.Linear(32, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = self.stem(image)
        features = torch.relu(self.block(features) + features)
        result: torch.Tensor = self.classifier(features.mean(dim=(2, 3)))
        return result


def main() -> None:
    torch.manual_seed(0)
    network = Network().eval()
    model = import_torch(network, torch.zeros(1, 3, 32, 32), dynamic_batch=True)
    print(f"imported: {model.inputs[0]} to {model.outputs[0]}")
    # What each convolution became, or why it was left, goes to the standard error stream.
    compile(model, output="network.vmfb", remarks=True, strict=True)
    program = load("network.vmfb")
    for batch in (1, 4, 7):
        images = torch.randn(batch, 3, 32, 32)
        with torch.no_grad():
            exact = network.double()(images.double())
            network.float()
        error = (program(images) - exact).abs().max() / exact.abs().max()
        print(f"batch {batch}: largest error {error:.1e}")
    result = program(np.ones((2, 3, 32, 32), np.float32))
    print(f"of a numpy array: {type(result).__name__} of shape {result.shape}")
    Path("network.vmfb").unlink()


if __name__ == "__main__":
    main()
