"""Convolutions that write their outputs as channels of a larger tensor, as in dense blocks, on Vulkan."""

from __future__ import annotations

import copy

import iree.winograd
import numpy as np
import pytest
import torch
from iree.winograd.compiling.compilation import Compilation, Stages
from iree.winograd.compiling.program import open_session, open_source
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.targets import target_flags
from torch import nn
from wide import wide

UNIT_ROUNDOFF = 2.0**-24
ROUNDINGS = 2.0**11
"""More than an element goes through in four layers of less than 300 terms each."""


class Dense(nn.Module):
    """An image, and behind it the channels that layers make of all before."""

    def __init__(self, growths: tuple[int, ...]) -> None:
        super().__init__()
        channels, layers = 16, []
        for growth in growths:
            kernel = 3 if growth != 8 else 1
            layers.append(nn.Conv2d(channels, growth, kernel, padding=kernel // 2))
            channels += growth
        self.first, self.last = nn.Conv2d(4, 16, 3, padding=1), nn.Conv2d(channels, 8, 1)
        self.layers = nn.ModuleList(layers)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        image = self.first(image)
        for layer in self.layers:
            image = torch.cat([image, layer(torch.relu(image))], 1)
        return self.last(image)


def with_positive_weights(model: nn.Module) -> nn.Module:
    """The same layers with the absolute values of all weights: what sums are of, before anything cancels."""
    positive = copy.deepcopy(model)
    for parameter in positive.parameters():
        parameter.data.abs_()
    return positive


def copies(model: nn.Module, image: torch.Tensor) -> int:
    """How many of IREE's dispatches copy parts into larger tensors."""
    errors: list[object] = []
    session = open_session(target_flags("vulkan"), WinogradOptions(strict=True))
    with Compilation(
        session, WinogradOptions(strict=True), Stages(compile_to="flow"), report=errors.append
    ) as c:
        invocation = c.compile(open_source(c, iree.winograd.import_torch(model, image)))
        assert invocation is not None, errors
        return str(invocation.export_module()).count("slow_memcpy workgroups")


@pytest.mark.parametrize("growths", wide([(12, 10, 8)]))
def test_layers_write_the_channels_that_are_theirs(
    growths: tuple[int, ...], gpu_target: str, gpu_device: str
) -> None:
    torch.manual_seed(0)
    model, image = Dense(growths).eval(), torch.randn(2, 4, 13, 14)
    imported = iree.winograd.import_torch(model, image)
    program = iree.winograd.load(iree.winograd.compile(imported, target=gpu_target, strict=True), gpu_device)
    result = np.asarray(program(image.numpy()))
    with torch.no_grad():
        exact = model.double()(image.double()).numpy()
        largest = with_positive_weights(model)(image.abs().double()).numpy()
    assert (np.abs(result - exact) <= ROUNDINGS * UNIT_ROUNDOFF * largest).all()


@pytest.mark.parametrize("case", wide([((12, 8), 1), ((10, 6), 3)]))
def test_only_the_first_image_and_what_is_no_quads_is_copied(case: tuple[tuple[int, ...], int]) -> None:
    growths, expected = case
    torch.manual_seed(0)
    assert copies(Dense(growths).eval(), torch.randn(2, 4, 13, 14)) == expected
