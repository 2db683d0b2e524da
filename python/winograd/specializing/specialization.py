"""`Specialization`: programs of their own for sizes that come often, made in the background."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from os import PathLike
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np
from iree.winograd.compiling.keyword_options import make_options
from iree.winograd.errors import InvalidOptionError, LoadError
from iree.winograd.keeping.compiler_digest import compiler_digest
from iree.winograd.keeping.program_cache import Entry, ProgramCache, specialized_folder
from iree.winograd.loading.call_counts import CallCounts
from iree.winograd.loading.runtime import LoadedFunction, LoadedProgram, load_on
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.specializing.background import Background
from iree.winograd.specializing.compile_sizes import Job

if TYPE_CHECKING:
    from iree.winograd.importers.imported_model import ImportedModel
    from iree.winograd.loading.device import Device

_MEBIBYTE = 2**20

Sizes = tuple[tuple[int, ...], ...]
"""The shapes of a call's arguments."""


class SpecializationWarning(UserWarning):
    """There is no program for sizes that come often; that for any sizes computes them as before."""


@dataclass(frozen=True)
class Specialization:
    """That sizes which come often are to have programs of their own, for `load`.

    `model` is what the program is compiled from, for `target`, with `flags` and `options`, as `compile` takes
    them. At most `sizes` programs are loaded at a time, and at most `cache_size` MiB of them kept in
    `cache_folder`, by default a folder of the user's for caches: those used last. Sizes are counted by the
    shapes of all arguments of a call. The 101st of some has a process of low priority compile a program
    for them. No call waits for it, and neither does the end of the interpreter, which ends it.

    Raises `InvalidOptionError` for options that aren't known or have bad values.
    """

    model: ImportedModel
    sizes: int = 4
    target: str = "cpu"
    flags: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    cache_folder: str | PathLike[str] | None = None
    cache_size: int = 1024

    def __post_init__(self) -> None:
        for name in ("sizes", "cache_size"):
            if getattr(self, name) < 1:
                raise InvalidOptionError(f"{name} must be positive, got {getattr(self, name)}")
        make_options(WinogradOptions, self.options)

    def attach(self, program: LoadedProgram) -> None:
        """Have calls of `program` be counted.

        Raises `InvalidOptionError` where the model isn't what it is compiled from or leaves no size open, and
        `LoadError` where nothing can be kept on disk.
        """
        entry = self.model.entry
        function = getattr(program, entry, None)
        taken = () if function is None or function.signature is None else function.signature.inputs
        if [each.shape for each in taken] != [each.shape for each in self.model.inputs]:
            types = ", ".join(map(str, taken))
            raise InvalidOptionError(f"the program isn't compiled from this model: {entry} takes {types}")
        if all(size is not None for each in taken for size in each.shape):
            raise InvalidOptionError(f"no size of the arguments of {entry} is open")
        assert function is not None
        try:
            function.specialized = SpecialPrograms(self, function).function_for
        except OSError as error:
            raise LoadError(f"programs for sizes that come often can't be kept: {error}") from error


class SpecialPrograms:
    """The programs of a `function` for sizes that came often. Raises OSError when nothing can be written."""

    def __init__(self, specialization: Specialization, function: LoadedFunction) -> None:
        self._specialization = specialization
        self._inputs = specialization.model.inputs
        self._device: Device = function.device
        self._cache = ProgramCache(Path(specialization.cache_folder or specialized_folder()))
        self._counts = CallCounts()
        self._functions: dict[Sizes, LoadedFunction] = {}
        self._last_used: dict[Sizes, int] = {}
        self._calls = count()
        self._failed: set[Sizes] = set()
        self._messages: list[str] = []
        # Held by the thread that adds a program. Nobody waits for it.
        self._adding = Lock()
        self._background = Background()
        finalize(self, self._background.close)
        self._model = self._background.folder / "model.mlirbc"
        specialization.model.save(self._model)
        self._digest = self._digest_of_model()

    def function_for(self, arguments: Sequence[Any]) -> LoadedFunction | None:
        """That for arguments of these sizes, if there is one; counts the call if there isn't."""
        sizes = tuple([tuple(np.shape(each)) for each in arguments])
        function = self._functions.get(sizes)
        if function is not None:
            self._last_used[sizes] = next(self._calls)
        elif self._adding.acquire(blocking=False):
            self._count(sizes)
        if self._messages:
            # Another thread may have said it.
            with suppress(IndexError):
                warnings.warn(self._messages.pop(), SpecializationWarning, stacklevel=3)
        return function

    def _count(self, sizes: Sizes) -> None:
        """Count a call, and add a program for its sizes where it is one of many."""
        is_often = sizes not in self._failed and self._counts.is_often(sizes)
        if is_often and self._is_valid(sizes) and not self._background.is_closed:
            # There are none any more at the end of the interpreter.
            with suppress(RuntimeError):
                self._background.start(Thread(target=self._add, args=(sizes,), daemon=True))
                return
        self._adding.release()

    def _is_valid(self, sizes: Sizes) -> bool:
        """Whether the arguments fit the function, and there is something to compute."""
        fit = len(sizes) == len(self._inputs) and all(
            tensor.accepts(shape) and 0 not in shape
            for tensor, shape in zip(self._inputs, sizes, strict=True)
        )
        if not fit:
            self._failed.add(sizes)
        return fit

    def _add(self, sizes: Sizes) -> None:
        try:
            function = self._load(sizes)
            while len(self._functions) >= self._specialization.sizes:
                oldest = min(self._functions, key=self._last_used.__getitem__)
                del self._functions[oldest], self._last_used[oldest]
            self._last_used[sizes] = next(self._calls)
            self._functions[sizes] = function
        except Exception as error:
            self._failed.add(sizes)
            if not self._background.is_closed:
                self._messages.append(f"there is no program for arguments of shapes {sizes}: {error}")
        finally:
            self._adding.release()

    def _load(self, sizes: Sizes) -> LoadedFunction:
        """The function for these sizes, compiled if it isn't kept. Raises OSError and `WinogradError`."""
        digest = self._digest.copy()
        digest.update(repr(sizes).encode())
        entry = self._cache.entry(digest.hexdigest())
        if not entry.is_complete:
            self._background.run(self._job(sizes, entry).command())
        program = load_on(entry.program, self._device)
        entry.touch()
        self._cache.shrink(self._specialization.cache_size * _MEBIBYTE)
        function: LoadedFunction = getattr(program, self._specialization.model.entry)
        return function

    def _job(self, sizes: Sizes, entry: Entry) -> Job:
        specialization = self._specialization
        return Job(
            model=str(self._model),
            entry=specialization.model.entry,
            shapes=[list(shape) for shape in sizes],
            program=str(entry.program),
            report=str(entry.report),
            target=specialization.target,
            flags=[*specialization.model.flags, *specialization.flags],
            options=self._options(),
        )

    def _options(self) -> dict[str, Any]:
        threads = self._device.threads
        return {**({} if threads is None else {"threads": threads}), **self._specialization.options}

    def _digest_of_model(self) -> hashlib._Hash:
        """Of all that decides about programs, but for sizes."""
        specialization, options = self._specialization, self._options()
        files = [options.get("machine"), options.get("tuning_database")]
        facts = (specialization.target, *specialization.flags, *map(str, sorted(options.items())))
        return compiler_digest((specialization.model.entry, *facts), [str(self._model), *filter(None, files)])
