"""A graph that is one program: what is called when its weights change, and when it fails."""

import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from iree.winograd.torch_compile.contained import Function
from iree.winograd.torch_compile.whole_graph import WholeGraph
from small_networks import check, compiled


class Part:
    """Gives the image and its product by the weight that it holds; fails when it is told to."""

    def __init__(self, weight: torch.Tensor) -> None:
        self._weight = weight.clone()
        self.fails = False

    def __call__(self, image: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if self.fails:
            raise MemoryError
        return image, self._weight * image


def compiled_anew(arguments: Sequence[Any]) -> Function:
    return lambda image, weight: (weight * image,)


def test_a_program_is_left_for_good_when_weights_change() -> None:
    """In that call already; then nothing holds it, nor its weights, whose memory may be most of a GPU's."""
    image, weight = torch.arange(4.0), torch.full((4,), 2.0)
    part = Part(weight)
    left = weakref.ref(part)
    function = WholeGraph(part, (1,), {1: weight}, compiled_anew)
    del part
    assert torch.equal(function(image, weight)[0], 2 * image)
    with torch.no_grad():
        weight.mul_(2)
    for _ in range(2):
        assert torch.equal(function(image, weight)[0], 4 * image)
        assert left() is None


def test_a_graph_is_called_so_whether_it_is_kept_or_not(
    images: torch.Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[WholeGraph] = []
    of_graph = WholeGraph.__call__

    def call(function: WholeGraph, *arguments: Any) -> Any:
        called.append(function)
        return of_graph(function, *arguments)

    monkeypatch.setattr(WholeGraph, "__call__", call)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU())
    for settings in ({"cache": False}, {"cache_folder": tmp_path}):
        torch._dynamo.reset()
        called.clear()
        check(model, compiled(model, **settings), images)
        assert called


def test_what_fails_either_way_is_tried_again() -> None:
    """As for want of memory, which is there in the next call."""
    image, weight = torch.arange(4.0), torch.full((4,), 2.0)
    part = Part(weight)

    def fail(*arguments: Any) -> Any:
        raise MemoryError

    function = WholeGraph(part, (1,), {1: weight}, lambda arguments: fail)
    part.fails = True
    with pytest.raises(MemoryError):
        function(image, weight)
    part.fails = False
    assert torch.equal(function(image, weight)[0], 2 * image)


def test_a_program_that_fails_is_left() -> None:
    image, weight = torch.arange(4.0), torch.full((4,), 2.0)
    part = Part(weight)
    part.fails = True
    function = WholeGraph(part, (1,), {1: weight}, compiled_anew)
    assert torch.equal(function(image, weight)[0], 2 * image)
