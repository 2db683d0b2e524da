"""The beginnings of networks of many families, and what newer ones are made of, compiled and run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from agreement import expect_within
from torch import nn
from wide import sampled

from benchmarks.comparison import count_convolutions
from benchmarks.model_tools import TOOLS
from benchmarks.networks.blocks import BLOCKS
from benchmarks.networks.network import Network
from benchmarks.networks.pytorchcv_networks import FAMILIES
from benchmarks.subject import Subject
from benchmarks.zoo_report import ERROR_FACTOR, MIN_ERROR

# Each with a kind of unit of its own: how many units after the first convolutions show it.
BEGINNINGS = {
    "airnet50_1x64d_r16": 1,
    "cbam_resnet18": 1,
    "condensenet74_c8_g8": 2,
    "densenet40_k12_bc_cifar10": 2,
    "dla46xc": 1,
    "efficientnet_b0": 2,
    "ghostnet": 1,
    "menet228_12x1_g3": 1,
    "mixnet_s": 1,
    "mobilenetv3_large_w1": 2,
    "regnetx002": 1,
    "scnet50": 1,
    "seresnet10": 1,
    "shufflenet_g1_w1": 2,
    "sknet50": 1,
    "sqnxt23_w1": 2,
}
QUICK_BEGINNINGS = ("densenet40_k12_bc_cifar10", "ghostnet", "mixnet_s", "shufflenet_g1_w1")


def beginning(network: Network, units: int) -> Network:
    """The first convolutions of a network and so many units of its stages, for small images."""

    def build() -> nn.Module:
        first, *stages = network.build().get_submodule("features").children()
        return nn.Sequential(first, *[unit for stage in stages for unit in stage.children()][:units])

    return Network(build, (3, 32, 32))


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


QUICK_BLOCKS = (
    "audio_stack",
    "diffusion_unet",
    "inverted_residuals",
    "recurrent_convolution",
    "shared_head",
    "transposed_decoder",
    "video_stack",
    "vision_transformer",
)


@pytest.mark.parametrize("name", sampled(BLOCKS, QUICK_BLOCKS))
def test_what_newer_networks_are_made_of(name: str) -> None:
    check(BLOCKS[name])


@pytest.mark.parametrize("name", sampled(BEGINNINGS, QUICK_BEGINNINGS))
def test_beginnings(name: str) -> None:
    check(beginning(FAMILIES[name], BEGINNINGS[name]))


def check(network: Network) -> None:
    """Every convolution is ours, and the result as right as that of torch."""
    subject = Subject(network.calibrated(), network.input(1))
    ours, torchs = (TOOLS[name](subject, 1) for name in ("ours", "torch"))
    assert ours.report is not None
    convolutions = count_convolutions(ours.report)
    assert convolutions.ours > 0
    assert convolutions.left == {}
    relative_bound = max(MIN_ERROR, ERROR_FACTOR * subject.error(torchs.results()))
    for actual, exact in zip(ours.results(), subject.exact, strict=True):
        expect_within(actual, exact, relative_bound * np.abs(exact).max())
