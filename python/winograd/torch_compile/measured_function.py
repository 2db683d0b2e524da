"""A compiled graph beside the same graph run eagerly, as its first calls are timed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from iree.winograd.torch_compile.contained import Function

_CALLS, _MOST_CALLS = 3, 8
"""That are timed, after a first one that isn't: more where what takes longer may have been interrupted."""

_INTERRUPTION = 0.1
"""Seconds in which a call may get no processor, on a machine that others use, or of a quota that is spent."""

_RATIO, _SECONDS = 1.1, 1e-3
"""How much longer, both, what is slower takes: less may be due to what else the machine does."""


class MeasuredFunction:
    """`compiled`, until it is found to be slower than `eager`: then what `leave` returns.

    `eager` computes the same without changing anything else. `leave` is told the seconds of a call of either.
    A few of the first calls take as long as both.
    """

    def __init__(
        self, compiled: Function, eager: Function, leave: Callable[[float, float], Function]
    ) -> None:
        self._function = compiled
        self._eager = eager
        self._leave = leave
        self._times: list[tuple[float, float]] = []
        self._is_first = True
        self._is_decided = False
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        """The results of the function."""
        # Beside another thread's call neither would take as long as it does alone.
        if self._is_decided or not self._lock.acquire(blocking=False):
            return self._function(*arguments)
        try:
            if self._is_first:
                self._is_first = False
                return self._function(*arguments)
            return self._measure(arguments)
        finally:
            self._lock.release()

    def _measure(self, arguments: Sequence[Any]) -> Any:
        results, ours = _timed(self._function, arguments)
        # What the graph draws of random numbers it has drawn.
        with torch.random.fork_rng(_gpus(arguments)):
            _, eagerly = _timed(self._eager, arguments)
        self._times.append((ours, eagerly))
        ours, eagerly = (min(times) for times in zip(*self._times, strict=True))
        is_slower = ours > _RATIO * eagerly and ours - eagerly > _SECONDS
        calls = _MOST_CALLS if is_slower and ours - eagerly < _INTERRUPTION else _CALLS
        if len(self._times) < calls and not (len(self._times) > 1 and ours < eagerly):
            return results
        self._is_decided = True
        if is_slower:
            self._function = self._leave(ours, eagerly)
        return results


def _timed(function: Function, arguments: Sequence[Any]) -> tuple[Any, float]:
    """The results of a call, and the seconds that it takes."""
    _wait(arguments)
    begin = time.perf_counter()
    results = function(*arguments)
    _wait(arguments)
    return results, time.perf_counter() - begin


def _wait(arguments: Sequence[Any]) -> None:
    for device in _gpus(arguments):
        torch.cuda.synchronize(device)


def _gpus(arguments: Sequence[Any]) -> list[torch.device]:
    """Those that the arguments are on."""
    devices = {each.device for each in arguments if isinstance(each, torch.Tensor)}
    return [device for device in devices if device.type == "cuda"]
