"""Networks whose images come in any size: one program each, from torch and from ONNX."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

import iree.winograd as winograd
import numpy as np
import pytest
import torch
from iree.winograd import ImportedModel
from torch import nn
from torch.utils import _pytree as pytree

from benchmarks.networks.open_sizes import OPEN_NETWORKS, OpenNetwork

pytestmark = pytest.mark.wide

TIMES = [(1.0, 1.0), (1.0, 9.0), (7.0, 1.0), (5.0, 11.0), (2.0, 3.0)]
"""Of the least size of each dimension: a row, a column, primes, and what is larger than the example."""
EXAMPLE = (3, 2)
DRAWN, LARGEST = 20, 12
"""Sizes that are drawn beside these, up to so many times the least one in each dimension."""


def from_torch(model: nn.Module, network: OpenNetwork, path: Path) -> ImportedModel:
    example = torch.zeros(1, network.channels, *network.size(EXAMPLE))
    exported = torch.export.export(model, (example,), dynamic_shapes=(network.dimensions,))
    return winograd.import_torch(exported)


def from_onnx(model: nn.Module, network: OpenNetwork, path: Path) -> ImportedModel:
    torch.onnx.export(
        model,
        (torch.zeros(1, network.channels, *network.size(EXAMPLE)),),
        str(path),
        dynamo=False,
        input_names=["image"],
        dynamic_axes={"image": {dimension: f"size_{dimension}" for dimension in network.dimensions}},
    )
    return winograd.import_onnx(path)


BY_TORCH = (
    "unet, bilinear",
    "resnet with fpn",
    "detector with neck",
    "deeplab",
    "efficientnet",
    "wave-u-net",
    "film",
)
BY_ONNX = ("unet, transposed", "unet, nearest", "esrgan block", "mobilenetv2")
Size = tuple[int, ...]
Import = Callable[[nn.Module, OpenNetwork, Path], ImportedModel]


@pytest.mark.parametrize(
    ("name", "imported"),
    [
        *((name, from_torch) for name in BY_TORCH),
        *((name, from_onnx) for name in BY_ONNX),
    ],
)
def test_all_convolutions_are_taken_and_right(name: str, imported: Import, tmp_path: Path) -> None:
    sizes = [*fixed_sizes(name), *drawn_sizes(name)]
    expect_right(name, imported, sizes, tmp_path, "local-sync", threads=1)


@pytest.mark.parametrize("name", ["unet, transposed", "detector with neck", "efficientnet", "film"])
def test_all_are_taken_on_gpus(name: str, tmp_path: Path) -> None:
    expect_right(name, from_torch, fixed_sizes(name), tmp_path, "vulkan", target="vulkan")


def expect_right(
    name: str, imported: Import, sizes: Sequence[Size], tmp_path: Path, device: str, **options: Any
) -> None:
    network = OPEN_NETWORKS[name]
    model = network.network.calibrated()
    source = imported(model, network, tmp_path / "network.onnx")
    with warnings.catch_warnings():
        # A convolution that is left is one.
        warnings.simplefilter("error")
        compiled = winograd.compile(source, **options)
    program, exact = winograd.load(compiled, device), copy.deepcopy(model).double()
    for size in sizes:
        image = torch.randn(1, network.channels, *size)
        with torch.no_grad():
            expected = [each.numpy() for each in pytree.tree_leaves(exact(image.double()))]
        results = [np.asarray(each) for each in pytree.tree_leaves(program(image.numpy()))]
        assert [each.shape for each in results] == [each.shape for each in expected], image.shape
        for result, values in zip(results, expected, strict=True):
            assert np.abs(result - values).max() <= _bound(model) * np.abs(values).max(), image.shape


def fixed_sizes(name: str) -> list[Size]:
    return [OPEN_NETWORKS[name].size(times) for times in TIMES]


def drawn_sizes(name: str) -> list[Size]:
    """The same of a network in each run."""
    network, draw = OPEN_NETWORKS[name], random.Random(name)
    return [
        tuple(
            multiple * draw.randint(least, LARGEST * least)
            for multiple, least in zip(network.multiple, network.least, strict=True)
        )
        for _ in range(DRAWN)
    ]


def _bound(model: nn.Module) -> float:
    """Of the error of a result whose layers add their products one after the other."""
    filters = (
        each.weight for each in model.modules() if isinstance(each, nn.modules.conv._ConvNd | nn.Linear)
    )
    return sum(prod(each.shape[1:]) for each in filters) * 2.0**-24
