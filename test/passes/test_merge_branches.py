"""Convolutions of one image that are added up, with batch norms, as RepVGG and MobileOne have them."""

from __future__ import annotations

import json
from pathlib import Path

import iree.winograd
import numpy as np
import torch

CHANNELS = 8
UNIT_ROUNDOFF = 2.0**-24


class Block(torch.nn.Module):
    """Convolutions of these kernel sizes, and the image where its size stays, each behind a batch norm."""

    def __init__(self, kernels: tuple[int, ...], stride: int, groups: int) -> None:
        super().__init__()
        self.convolutions = torch.nn.ModuleList(
            torch.nn.Conv2d(CHANNELS, CHANNELS, kernel, stride, kernel // 2, groups=groups)
            for kernel in kernels
        )
        number = len(kernels) + (stride == 1)
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(CHANNELS) for _ in range(number))
        for norm in self.norms:
            torch.nn.init.uniform_(norm.weight, -2, 2)
            torch.nn.init.normal_(norm.running_mean)
            torch.nn.init.uniform_(norm.running_var, 0.2, 2)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        results = [convolution(image) for convolution in self.convolutions]
        results += [image] * (len(self.norms) - len(results))
        return sum(norm(result) for norm, result in zip(self.norms, results, strict=True))

    def error_bound(self, image: torch.Tensor) -> torch.Tensor:
        """That of a sum in f32 of products with filters that were added and rounded: its number of roundings,
        by the sum of the absolute values of all that is added."""
        taps = max(convolution.weight[0].numel() for convolution in self.convolutions)
        total = torch.zeros(())
        for index, norm in enumerate(self.norms):
            scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
            shift = norm.bias - scale * norm.running_mean
            terms = image.abs()
            if index < len(self.convolutions):
                convolution = self.convolutions[index]
                shift = shift + scale * convolution.bias
                terms = torch.nn.functional.conv2d(
                    terms,
                    convolution.weight.abs(),
                    None,
                    convolution.stride,
                    convolution.padding,
                    1,
                    convolution.groups,
                )
            total = total + terms * scale.abs()[:, None, None] + shift.abs()[:, None, None]
        # Each product and each addition, the filter's and the shift's rounding, and the shift's addition.
        return (taps + 4) * UNIT_ROUNDOFF * total


class Blocks(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(
            [
                Block((1, 3), stride=1, groups=1),
                Block((3, 3, 1), stride=1, groups=CHANNELS),
                Block((5, 3, 1), stride=2, groups=2),
            ]
        )

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(block(image) for block in self.blocks)


def test_a_block_is_one_convolution(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, image = Blocks().eval(), torch.randn(2, CHANNELS, 9, 10)
    module = iree.winograd.import_torch(model, image)
    path = tmp_path / "report.json"
    # Convolutions as they are, whose bound is known.
    program = iree.winograd.compile(module, target="cpu", output_tile=1, threads=1, strict=True, report=path)
    assert len(json.loads(path.read_text())["layers"]) == len(model.blocks)
    results = iree.winograd.load(program, device="local-sync")(image.numpy())
    with torch.no_grad():
        for block, result in zip(model.double().blocks, results, strict=True):
            expected, bound = block(image.double()), block.error_bound(image.double())
            assert np.all(np.abs(np.asarray(result) - expected.numpy()) <= bound.numpy())
