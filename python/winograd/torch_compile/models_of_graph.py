"""Models that share a graph, as torch traces a class once: a program that holds the weights of each."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from iree.winograd.torch_compile.contained import Function
from iree.winograd.torch_compile.loaded_part import WeightState, selection

MOST_MODELS = 4
"""Whose weights programs hold, those that are gone included: a program may have to be compiled for each."""

_Place = tuple[int, ...]
"""Where the first and the last of a model's weights lie: by that models are told apart."""


@dataclass(frozen=True)
class HeldProgram:
    """A function whose program holds `weights`."""

    function: Function
    weights: WeightState

    def results(self, arguments: Sequence[Any]) -> Any:
        """Those of the function; None where the weights among `arguments` aren't those that it holds."""
        results = self.function(*arguments)
        # A GPU computes meanwhile. Nobody has seen what it makes of weights of before.
        return results if self.weights.is_in(arguments) else None


class ModelsOfGraph:
    """The programs of a graph by the models whose weights they hold, of the first `MOST_MODELS` that come.

    `function` is that of the first one, and `weights` are its, by the numbers of the graph's arguments.
    `load` gives the function of another one for its arguments.
    """

    def __init__(
        self,
        function: Function,
        weights: Mapping[int, torch.Tensor],
        load: Callable[[Sequence[Any]], Function],
    ) -> None:
        numbers = tuple(weights)
        self._numbers = numbers
        self._ends = selection((numbers[0], numbers[-1]) if numbers else ())
        self._load = load
        self._lock = threading.Lock()
        self._count = 1
        first = _Model(weights, HeldProgram(function, WeightState(weights)))
        self._models: dict[_Place, _Model] = {first.place: first}

    def find(self, arguments: Sequence[Any]) -> HeldProgram | None:
        """The program of the model whose weights are among `arguments`; None where it has none any more.

        Raises what loading it raises, in its first call.
        """
        place = self._place(arguments)
        model = self._models.get(place)
        if model is None:
            with self._lock:
                # Another thread may have had it loaded.
                model = self._models.get(place) or self._model_of(arguments)
        return None if model is None else model.program

    def leave(self, arguments: Sequence[Any]) -> None:
        """Have the model whose weights are among `arguments` have none from now on: they may change again."""
        model = self._models.get(self._place(arguments))
        if model is not None:
            model.program = None

    def _place(self, arguments: Sequence[Any]) -> _Place:
        return tuple(map(_POINTER, self._ends(arguments)))

    def _model_of(self, arguments: Sequence[Any]) -> _Model | None:
        """That of a call whose weights lie where no model's do; None where there were as many as may be."""
        self._models = {place: model for place, model in self._models.items() if not model.is_gone()}
        if self._count == MOST_MODELS:
            return None
        self._count += 1
        weights = {number: arguments[number] for number in self._numbers}
        model = _Model(weights, None)
        self._models[model.place] = model
        model.program = HeldProgram(self._load(arguments), WeightState(weights))
        return model


class _Model:
    """A model, known by the first and the last of its `weights`, and its program, if it has one."""

    def __init__(self, weights: Mapping[int, torch.Tensor], program: HeldProgram | None) -> None:
        tensors = tuple(weights.values())
        ends = (tensors[0], tensors[-1]) if tensors else ()
        self.place = tuple(map(_POINTER, ends))
        self.program = program
        self._ends = tuple(map(weakref.ref, ends))

    def is_gone(self) -> bool:
        """Whether its weights are, or lie elsewhere."""
        ends = [end() for end in self._ends]
        return tuple(None if end is None else end.data_ptr() for end in ends) != self.place


_POINTER = torch.Tensor.data_ptr
