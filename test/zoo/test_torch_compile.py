"""The same networks by `torch.compile`, with batches and sizes that change, and with failures in it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from beginnings import BEGINNINGS, beginning
from iree.winograd.torch_compile import division
from iree.winograd.torch_compile.fallback_warning import FallbackWarning
from iree.winograd.torch_compile.loaded_part import LoadedPart
from torch.utils._pytree import tree_leaves

from benchmarks.networks.blocks import BLOCKS
from benchmarks.networks.network import Network
from benchmarks.networks.pytorchcv_networks import FAMILIES
from benchmarks.zoo_report import ERROR_FACTOR, MIN_ERROR

BATCHES = (2, 3)
"""A program for the first, and one for any."""
LONGER = 8
"""Elements that the second size is longer by, in the last dimension."""

TRACED = ("vision_transformer", "audio_stack", "recurrent_convolution")
"""Whose graphs torch makes otherwise than an import does: of buffers, loops, sounds and views.

A U-Net of diffusion is in `test_samples.py`.
"""
OF_MORE_SIZES = ("recurrent_convolution",)
FAILING: dict[str, tuple[Any, str]] = {
    "shared_head": (division, "part_program"),
    "transposed_decoder": (LoadedPart, "_run"),
}
"""A step that fails for each of some blocks."""


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    torch._dynamo.reset()
    with torch.no_grad():
        yield


@pytest.mark.wide
@pytest.mark.parametrize("name", TRACED)
def test_blocks(name: str) -> None:
    check(BLOCKS[name], None, more_sizes=name in OF_MORE_SIZES)


@pytest.mark.wide
def test_beginnings() -> None:
    """Of one family: `test_zoo.py` has them all, and kernels are chosen for the same layers."""
    check(beginning(FAMILIES["ghostnet"], BEGINNINGS["ghostnet"]), None)


@pytest.mark.wide
@pytest.mark.parametrize(("name", "step"), [pytest.param(*case, id=case[1][1]) for case in FAILING.items()])
def test_blocks_with_failures(name: str, step: tuple[Any, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **options: Any) -> Any:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(*step, fail)
    check(BLOCKS[name], "out of luck")


def check(network: Network, left: str | None, *, more_sizes: bool = False) -> None:
    """Results have eager's strides, and errors of its order; what is left to eager is `left`, if anything.

    With `more_sizes` images of another size come, too, and one alone, which torch traces anew.
    """
    model = network.calibrated()
    in_double = copy.deepcopy(model).double()
    inputs = [network.input(batch) for batch in BATCHES]
    if more_sizes:
        *shape, length = network.input_shape
        longer = Network(network.build, (*shape, length + LONGER))
        inputs += [network.input(1), longer.input(BATCHES[0]), network.input(BATCHES[0])]
    options = {"threads": 1, "fallback": "eager", "cache": False}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function = torch.compile(model, backend="winograd", options=options)
        for given in inputs:
            expect_alike(function(given), model(given), in_double(given.double()))
    messages = {str(each.message) for each in caught if each.category is FallbackWarning}
    if left is None:
        assert messages == set()
    else:
        assert messages and all(left in message for message in messages)


def expect_alike(ours: Any, eager: Any, exact: Any) -> None:
    for result, expected, reference in zip(*map(tree_leaves, (ours, eager, exact)), strict=True):
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        assert significant_strides(result) == significant_strides(expected)
        largest = float(reference.abs().max())
        eager_error = float((expected.double() - reference).abs().max()) / largest
        bound = max(MIN_ERROR, ERROR_FACTOR * eager_error)
        torch.testing.assert_close(result.double(), reference, rtol=0, atol=bound * largest)


def significant_strides(tensor: torch.Tensor) -> list[int]:
    """Those that tell where an element lies."""
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]
