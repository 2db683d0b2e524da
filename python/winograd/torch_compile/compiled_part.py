"""A part of a torch graph, compiled, and compiled anew when the weights in its program change."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from iree.winograd.errors import CompilationError, LoadError, TuningError
from iree.winograd.keeping.program_cache import Entry, ProgramCache, default_folder
from iree.winograd.loading.device import Device, open_device
from iree.winograd.loading.runtime import LoadedProgram, load_on
from iree.winograd.report.schema import DecisionReport
from iree.winograd.specializing.specialization import Specialization
from iree.winograd.torch_compile.callable_part import callable_part
from iree.winograd.torch_compile.contained import Function
from iree.winograd.torch_compile.division import Part, lower_program
from iree.winograd.torch_compile.fallback_warning import warn, warn_once
from iree.winograd.torch_compile.kept_graph import KeptGraph, read_graph
from iree.winograd.torch_compile.models_of_graph import ModelsOfGraph
from iree.winograd.torch_compile.part_device import PartDevice
from iree.winograd.torch_compile.part_program import ENTRY, PartProgram, part_program
from iree.winograd.torch_compile.program_key import program_key, structure_key
from iree.winograd.torch_compile.settings import TorchCompileOptions
from iree.winograd.torch_compile.shared_programs import SHARED_PROGRAMS
from torch.fx import Graph

if TYPE_CHECKING:
    from iree.winograd.importers.imported_model import ImportedModel

_MEBIBYTE = 2**20
_TUNING_DATABASE = "tuning.db"


class PartCompiler:
    """Compiles the programs of parts, or finds them in the user's cache.

    Without `keeps_memory`, what a program frees on the CPU is for torch to use: where there are as many sizes
    of results and temporaries as layers, the runtime would keep one of each.
    """

    def __init__(
        self, settings: TorchCompileOptions, device: PartDevice, *, keeps_memory: bool = True
    ) -> None:
        self._settings = settings
        self._device = device
        self._keeps_memory = keeps_memory
        # A key takes reading all weights.
        self._keys: dict[PartProgram, str] = {}
        # A graph may have a program several times, but for weights in it.
        self._loaded: dict[str, tuple[LoadedProgram, DecisionReport]] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def is_kept(self, program: PartProgram) -> bool:
        """Whether `program` is loaded, or the cache holds it compiled."""
        if self._loaded and self._key(program) in self._loaded:
            return True
        if self._shared(program) is not None:
            return True
        if not self._settings.cache:
            return False
        with self._cache() as cache:
            return cache.entry(self._key(program)).is_complete

    def load(self, program: PartProgram, model: ImportedModel | None) -> tuple[LoadedProgram, DecisionReport]:
        """The compiled program, and what was decided of it. Raises `CompilationError`.

        `model` is what `lower_program` makes of it, None where that wasn't asked for.
        """
        if program.weights:
            return self._load_or_compile(program, model)
        key = self._key(program)
        if key not in self._loaded:
            self._loaded[key] = self._load_or_compile(program, model)
        return self._loaded[key]

    def specialize(self, loaded: LoadedProgram, program: PartProgram, model: ImportedModel | None) -> None:
        """Have sizes that come often get programs of their own, if the user asks for them."""
        most = self._settings.specialize
        function = getattr(loaded, ENTRY)
        is_open = function.signature is not None and any(
            size is None for tensor in function.signature.inputs for size in tensor.shape
        )
        if most is None or not is_open or function.specialized is not None:
            return
        specialization = Specialization(
            lower_program(program) if model is None else model,
            sizes=most,
            target=self._device.target,
            options={name: each for name, each in self._settings.compile_options().items() if each},
            cache_folder=self._specialized_folder(),
            cache_size=self._settings.cache_size,
        )
        try:
            specialization.attach(loaded)
        except LoadError as error:
            warn_once(str(error))

    def _specialized_folder(self) -> Path | None:
        """Where programs for sizes are kept: as long as this, where nothing is to be kept."""
        if not self._settings.cache:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="winograd-")
            return Path(self._folder.name)
        folder = self._settings.cache_folder
        return None if folder is None else Path(folder, "specialized")

    def read_graph(self, key: str) -> KeptGraph | None:
        """What the cache holds of the graph of this key."""
        if not self._settings.cache:
            return None
        with self._cache() as cache:
            return read_graph(cache, key)

    def write_graph(self, key: str, kept: KeptGraph) -> None:
        """Have the cache hold what is `kept` of a graph."""
        if self._settings.cache:
            with self._cache() as cache, suppress(OSError):
                kept.write(cache, key)

    def load_kept(self, key: str) -> tuple[LoadedProgram, DecisionReport] | None:
        """The program of this `program_key` and what was decided of it, if the cache holds it."""
        with self._cache() as cache:
            entry = cache.entry(key)
            result = self._load_kept(entry)
            if result is not None:
                entry.touch()
            return result

    def _load_or_compile(
        self, program: PartProgram, model: ImportedModel | None
    ) -> tuple[LoadedProgram, DecisionReport]:
        shared = self._shared(program)
        if shared is not None:
            return shared
        with self._cache() as cache:
            entry = cache.entry(self._key(program))
            result = self._load_kept(entry)
            if result is None:
                result = self._compiled(lower_program(program) if model is None else model, entry)
            entry.touch()
            # What is loaded stays, even if it alone takes more.
            cache.shrink(self._settings.cache_size * _MEBIBYTE)
        if program.is_open:
            SHARED_PROGRAMS.add(self._shared_key(program), *result)
        return result

    def _shared(self, program: PartProgram) -> tuple[LoadedProgram, DecisionReport] | None:
        """What this process has loaded of `program`, if it is for any size."""
        return SHARED_PROGRAMS.find(self._shared_key(program)) if program.is_open else None

    def _shared_key(self, program: PartProgram) -> tuple[str, ...]:
        settings = self._settings
        device = (self._device.uri, str(settings.worker_threads), str(self._keeps_memory))
        return (self._key(program), *device, str(settings.specialize))

    def _compiled(self, model: ImportedModel, entry: Entry) -> tuple[LoadedProgram, DecisionReport]:
        try:
            self._compile(model, entry)
        except CompilationError as error:
            if not isinstance(error.__cause__, OSError):
                raise
            # Its disk is full, say.
            warn_once(f"compiled parts of models aren't kept: {error}")
        else:
            return self._load(entry)
        with tempfile.TemporaryDirectory(prefix="winograd-") as folder:
            unkept = ProgramCache(Path(folder)).entry(entry.program.stem)
            self._compile(model, unkept)
            return self._load(unkept)

    def _compile(self, model: ImportedModel, entry: Entry) -> None:
        # The compiler takes a second to load, and programs that are kept don't need it.
        from iree.winograd.compiling.program import compile

        options = self._settings.compile_options()
        if self._settings.tuning_budget is not None:
            options["tuning_database"] = self._tune(model, entry.program.parent, options)
        target = self._device.target
        compile(model, target=target, output=entry.program, report=entry.report, **options)

    def _tune(self, model: ImportedModel, folder: Path, options: Mapping[str, Any]) -> str | None:
        """Measure the layers of `model`; returns the database, None where nothing could be measured."""
        from iree.winograd.tuning.tuner import tune

        database = self._settings.tuning_database or str(folder / _TUNING_DATABASE)
        try:
            tune(
                model,
                target=self._device.target,
                device=self._device.uri,
                database=database,
                budget=self._settings.tuning_budget or 0,
                **{**options, "tuning_database": None},
            )
        except TuningError as error:
            warn(f"a part of the model isn't tuned: {error}")
        return database if os.path.exists(database) else None

    def _load_kept(self, entry: Entry) -> tuple[LoadedProgram, DecisionReport] | None:
        try:
            return self._load(entry) if entry.is_complete else None
        except (LoadError, OSError, ValueError) as error:
            # Otherwise another process removed it.
            if entry.is_complete:
                warn_once(f"a program that was kept is compiled anew: {error}")
            return None

    def _load(self, entry: Entry) -> tuple[LoadedProgram, DecisionReport]:
        return load_on(entry.program, self._open_device()), entry.decisions()

    def _open_device(self) -> Device:
        if self._device.torch.type != "cpu":
            return open_device(self._device.uri)
        threads = self._settings.worker_threads
        return open_device("local-task", threads, caching=self._keeps_memory, alone=False)

    def _key(self, program: PartProgram) -> str:
        if program not in self._keys:
            self._keys[program] = program_key(self.structure_key(program.graph), program.weights)
        return self._keys[program]

    def structure_key(self, graph: Graph, *flags: str) -> str:
        """The `structure_key` of a graph on this device, with these settings and further `flags`."""
        settings = self._settings
        flags = (self._device.target, *map(str, settings.compile_options().items()), *flags)
        files = [settings.machine]
        if settings.tuning_budget is None:
            files.append(settings.tuning_database)
        else:
            # What was tuned is kept as it is: its own measurements would make it another program.
            flags = (*flags, f"tuned for {settings.tuning_budget} s")
        return structure_key(graph, flags, files)

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
    """A function on the arguments of `part`.

    Raises `CompilationError`, `LoadError` or `ModelImportError` when it is made, and when it is called on
    changed weights, or on those of another model, for the first time, which it is compiled anew for, or
    `CallError`.

    `program` is what is called first, `decisions` says what its convolutions became.
    """

    program: LoadedProgram
    decisions: DecisionReport

    def __init__(self, part: Part, compiler: PartCompiler, freezing: bool) -> None:
        self._part = part
        self._compiler = compiler
        self._lock = threading.Lock()
        self.program, self.decisions = compiler.load(part.program, part.model)
        function = self._callable(self.program, part.program, part.model)
        self._models: ModelsOfGraph | None = None
        self._passing: Function | None = function
        if freezing and part.weights:
            self._models, self._passing = ModelsOfGraph(function, part.weights, self._function_of), None

    def __call__(self, *arguments: Any) -> Any:
        """The results, one or a tuple of them."""
        if self._models is None:
            return self._pass_weights()(*arguments)
        program = self._models.find(arguments)
        results = None if program is None else program.results(arguments)
        if results is None:
            results = self._pass_weights()(*arguments)
            self._models.leave(arguments)
        return results

    def program_of(self, weights: Mapping[int, torch.Tensor]) -> LoadedProgram:
        """That which holds these weights, of another model."""
        return self._load(weights)[0]

    def _function_of(self, arguments: Sequence[Any]) -> Function:
        """That whose program holds the weights among `arguments`."""
        program = self._load({number: arguments[number] for number in self._part.weights})
        return self._callable(*program, None)

    def _load(self, weights: Mapping[int, torch.Tensor]) -> tuple[LoadedProgram, PartProgram]:
        program = part_program(self._part.graph, weights, self._part.program.signature.device)
        return self._compiler.load(program, None)[0], program

    def _pass_weights(self) -> Function:
        """The function that takes the weights from the arguments: they may change again."""
        with self._lock:
            if self._passing is None:
                self._passing = self._callable(*self._load({}), None)
            return self._passing

    def _callable(self, loaded: LoadedProgram, program: PartProgram, model: ImportedModel | None) -> Function:
        self._compiler.specialize(loaded, program, model)
        return callable_part(loaded, program.signature, self._part.weights)
