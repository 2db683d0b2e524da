"""A function of a program for arguments of any size on tensors of an NVIDIA GPU: a graph for each size."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from iree.winograd.cuda.driver import CudaDriver
from iree.winograd.cuda.launch_graph import LoadedKernels
from iree.winograd.loading.launchable import Launchable, OpenLaunchable
from iree.winograd.loading.launched_function import Argument, LaunchedFunction, Order

_MOST_SHAPES = 32
"""Whose graphs are kept: each takes some hundred KiB of the driver's memory."""


class OpenLaunchedFunction:
    """The function of `launchable` on tensors of the GPU `device`: a `LaunchedFunction` for each shape.

    Those of the shapes that were used least recently are dropped. All share the kernels. `one_by_one`
    computes the same by the program itself, for tensors without elements.
    """

    def __init__(
        self,
        driver: CudaDriver,
        launchable: OpenLaunchable,
        arguments: Sequence[Argument],
        result_orders: Sequence[Order | None],
        device: torch.device,
        fail: Callable[[str], Callable[..., Any]],
        one_by_one: Callable[..., Any],
    ) -> None:
        self._driver = driver
        self._launchable = launchable
        self._arguments = tuple(arguments)
        self._result_orders = tuple(result_orders)
        self._device = device
        self._fail = fail
        self._one_by_one = one_by_one
        self._loaded = LoadedKernels(driver, launchable.program.executables())
        self._functions: OrderedDict[tuple[torch.Size, ...], Callable[..., Any]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        """The results, one or a tuple of them, in memory of their own. Raises `CallError`."""
        shapes = tuple([arguments[argument.number].shape for argument in self._arguments])
        with self._lock:
            function = self._functions.get(shapes)
            if function is None:
                function = self._function(shapes)
                if len(self._functions) == _MOST_SHAPES:
                    self._functions.popitem(last=False)
                self._functions[shapes] = function
            self._functions.move_to_end(shapes)
        return function(*arguments)

    def _function(self, shapes: Sequence[torch.Size]) -> Callable[..., Any]:
        """What is called for arguments of these shapes."""
        if not all(map(torch.Size.numel, shapes)):
            return self._one_by_one
        in_memory = [
            shape if argument.order is None else [shape[dimension] for dimension in argument.order]
            for shape, argument in zip(shapes, self._arguments, strict=True)
        ]
        launchable = self._launchable.at(in_memory)
        if not launchable.launches.stages:
            return self._one_by_one
        return LaunchedFunction(
            self._driver,
            launchable,
            self._arguments,
            self._result_orders,
            self._device,
            self._fail,
            self._loaded,
        )


def launched_function(
    driver: CudaDriver,
    launchable: Launchable | OpenLaunchable,
    arguments: Sequence[Argument],
    result_orders: Sequence[Order | None],
    device: torch.device,
    fail: Callable[[str], Callable[..., Any]],
    one_by_one: Callable[..., Any],
) -> LaunchedFunction | OpenLaunchedFunction:
    """The function of `launchable`, of one size or of any. Raises OSError where its program is gone."""
    if isinstance(launchable, OpenLaunchable):
        return OpenLaunchedFunction(driver, launchable, arguments, result_orders, device, fail, one_by_one)
    return LaunchedFunction(driver, launchable, arguments, result_orders, device, fail)
