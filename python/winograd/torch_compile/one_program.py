"""The function of a graph that is one program, called without what AOTAutograd and torch.fx put between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from iree.winograd.torch_compile.contained import PASSED_ON, Function
from iree.winograd.torch_compile.loaded_part import WeightState


class OneProgram:
    """A graph as a call of `part` on its inputs, whose results numbered `outputs` are the graph's outputs.

    `held` are the inputs, by number, that the program holds. When they change, or the program fails, the
    graph is what `compile_graph` returns for tensors like those that it is then given.
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
        if self._compiled is not None:
            return self._compiled(*arguments)
        try:
            results = self._part(*arguments)
        except PASSED_ON:
            raise
        except Exception:
            return self._compile_anew(arguments)(*arguments)
        # A GPU computes meanwhile. Nobody has seen what it makes of weights of before.
        if self._held is not None and not self._held.is_in(arguments):
            return self._compile_anew(arguments)(*arguments)
        if not isinstance(results, tuple):
            results = (results,)
        return tuple(results[each] for each in self._outputs)

    def _compile_anew(self, arguments: Sequence[Any]) -> Function:
        with self._lock:
            # Another thread may have had it compiled.
            if self._compiled is None:
                self._compiled = self._compile_graph(arguments)
            return self._compiled
