"""Compiled programs on disk, for processes to come."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from iree.winograd.atomic_file import atomic_file
from iree.winograd.pipelines.machines.user_folders import cache_folder

if TYPE_CHECKING:
    from iree.winograd.report.schema import DecisionReport

_PROGRAM, _REPORT, _GRAPH = ".vmfb", ".json", ".graph"

_LOADED = (PermissionError,) if sys.platform == "win32" else ()
"""What a file raises that is to be removed while a process has it loaded."""

MOST_GRAPHS = 4096
"""That are kept: each takes some kilobytes, whatever its program takes."""


def default_folder() -> Path:
    """Where `torch.compile` keeps programs unless the user says otherwise."""
    return cache_folder() / "torch-compile"


def specialized_folder() -> Path:
    """Where programs for sizes that came often are kept unless the user says otherwise."""
    return cache_folder() / "specialized"


@dataclass(frozen=True)
class Entry:
    """A program, and the report on what was decided of its convolutions.

    The report is written last: where it is, the program is complete.
    """

    program: Path
    report: Path

    @property
    def is_complete(self) -> bool:
        """Whether the program can be loaded."""
        return self.report.exists() and self.program.exists()

    def decisions(self) -> DecisionReport:
        """What the report says. Raises OSError and ValueError."""
        return cast("DecisionReport", json.loads(self.report.read_text(encoding="utf-8")))

    def touch(self) -> None:
        """Count the entry as used."""
        with suppress(OSError):
            os.utime(self.report)

    def remove(self) -> None:
        """Remove the entry; processes that have it loaded keep it, on Windows with the file."""
        for path in (self.report, self.program):
            with suppress(*_LOADED):
                path.unlink(missing_ok=True)


class ProgramCache:
    """A folder of programs, for any number of processes at a time.

    Raises OSError when the folder can't be made or written to.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(f"{folder}: not writable")
        self._folder = folder

    def entry(self, key: str) -> Entry:
        """Where the program of this key is, or is to be written."""
        return _entry(self._folder, key)

    def read_graph(self, key: str) -> str:
        """What is kept of the graph of this key, which counts as used. Raises OSError."""
        path = self._folder / f"{key}{_GRAPH}"
        text = path.read_text(encoding="utf-8")
        with suppress(OSError):
            os.utime(path)
        return text

    def write_graph(self, key: str, text: str) -> None:
        """Keep `text` of the graph of this key. Raises OSError."""
        with atomic_file(str(self._folder / f"{key}{_GRAPH}")) as path:
            Path(path).write_text(text, encoding="utf-8")

    def shrink(self, limit: int) -> None:
        """Remove entries, those used least recently first, so that all take at most `limit` bytes."""
        used = sorted(usage(self._folder), key=lambda each: each.seconds, reverse=True)
        total = 0
        for each in used:
            if total + each.size > limit:
                each.entry.remove()
            else:
                total += each.size
        for path in sorted(graph_files(self._folder), key=_modified, reverse=True)[MOST_GRAPHS:]:
            path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Usage:
    """An entry, its size in bytes, and when it was used last, in seconds since the epoch."""

    entry: Entry
    size: int
    seconds: float


def usage(folder: Path) -> Iterator[Usage]:
    """The entries in `folder`, if it is there, those of processes that were killed included."""
    keys = {path.stem for path in folder.glob("*") if path.suffix in (_PROGRAM, _REPORT)}
    for key in sorted(keys):
        entry = _entry(folder, key)
        states = []
        for path in (entry.program, entry.report):
            # Another process may remove it.
            with suppress(FileNotFoundError):
                states.append(path.stat())
        if states:
            yield Usage(
                entry, sum(state.st_size for state in states), max(state.st_mtime for state in states)
            )


def graph_files(folder: Path) -> Iterator[Path]:
    """What is kept of graphs in `folder`, if it is there."""
    return folder.glob(f"*{_GRAPH}")


def _modified(path: Path) -> float:
    """In seconds since the epoch, 0 where another process removed it."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _entry(folder: Path, key: str) -> Entry:
    return Entry(folder / f"{key}{_PROGRAM}", folder / f"{key}{_REPORT}")
