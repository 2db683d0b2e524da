"""What a network of the benchmarks is: how to make it, and the size of its input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

_CALIBRATION_BATCH = 4


@dataclass(frozen=True)
class Network:
    """How to make a network; `input_shape` is that of one image (or sound, or film), channels first.

    `conditions` makes what else it takes for a batch.
    """

    build: Callable[[], nn.Module]
    input_shape: tuple[int, ...]
    conditions: Callable[[int], tuple[torch.Tensor, ...]] = lambda batch: ()

    def calibrated(self) -> nn.Module:
        """The network in evaluation mode, its weights as they are before training, the same for each call.

        Batch normalization has the statistics of random inputs, without which activations would vanish or
        grow from layer to layer.
        """
        torch.manual_seed(0)
        model = self.build().eval()
        normalizations = [
            module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)
        ]
        if not normalizations:
            return model
        for normalization in normalizations:
            normalization.momentum = 1.0
            normalization.train()
        with torch.no_grad():
            model(self.input(_CALIBRATION_BATCH))
        return model.eval()

    def input(self, batch: int) -> torch.Tensor:
        """Normal data, `batch` x `input_shape`."""
        return torch.randn(batch, *self.input_shape)

    def inputs(self, batch: int) -> tuple[torch.Tensor, ...]:
        """All that the network takes for a batch, `input` first."""
        return self.input(batch), *self.conditions(batch)
