"""A part of a torch graph, compiled, and compiled anew when the weights in its program change."""

from __future__ import annotations

import threading
from typing import Any

from iree.winograd.program import compile
from iree.winograd.runtime import LoadedProgram, load
from iree.winograd.torch_compile.division import Part
from iree.winograd.torch_compile.loaded_part import LoadedPart, WeightState
from iree.winograd.torch_compile.part_program import ENTRY, PartProgram, import_part
from iree.winograd.torch_compile.settings import TorchCompileOptions


class CompiledPart:
    """A function on the arguments of `part`. Raises `CompilationError` when it is made, `CallError` later."""

    def __init__(self, part: Part, settings: TorchCompileOptions) -> None:
        self._part = part
        self._settings = settings
        self._lock = threading.Lock()
        self._call = self._load(part.program)
        folded = settings.freezing and bool(part.weights)
        self._folded = WeightState(list(part.weights.values())) if folded else None
        self._numbers = tuple(part.weights)

    def __call__(self, *arguments: Any) -> Any:
        """The results, one or a tuple of them."""
        if self._folded is not None and not self._folded.is_of([arguments[each] for each in self._numbers]):
            self._pass_weights()
        return self._call(*arguments)

    def _pass_weights(self) -> None:
        """From here on take the weights from the arguments: they may change again."""
        with self._lock:
            if self._folded is not None:
                self._call = self._load(import_part(self._part.graph, {}))
                self._folded = None

    def _load(self, program: PartProgram) -> LoadedPart:
        loaded = _load(program, self._settings)
        return LoadedPart(getattr(loaded, ENTRY), program.arguments, program.results, self._part.weights)


def _load(program: PartProgram, settings: TorchCompileOptions) -> LoadedProgram:
    compiled = compile(program.model, target=settings.target, **settings.compile_options())
    threads = settings.worker_threads
    return load(compiled, "local-sync") if threads == 1 else load(compiled, threads=threads)
