"""A graph that is one program: what is called when its weights change, and when it fails."""

import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from iree.winograd.torch_compile.contained import Function
from iree.winograd.torch_compile.models_of_graph import MOST_MODELS
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


def load(arguments: Sequence[Any]) -> Part:
    return Part(arguments[1])


def test_a_program_is_left_for_good_when_weights_change() -> None:
    """In that call already; then nothing holds it, nor its weights, whose memory may be most of a GPU's."""
    image, weight = torch.arange(4.0), torch.full((4,), 2.0)
    part = Part(weight)
    left = weakref.ref(part)
    function = WholeGraph(part, (1,), {1: weight}, load, compiled_anew)
    del part
    assert torch.equal(function(image, weight)[0], 2 * image)
    with torch.no_grad():
        weight.mul_(2)
    for _ in range(2):
        assert torch.equal(function(image, weight)[0], 4 * image)
        assert left() is None


def test_models_that_share_a_graph_have_a_program_each() -> None:
    """Of the first ones: what one does with its weights, or its end, is nothing to the others."""
    image = torch.arange(4.0)
    weights = [torch.full((4,), float(number)) for number in range(MOST_MODELS + 1)]
    anew: list[float] = []
    loaded: list[weakref.ref[Part]] = []

    def load_noted(arguments: Sequence[Any]) -> Part:
        part = load(arguments)
        loaded.append(weakref.ref(part))
        return part

    def compile_graph(arguments: Sequence[Any]) -> Function:
        def function(image: torch.Tensor, weight: torch.Tensor) -> Any:
            anew.append(float(weight[0]))
            return (weight * image,)

        return function

    function = WholeGraph(Part(weights[0]), (1,), {1: weights[0]}, load_noted, compile_graph)
    for _ in range(2):
        for number, weight in enumerate(weights):
            assert torch.equal(function(image, weight)[0], number * image)
    assert len(loaded) == MOST_MODELS - 1
    assert anew == [MOST_MODELS, MOST_MODELS]
    weights[1].fill_(7)
    for weight in weights[:3]:
        assert torch.equal(function(image, weight)[0], weight * image)
    assert anew[2:] == [7]
    del weights[2], weight
    function(image, weights.pop())
    assert [part() is None for part in loaded] == [True, True, False]


def test_a_program_that_cannot_be_loaded_is_asked_for_once() -> None:
    image, weight = torch.arange(4.0), torch.full((4,), 2.0)
    asked: list[object] = []

    def fail(arguments: Sequence[Any]) -> Function:
        asked.append(arguments)
        raise MemoryError

    function = WholeGraph(Part(weight), (1,), {1: weight}, fail, compiled_anew)
    other = torch.full((4,), 3.0)
    for _ in range(2):
        for each in (weight, other):
            assert torch.equal(function(image, each)[0], each * image)
    assert len(asked) == 1


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

    function = WholeGraph(part, (1,), {1: weight}, load, lambda arguments: fail)
    part.fails = True
    with pytest.raises(MemoryError):
        function(image, weight)
    part.fails = False
    assert torch.equal(function(image, weight)[0], 2 * image)


def test_a_program_that_fails_is_left() -> None:
    image, weight = torch.arange(4.0), torch.full((4,), 2.0)
    part = Part(weight)
    part.fails = True
    function = WholeGraph(part, (1,), {1: weight}, load, compiled_anew)
    assert torch.equal(function(image, weight)[0], 2 * image)
