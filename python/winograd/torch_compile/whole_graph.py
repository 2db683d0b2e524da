"""The function of a graph that is one program, called without what AOTAutograd and torch.fx put between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from iree.winograd.torch_compile.contained import PASSED_ON, Function
from iree.winograd.torch_compile.models_of_graph import ModelsOfGraph


class WholeGraph:
    """A graph as a call of `part` on its inputs, whose results numbered `outputs` are the graph's outputs.

    `held` are the inputs, by number, that the program holds, and `load` gives the part that holds those of
    another model. When they change, or the program fails, the graph is what `compile_graph` returns for
    tensors like those that it is then given.
    """

    def __init__(
        self,
        part: Function,
        outputs: Sequence[int],
        held: Mapping[int, torch.Tensor],
        load: Callable[[Sequence[Any]], Function],
        compile_graph: Callable[[Sequence[Any]], Function],
    ) -> None:
        self._models = ModelsOfGraph(part, held, load)
        self._outputs = tuple(outputs)
        self._compile_graph = compile_graph
        self._compiled: Function | None = None
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        """The outputs of the graph."""
        try:
            program = self._models.find(arguments)
            results = None if program is None else program.results(arguments)
        except PASSED_ON:
            raise
        except Exception:
            results = None
        if results is None:
            return self._call_otherwise(arguments)
        if not isinstance(results, tuple):
            results = (results,)
        return tuple(results[each] for each in self._outputs)

    def _call_otherwise(self, arguments: Sequence[Any]) -> Any:
        results = (self._compiled or self._compile_anew(arguments))(*arguments)
        # What fails either way, as for want of memory, may not fail the next time. Otherwise what the program
        # and its weights take is the caller's again.
        self._models.leave(arguments)
        return results

    def _compile_anew(self, arguments: Sequence[Any]) -> Function:
        with self._lock:
            # Another thread may have had it compiled.
            if self._compiled is None:
                self._compiled = self._compile_graph(arguments)
            return self._compiled
