"""A part of a torch graph, compiled, and compiled anew when the weights in its program change."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iree.winograd.errors import LoadError
from iree.winograd.report.schema import DecisionReport
from iree.winograd.runtime import LoadedProgram, load
from iree.winograd.torch_compile.cache import Entry, ProgramCache, default_folder
from iree.winograd.torch_compile.division import Part, lower_program
from iree.winograd.torch_compile.fallback import warn_once
from iree.winograd.torch_compile.loaded_part import LoadedPart, WeightState
from iree.winograd.torch_compile.part_program import ENTRY, PartProgram, part_program
from iree.winograd.torch_compile.program_key import program_key
from iree.winograd.torch_compile.settings import TorchCompileOptions

if TYPE_CHECKING:
    from iree.winograd.imported_model import ImportedModel

_MEBIBYTE = 2**20


class PartCompiler:
    """Compiles the programs of parts, or finds them in the user's cache."""

    def __init__(self, settings: TorchCompileOptions) -> None:
        self._settings = settings
        # A key takes reading all weights.
        self._keys: dict[PartProgram, str] = {}
        # A graph may have a program several times, but for weights in it.
        self._loaded: dict[str, tuple[LoadedProgram, DecisionReport]] = {}

    def is_kept(self, program: PartProgram) -> bool:
        """Whether `program` is loaded, or the cache holds it compiled."""
        if self._loaded and self._key(program) in self._loaded:
            return True
        if not self._settings.cache:
            return False
        with self._cache() as cache:
            return cache.entry(self._key(program)).is_complete

    def load(self, program: PartProgram, model: ImportedModel | None) -> tuple[LoadedProgram, DecisionReport]:
        """The compiled program, and what was decided of it. Raises `CompilationError`.

        `model` is what `lower_program` makes of it, None where that wasn't asked for.
        """
        if program.has_weights:
            return self._load_or_compile(program, model)
        key = self._key(program)
        if key not in self._loaded:
            self._loaded[key] = self._load_or_compile(program, model)
        return self._loaded[key]

    def _load_or_compile(
        self, program: PartProgram, model: ImportedModel | None
    ) -> tuple[LoadedProgram, DecisionReport]:
        with self._cache() as cache:
            entry = cache.entry(self._key(program))
            try:
                result = self._load(entry) if entry.is_complete else None
            except (LoadError, OSError, ValueError):
                # Another process removed it, or it is damaged.
                result = None
            if result is None:
                self._compile(lower_program(program) if model is None else model, entry)
                result = self._load(entry)
            entry.touch()
            # What is loaded stays, even if it alone takes more.
            cache.shrink(self._settings.cache_size * _MEBIBYTE)
            return result

    def _compile(self, model: ImportedModel, entry: Entry) -> None:
        # The compiler takes a second to load, and programs that are kept don't need it.
        from iree.winograd.program import compile

        options = self._settings.compile_options()
        target = self._settings.target
        compile(model, target=target, output=entry.program, report=entry.report, **options)

    def _load(self, entry: Entry) -> tuple[LoadedProgram, DecisionReport]:
        threads = self._settings.worker_threads
        path = entry.program
        loaded = load(path, "local-sync") if threads == 1 else load(path, threads=threads)
        return loaded, entry.decisions()

    def _key(self, program: PartProgram) -> str:
        if program not in self._keys:
            settings = self._settings
            flags = (settings.target, *map(str, settings.compile_options().items()))
            files = (settings.machine, settings.tuning_database)
            self._keys[program] = program_key(program.graph, flags, files)
        return self._keys[program]

    @contextmanager
    def _cache(self) -> Iterator[ProgramCache]:
        """The user's cache, or one for the time being, with a warning where the user's can't be had."""
        if self._settings.cache:
            folder = Path(self._settings.cache_folder or default_folder())
            try:
                cache = ProgramCache(folder)
            except OSError as error:
                warn_once(f"compiled parts of models aren't kept: {error}")
            else:
                yield cache
                return
        with tempfile.TemporaryDirectory(prefix="winograd-") as temporary:
            yield ProgramCache(Path(temporary))


class CompiledPart:
    """A function on the arguments of `part`. Raises `CompilationError` when it is made, `CallError` later.

    `decisions` says what its convolutions became.
    """

    decisions: DecisionReport

    def __init__(self, part: Part, compiler: PartCompiler, freezing: bool) -> None:
        self._part = part
        self._compiler = compiler
        self._lock = threading.Lock()
        self._call = self._load(part.program, part.model)
        folded = freezing and bool(part.weights)
        self._folded = WeightState(list(part.weights.values())) if folded else None
        self._numbers = tuple(part.weights)

    def __call__(self, *arguments: Any) -> Any:
        """The results, one or a tuple of them."""
        # Another thread may pass the weights at any time.
        folded = self._folded
        if folded is not None and not folded.is_of([arguments[each] for each in self._numbers]):
            self._pass_weights()
        return self._call(*arguments)

    def _pass_weights(self) -> None:
        """From here on take the weights from the arguments: they may change again."""
        with self._lock:
            if self._folded is not None:
                self._call = self._load(part_program(self._part.graph, {}), None)
                self._folded = None

    def _load(self, program: PartProgram, model: ImportedModel | None) -> LoadedPart:
        loaded, self.decisions = self._compiler.load(program, model)
        return LoadedPart(getattr(loaded, ENTRY), program.arguments, program.results, self._part.weights)
