"""A part of a torch graph, compiled, and compiled anew when the weights in its program change."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from iree.winograd.errors import LoadError
from iree.winograd.program import compile
from iree.winograd.report.schema import DecisionReport
from iree.winograd.runtime import LoadedProgram, load
from iree.winograd.torch_compile.cache import Entry, ProgramCache, default_folder
from iree.winograd.torch_compile.division import Part
from iree.winograd.torch_compile.fallback import warn_once
from iree.winograd.torch_compile.loaded_part import LoadedPart, WeightState
from iree.winograd.torch_compile.part_program import ENTRY, PartProgram, import_part
from iree.winograd.torch_compile.program_key import program_key
from iree.winograd.torch_compile.settings import TorchCompileOptions

_MEBIBYTE = 2**20


class CompiledPart:
    """A function on the arguments of `part`. Raises `CompilationError` when it is made, `CallError` later.

    `decisions` says what its convolutions became.
    """

    decisions: DecisionReport

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
        loaded, self.decisions = _compile(program, self._settings)
        return LoadedPart(getattr(loaded, ENTRY), program.arguments, program.results, self._part.weights)


def _compile(program: PartProgram, settings: TorchCompileOptions) -> tuple[LoadedProgram, DecisionReport]:
    """The program, from the cache if it is there, and what was decided of it. Raises `CompilationError`."""
    with _cache(settings) as cache:
        options = settings.compile_options()
        flags = (settings.target, *map(str, options.items()))
        entry = cache.entry(program_key(program.model, flags, (settings.machine, settings.tuning_database)))
        try:
            result = _load(entry, settings) if entry.is_complete else None
        except (LoadError, OSError, ValueError):
            # Another process removed it, or it is damaged.
            result = None
        if result is None:
            compile(
                program.model, target=settings.target, output=entry.program, report=entry.report, **options
            )
            result = _load(entry, settings)
        entry.touch()
        # What is loaded stays, even if it alone takes more.
        cache.shrink(settings.cache_size * _MEBIBYTE)
        return result


def _load(entry: Entry, settings: TorchCompileOptions) -> tuple[LoadedProgram, DecisionReport]:
    threads = settings.worker_threads
    path = entry.program
    return (load(path, "local-sync") if threads == 1 else load(path, threads=threads)), entry.decisions()


@contextmanager
def _cache(settings: TorchCompileOptions) -> Iterator[ProgramCache]:
    """The cache of the user's, or one for the time being, with a warning where the user's can't be had."""
    if settings.cache:
        folder = Path(settings.cache_folder or default_folder())
        try:
            cache = ProgramCache(folder)
        except OSError as error:
            warn_once(f"compiled parts of models aren't kept: {error}")
        else:
            yield cache
            return
    with tempfile.TemporaryDirectory(prefix="winograd-") as temporary:
        yield ProgramCache(Path(temporary))
