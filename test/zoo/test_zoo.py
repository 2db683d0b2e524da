"""The beginnings of networks of many families, and what newer ones are made of, compiled and run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from agreement import expect_within
from beginnings import BEGINNINGS, beginning
from small_models import SMALL_MODELS
from wide import sampled, wide

from benchmarks.comparison import count_convolutions
from benchmarks.model_tools import TOOLS
from benchmarks.networks.blocks import BLOCKS
from benchmarks.networks.network import Network
from benchmarks.networks.pytorchcv_networks import FAMILIES
from benchmarks.subject import Subject
from benchmarks.zoo_report import ERROR_FACTOR, MIN_ERROR

QUICK_BEGINNINGS = ("ghostnet",)


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


IMPORTED = (
    "convnext",
    "inverted_residuals",
    "shared_head",
    "transposed_decoder",
    "video_stack",
)
"""`test_torch_compile.py` has the others."""


@pytest.mark.parametrize("name", wide(IMPORTED))
def test_what_newer_networks_are_made_of(name: str) -> None:
    check(BLOCKS[name])


@pytest.mark.parametrize("name", sampled(BEGINNINGS, QUICK_BEGINNINGS))
def test_beginnings(name: str) -> None:
    check(beginning(FAMILIES[name], BEGINNINGS[name]))


@pytest.mark.parametrize("name", wide(SMALL_MODELS))
def test_models_that_people_bring(name: str) -> None:
    check(SMALL_MODELS[name])


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
