"""Failures of any step of `torch.compile(backend="winograd")`: a warning, and eager's results."""

import copy
import warnings
from collections.abc import Callable, Container
from typing import Any

import pytest
import torch
from iree.winograd.compiling import program
from iree.winograd.torch_compile import (
    fallback,
    graph_compiler,
    models_of_graph,
    training_compiler,
    training_division,
    whole_graph,
)
from iree.winograd.torch_compile.compiled_part import CompiledPart
from iree.winograd.torch_compile.fallback_warning import FallbackWarning
from iree.winograd.torch_compile.sized_function import SizedFunction
from iree.winograd.torch_compile.whole_graph import WholeGraph
from small_networks import UNIT_ROUNDOFF, BesselNetwork, Network, check, compiled

from benchmarks.failing_steps import CALLING, COMPILING, SAVING_TIME, Step, fail, step_name

TRAINING = (
    (graph_compiler, "is_in_evaluation_mode"),
    (training_compiler, "default_partition"),
    (training_compiler, "divide_training"),
    (training_division, "split_gradients"),
    (training_division, "_decompose"),
    (CompiledPart, "__call__"),
)
"""Steps of training, some of them."""


def sampled_steps(steps: tuple[Step, ...], quick: Container[str]) -> list[Any]:
    """All of them with their names; those whose names aren't among the `quick` ones are wide."""
    return [
        pytest.param(step, id=step_name(step), marks=[] if step[1] in quick else pytest.mark.wide)
        for step in steps
    ]


def small_network() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU())


def results_and_warnings(
    model: torch.nn.Module, function: Callable[..., Any], images: torch.Tensor
) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check(model, function, images)
    return [str(each.message) for each in caught if each.category is FallbackWarning]


@pytest.mark.parametrize("step", sampled_steps(COMPILING, ("divide", "part_program", "compile")))
def test_what_fails_to_compile_runs_by_the_fallback(
    images: torch.Tensor, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    model = small_network()
    monkeypatch.setattr(*step, fail)
    function = compiled(model, fallback="eager", cache=False)
    (message,) = results_and_warnings(model, function, images)
    assert "left to eager" in message
    # It isn't tried, nor named, again.
    assert results_and_warnings(model, function, images) == []


@pytest.mark.parametrize("step", sampled_steps(SAVING_TIME, ("read_graph",)))
def test_what_only_saves_time_may_fail(
    images: torch.Tensor, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    model = small_network()
    monkeypatch.setattr(*step, fail)
    for _ in range(2):
        torch._dynamo.reset()
        results_and_warnings(model, compiled(model, fallback="eager", cache_folder=tmp_path), images)


@pytest.mark.parametrize("step", sampled_steps(CALLING, ("_run", "is_in")))
def test_a_part_that_fails_when_it_is_called_is_left_to_the_fallback(
    images: torch.Tensor, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    """Called as one of several: that it is the only one must not matter."""
    monkeypatch.setattr(graph_compiler.GraphCompiler, "_whole_graph", fail)
    model = small_network()
    function = compiled(model, fallback="eager", cache=False)
    assert results_and_warnings(model, function, images) == []
    monkeypatch.setattr(*step, fail)
    (message,) = results_and_warnings(model, function, images)
    assert "left to eager: a part of the model (" in message and "out of luck" in message
    assert results_and_warnings(model, function, images) == []


def test_a_kept_graph_that_fails_when_it_is_called_runs_eagerly(
    images: torch.Tensor, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_network()
    check(model, compiled(model, cache_folder=tmp_path), images)
    torch._dynamo.reset()
    function = compiled(model, cache_folder=tmp_path)
    monkeypatch.setattr(WholeGraph, "__call__", fail)
    (message,) = results_and_warnings(model, function, images)
    assert "out of luck" in message


@pytest.mark.wide
@pytest.mark.parametrize(
    "step", [(models_of_graph, "WeightState"), (whole_graph.WholeGraph, "_compile_anew")]
)
def test_a_kept_graph_that_cannot_take_its_weights_runs_otherwise(
    images: torch.Tensor, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    model = small_network()
    check(model, compiled(model, cache_folder=tmp_path), images)
    torch._dynamo.reset()
    monkeypatch.setattr(*step, fail)
    function = compiled(model, cache_folder=tmp_path, fallback="eager")
    results_and_warnings(model, function, images)
    with torch.no_grad():
        model[0].weight.mul_(2)
    results_and_warnings(model, function, images)


@pytest.mark.wide
def test_what_the_fallback_cannot_compile_runs_eagerly(
    images: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = BesselNetwork()
    monkeypatch.setattr(fallback, "_compile_by_inductor", fail)
    messages = results_and_warnings(model, compiled(model, cache=False), images)
    assert any("out of luck" in message for message in messages)


def test_what_the_fallback_fails_to_compute_runs_eagerly(
    images: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = BesselNetwork()
    monkeypatch.setattr(fallback, "_compile_by_inductor", lambda graph, inputs: fail)
    messages = results_and_warnings(model, compiled(model, cache=False), images)
    assert any("since torch's Inductor failed" in message for message in messages)


@pytest.mark.parametrize("step", [(SizedFunction, "_compile"), (SizedFunction, "_function")])
def test_sizes_that_fail_to_be_compiled_for_run_eagerly(monkeypatch: pytest.MonkeyPatch, step: Step) -> None:
    model = small_network()
    monkeypatch.setattr(*step, fail)
    monkeypatch.setattr(graph_compiler.GraphCompiler, "_compile_any_size", lambda *_: None)
    function = compiled(model, dynamic=True, cache=False)
    assert len(results_and_warnings(model, function, torch.randn(2, 3, 10, 12))) == 1
    assert results_and_warnings(model, function, torch.randn(2, 3, 12, 10)) == []


@pytest.mark.parametrize("step", sampled_steps(TRAINING, ("divide_training", "_decompose")))
def test_a_step_of_training_whose_compilation_fails_is_that_of_eager(
    images: torch.Tensor, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    monkeypatch.setattr(*step, fail)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3)).train()
    exact = copy.deepcopy(model).double()

    with torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        # Dynamo traces in the model's mode.
        function = compiled(model, cache=False, fallback="eager")
        model.train()
        given, given_exactly = images.clone().requires_grad_(), images.double().requires_grad_()
        function(given).sum().backward()
        exact(given_exactly).sum().backward()
    for ours, expected in ((given, given_exactly), (model[0].weight, exact[0].weight)):
        assert ours.grad is not None and expected.grad is not None
        # Sums of at most 2 * 100 gradients, each a sum of 72 products.
        bound = 10 * 300 * UNIT_ROUNDOFF * float(expected.grad.abs().max())
        torch.testing.assert_close(ours.grad.double(), expected.grad, rtol=0, atol=bound)


def test_an_error_of_the_models_own_is_raised(images: torch.Tensor) -> None:
    class Picky(Network):
        def between(self, features: torch.Tensor) -> torch.Tensor:
            torch._assert_async(features.abs().sum() < 0, "never so small")
            return features

    function = compiled(Picky(), fallback="eager", cache=False)
    with pytest.raises(RuntimeError, match="never so small"), warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        function(images)


def test_warnings_may_be_errors(images: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a user says who wants to see failures."""
    monkeypatch.setattr(program, "compile", fail)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="out of luck"):
            compiled(small_network(), fallback="eager", cache=False)(images)
