"""A small network of large kernels, trained by this project's programs and by torch beside each other.

python samples/train.py [--steps N] [--batch N]
"""

from __future__ import annotations

import argparse
import copy
import math
import time
from collections.abc import Callable

import torch

CLASSES = 6
SIZE = 48


class Network(torch.nn.Module):
    """Kernels of 11 x 11, 7 x 7 with a stride, and 5 x 5."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(1, 16, 11, padding=5, bias=False),
            torch.nn.BatchNorm2d(16),
            torch.nn.ReLU(),
            torch.nn.Conv2d(16, 32, 7, stride=2, padding=3),
            torch.nn.ReLU(),
            torch.nn.Conv2d(32, 32, 5, padding=2),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
        )
        self.classifier = torch.nn.Linear(32, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.layers(images).mean(dim=(2, 3))
        result: torch.Tensor = self.classifier(features)
        return result


class Trainer:
    """Trains `network` by calling `function`, which is that or what it was compiled to."""

    def __init__(self, network: Network, function: Callable[..., torch.Tensor]) -> None:
        self.network = network
        self.seconds: list[float] = []
        self._function = function
        self._optimizer = torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9)

    def step(self, images: torch.Tensor, classes: torch.Tensor) -> float:
        """One step of the optimizer; returns the loss before it."""
        begin = time.perf_counter()
        self._optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(self._function(images), classes)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self.seconds.append(time.perf_counter() - begin)
        return loss.item()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32)
    options = parser.parse_args()
    torch.manual_seed(0)
    network = Network()
    eager = copy.deepcopy(network)
    # The backend is found by its name: torch.compile needs no import of ours.
    compiled = torch.compile(network, backend="winograd")
    ours, theirs = Trainer(network, compiled), Trainer(eager, eager)
    print("step  loss of torch  and with winograd")
    for step in range(options.steps):
        images, classes = waves(options.batch)
        losses = theirs.step(images, classes), ours.step(images, classes)
        if step % max(1, options.steps // 10) == 0 or step == options.steps - 1:
            print(f"{step:4}  {losses[0]:13.6f}  {losses[1]:17.6f}")
    images, classes = waves(256)
    for name, trainer in (("torch", theirs), ("winograd", ours)):
        milliseconds = 1e3 * sorted(trainer.seconds)[len(trainer.seconds) // 2]
        share = accuracy(trainer.network, images, classes)
        print(f"{name}: {share:.0%} of other images are classified rightly; {milliseconds:.1f} ms a step")


def waves(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images of a wave in one of the directions, which are the classes, of random phase, in noise."""
    classes = torch.randint(CLASSES, (count,))
    angles, phases = math.pi * classes / CLASSES, 2 * math.pi * torch.rand(count)
    rows, columns = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    across = angles.cos()[:, None, None] * columns + angles.sin()[:, None, None] * rows
    images = torch.sin(0.7 * across + phases[:, None, None]) + 2 * torch.randn(count, SIZE, SIZE)
    return images[:, None], classes


def accuracy(network: Network, images: torch.Tensor, classes: torch.Tensor) -> float:
    """The share of images of which the network finds the class."""
    with torch.no_grad():
        found = network.eval()(images).argmax(dim=1)
    return float((found == classes).float().mean())


if __name__ == "__main__":
    main()
