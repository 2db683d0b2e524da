"""The function of a graph whose program an earlier process kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from iree.winograd.torch_compile.contained import Function
from iree.winograd.torch_compile.loaded_part import WeightState


class KeptFunction:
    """A graph as a call of `part` on its inputs, whose results numbered `outputs` are the graph's outputs.

    `held` are the inputs, by number, that the program holds. When they change, the graph is compiled anew by
    `compile_graph`, for tensors like those that it is then given.
    """

    def __init__(
        self,
        part: Function,
        outputs: Sequence[int],
        held: Mapping[int, torch.Tensor],
        compile_graph: Callable[[Sequence[Any]], Function],
    ) -> None:
        self._part = part
        self._outputs = tuple(outputs)
        self._held = WeightState(held) if held else None
        self._compile_graph = compile_graph
        self._compiled: Function | None = None
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        """The outputs of the graph."""
        # Another thread may have it compiled at any time.
        held = self._held
        if held is not None and not held.is_in(arguments):
            self._compile_anew(arguments)
        if self._compiled is not None:
            return self._compiled(*arguments)
        results = self._part(*arguments)
        if not isinstance(results, tuple):
            results = (results,)
        return tuple(results[each] for each in self._outputs)

    def _compile_anew(self, arguments: Sequence[Any]) -> None:
        with self._lock:
            if self._held is not None:
                self._compiled = self._compile_graph(arguments)
                self._held = None
