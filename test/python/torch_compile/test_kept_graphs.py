"""Graphs that later processes find as torch traces them."""

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import iree.winograd as winograd
import numpy as np
import pytest
import torch
from iree.winograd.compiling import program
from iree.winograd.torch_compile import graph_compiler
from iree.winograd.torch_compile.fallback_warning import FallbackWarning
from small_networks import THREADS, UNIT_ROUNDOFF, Network, check, compiled
from torch.utils._pytree import tree_leaves


class ManyOutputs(torch.nn.Module):
    """Gives results in another order than it computes them, one of them twice."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, stride=2)
        self.normalization = torch.nn.BatchNorm2d(8)

    def forward(self, image: torch.Tensor, offset: torch.Tensor) -> dict[str, Any]:
        features = self.normalization(self.convolution(image + offset))
        largest = features.argmax(dim=1)
        return {"largest": largest, "all": [features * 2, features, largest]}


@contextmanager
def no_functional_graphs() -> Iterator[None]:
    """What is called in it has no graph made functional, divided or compiled."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((graph_compiler, "aot_autograd"), (program, "compile")):
            patch.setattr(module, name, None)
        yield


def test_a_kept_graph_is_found_as_torch_traces_it(images: torch.Tensor, tmp_path: Path) -> None:
    model = ManyOutputs().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images, offset = images.to(memory_format=torch.channels_last), torch.ones(3, 1, 1)
    first = compiled(model, cache_folder=tmp_path)(images, offset)
    torch._dynamo.reset()
    function = compiled(model, cache_folder=tmp_path)
    with no_functional_graphs():
        second = function(images, offset)
        torch.testing.assert_close(second, first, rtol=0, atol=0)
        strides = [each.stride() for each in tree_leaves(second)]
        assert strides == [each.stride() for each in tree_leaves(model(images, offset))]
        # Other arguments are no weights.
        twice = function(images, 2 * offset)
        assert not torch.equal(twice["all"][1], second["all"][1])

    with torch.no_grad():
        model.convolution.weight.mul_(2)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            exact = copy.deepcopy(model).double()(images.double(), offset.double())
            # 27 products are summed.
            torch.testing.assert_close(
                function(images, offset)["all"][1],
                exact["all"][1].float(),
                rtol=0,
                atol=10 * 30 * UNIT_ROUNDOFF * float(exact["all"][1].abs().max()),
            )


def test_functions_of_numpy_are_not_kept(images: torch.Tensor, tmp_path: Path) -> None:
    """Torch traces a call of an object whose text doesn't say which function it is."""

    class Rooted(Network):
        def between(self, features: torch.Tensor) -> torch.Tensor:
            return features * torch.as_tensor(np.sqrt(torch.ones(1).numpy()))

    model = Rooted()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        check(model, compiled(model, cache_folder=tmp_path, fallback="eager"), images)
    assert not list(tmp_path.glob("*.graph"))


@pytest.mark.wide
def test_a_graph_is_not_taken_for_another(images: torch.Tensor, tmp_path: Path) -> None:
    """For one that differs in a constant, in options, or in what it does to its arguments."""

    class Scaled(Network):
        scale = 1.0

        def between(self, features: torch.Tensor) -> torch.Tensor:
            return features * self.scale

    class Counted(Network):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def between(self, features: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return features * self.calls

    model, other = Scaled(), Scaled()
    other.load_state_dict(model.state_dict())
    other.scale = 2.0
    counted = Counted()
    for _ in range(2):
        for each in (model, other):
            torch._dynamo.reset()
            check(each, compiled(each, cache_folder=tmp_path), images)
        torch._dynamo.reset()
        before = counted.calls.item()
        compiled(counted, cache_folder=tmp_path)(images)
        assert counted.calls.item() == before + 1
    torch._dynamo.reset()
    explained = winograd.explain(model, images, options={"cache_folder": str(tmp_path), **THREADS})
    with no_functional_graphs():
        torch._dynamo.reset()
        again = winograd.explain(model, images, options={"cache_folder": str(tmp_path), **THREADS})
    assert again == explained
    torch._dynamo.reset()
    denied = {"cache_folder": str(tmp_path), "deny": ("stem",), **THREADS}
    assert "the layer patterns exclude it" in str(winograd.explain(model, images, options=denied))
