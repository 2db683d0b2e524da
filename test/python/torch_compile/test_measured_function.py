"""Graphs that run eagerly where that takes less time."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from iree.winograd.torch_compile import measured_function
from iree.winograd.torch_compile.fallback_warning import FallbackWarning
from iree.winograd.torch_compile.measured_function import MeasuredFunction
from small_networks import Network, check, compiled
from wide import wide

CALLS = measured_function._MOST_CALLS + 2


@pytest.mark.parametrize(
    ("ours", "eager", "is_left"),
    [
        ([0.03], 0.001, True),
        ([0.3], 0.001, True),
        ([0.001], 0.03, False),
        # Another process has the processor in most of the calls.
        ([0.03, 0.03, 0.03, 0.03, 0.0005], 0.001, False),
    ],
)
def test_what_takes_less_time_is_called(
    ours: list[float], eager: float, is_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, now = [], 0.0
    # What else the machine does takes none of this time.
    monkeypatch.setattr(measured_function, "time", SimpleNamespace(perf_counter=lambda: now))

    def function(name: str, seconds: list[float]) -> Any:
        def call(argument: int) -> int:
            nonlocal now
            now += seconds[calls.count(name) % len(seconds)]
            calls.append(name)
            return argument + 1

        return call

    def leave(ours: float, eager: float) -> Any:
        assert ours > eager
        return function("left", [0])

    measured = MeasuredFunction(function("ours", ours), function("eager", [eager]), leave)
    assert [measured(number) for number in range(CALLS)] == list(range(1, CALLS + 1))
    assert calls[-1] == ("left" if is_left else "ours")
    # What is measured doesn't go on.
    assert calls.count("eager") <= (3 if max(ours) >= 0.1 else measured_function._MOST_CALLS)


def test_measuring_draws_no_random_numbers() -> None:
    def draw() -> torch.Tensor:
        return torch.rand(3)

    measured = MeasuredFunction(draw, draw, lambda ours, eager: draw)
    torch.manual_seed(1)
    results = [measured() for _ in range(CALLS)]
    torch.manual_seed(1)
    assert all(torch.equal(result, draw()) for result in results)


@pytest.mark.parametrize("measured", [True, *wide([False])])
def test_a_graph_that_takes_longer_than_eager_is_left_with_a_warning(
    images: torch.Tensor, monkeypatch: pytest.MonkeyPatch, measured: bool, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(measured_function, "_RATIO", 0)
    monkeypatch.setattr(measured_function, "_SECONDS", -1e9)
    model = Network()
    function = compiled(model, measured=measured, cache=False)
    for _ in range(CALLS):
        check(model, function, images)
    messages = [str(each.message) for each in recwarn if each.category is FallbackWarning]
    assert len(messages) == measured
    assert all("left to eager, which takes" in message for message in messages)
