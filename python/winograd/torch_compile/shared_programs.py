"""Programs for any size that a process has loaded: torch traces a graph anew for each range of its sizes."""

from __future__ import annotations

from weakref import WeakKeyDictionary, WeakValueDictionary

from iree.winograd.loading.runtime import LoadedProgram
from iree.winograd.report.schema import DecisionReport

Key = tuple[str, ...]


class SharedPrograms:
    """Programs, and what was decided of each, by what they are kept by, as long as another uses them.

    Torch's own operators have guards on sizes, as its convolutions on the number of an image's elements.
    Where one fails the same graph is compiled once more, by another object.
    """

    def __init__(self) -> None:
        self._programs: WeakValueDictionary[Key, LoadedProgram] = WeakValueDictionary()
        self._decisions: WeakKeyDictionary[LoadedProgram, DecisionReport] = WeakKeyDictionary()

    def add(self, key: Key, program: LoadedProgram, decisions: DecisionReport) -> None:
        """Have `program` found by `key` from now on."""
        self._programs[key] = program
        self._decisions[program] = decisions

    def find(self, key: Key) -> tuple[LoadedProgram, DecisionReport] | None:
        """The program of `key`, if one is in use."""
        program = self._programs.get(key)
        return None if program is None else (program, self._decisions[program])


SHARED_PROGRAMS = SharedPrograms()
"""Those of this process."""
