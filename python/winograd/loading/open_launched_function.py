"""A function of a program for arguments of any size on tensors of an NVIDIA GPU: a graph for each size."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from iree.winograd.cuda.driver import CudaDriver
from iree.winograd.cuda.launch_graph import LoadedKernels
from iree.winograd.errors import CallError
from iree.winograd.loading.launchable import Launchable, OpenLaunchable
from iree.winograd.loading.launched_function import Argument, LaunchedFunction, Order
from iree.winograd.pipelines.problems.open_launches import LARGEST_SIZE

_MOST_SHAPES = 32
"""Whose graphs are kept: each takes some hundred KiB of the driver's memory."""


Shapes = tuple[torch.Size, ...]
"""Those of a call's arguments."""


class SpecialLaunchable(NamedTuple):
    """What may be launched for arguments of some shapes alone, and how it takes them."""

    launchable: Launchable | OpenLaunchable
    arguments: Sequence[Argument]


FindSpecial = Callable[[Sequence[Sequence[int]]], SpecialLaunchable | None]
"""Gives what there is for arguments of these shapes, as they lie in memory, and counts calls without any."""


class OpenLaunchedFunction:
    """The function of `launchable` on tensors of the GPU `device`: a `LaunchedFunction` for each shape.

    Those of the shapes that were used least recently are dropped. All share the kernels. `one_by_one`
    computes the same by the program itself, for tensors without elements. Shapes that have a program of their
    own by `find_special` are computed by that.
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
        find_special: FindSpecial | None = None,
    ) -> None:
        self._driver = driver
        self._launchable = launchable
        self._arguments = tuple(arguments)
        self._result_orders = tuple(result_orders)
        self._device = device
        self._fail = fail
        self._one_by_one = one_by_one
        self._loaded = LoadedKernels(driver, launchable.program.executables())
        self._find_special = find_special
        self._functions: OrderedDict[Shapes, Callable[..., Any]] = OrderedDict()
        self._special: dict[Shapes, tuple[SpecialLaunchable, LaunchedFunction]] = {}
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        """The results, one or a tuple of them, in memory of their own. Raises `CallError`."""
        shapes = tuple([arguments[argument.number].shape for argument in self._arguments])
        with self._lock:
            function = self._functions.get(shapes)
            if function is None:
                function = self._function(shapes)
                if len(self._functions) == _MOST_SHAPES:
                    dropped, _ = self._functions.popitem(last=False)
                    self._special.pop(dropped, None)
                self._functions[shapes] = function
            self._functions.move_to_end(shapes)
            if self._find_special is not None and function is not self._one_by_one:
                function = self._special_function(shapes, self._find_special) or function
        return function(*arguments)

    def _function(self, shapes: Shapes) -> Callable[..., Any]:
        """What is called for arguments of these shapes."""
        if not all(map(torch.Size.numel, shapes)):
            return self._one_by_one
        launchable = self._launchable.at(self._in_memory(shapes))
        results = [result.shape for result in launchable.launches.results]
        if (largest := max(size for shape in (*shapes, *results) for size in shape)) > LARGEST_SIZE:
            raise CallError(f"a size of {largest}: kernels for GPUs take sizes up to {LARGEST_SIZE}")
        if not launchable.launches.stages:
            return self._one_by_one
        return self._launched(launchable, self._arguments, self._loaded)

    def _special_function(self, shapes: Shapes, find: FindSpecial) -> LaunchedFunction | None:
        """That of the program for these shapes alone, if there is one by now."""
        in_memory = self._in_memory(shapes)
        found, (known, function) = find(in_memory), self._special.get(shapes, (None, None))
        if found is None:
            self._special.pop(shapes, None)
            return None
        if known is not None and known.launchable is found.launchable:
            return function
        launchable = found.launchable
        if isinstance(launchable, OpenLaunchable):
            launchable = launchable.at(in_memory)
        function = self._launched(launchable, found.arguments, None)
        self._special[shapes] = found, function
        return function

    def _launched(
        self, launchable: Launchable, arguments: Sequence[Argument], loaded: LoadedKernels | None
    ) -> LaunchedFunction:
        return LaunchedFunction(
            self._driver, launchable, arguments, self._result_orders, self._device, self._fail, loaded
        )

    def _in_memory(self, shapes: Shapes) -> list[Sequence[int]]:
        """The shapes with dimensions in the order that they have in memory."""
        return [
            shape if argument.order is None else [shape[dimension] for dimension in argument.order]
            for shape, argument in zip(shapes, self._arguments, strict=True)
        ]


def launched_function(
    driver: CudaDriver,
    launchable: Launchable | OpenLaunchable,
    arguments: Sequence[Argument],
    result_orders: Sequence[Order | None],
    device: torch.device,
    fail: Callable[[str], Callable[..., Any]],
    one_by_one: Callable[..., Any],
    find_special: FindSpecial | None = None,
) -> LaunchedFunction | OpenLaunchedFunction:
    """The function of `launchable`, of one size or of any. Raises OSError where its program is gone."""
    if isinstance(launchable, OpenLaunchable):
        return OpenLaunchedFunction(
            driver, launchable, arguments, result_orders, device, fail, one_by_one, find_special
        )
    return LaunchedFunction(driver, launchable, arguments, result_orders, device, fail)
