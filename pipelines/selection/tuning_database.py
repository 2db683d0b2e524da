"""Times of implementations as they were measured, for the choice among them."""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem

from .database_file import DatabaseFile, Format
from .implementation import Implementation, implementation_from_record, implementation_record
from .kernel_version import kernel_version

_FORMAT = Format(
    name="tuning database",
    application=int.from_bytes(b"iwtd", "big"),
    version=1,
    table="""CREATE TABLE measurement (
  problem TEXT NOT NULL, key TEXT NOT NULL, machine TEXT NOT NULL, version TEXT NOT NULL,
  implementation TEXT NOT NULL, seconds REAL NOT NULL, spread REAL NOT NULL, runs INTEGER NOT NULL,
  recorded REAL NOT NULL, UNIQUE (problem, key, machine, version, implementation))""",
)
_IDENTITY = "problem, key, machine, version, implementation"
_COLUMNS = f"{_IDENTITY}, seconds, spread, runs, recorded"
_SELECT = f"SELECT {_COLUMNS} FROM measurement"
_INSERT = f"""INSERT INTO measurement ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT ({_IDENTITY}) DO UPDATE
  SET seconds = excluded.seconds, spread = excluded.spread, runs = excluded.runs, recorded = excluded.recorded
  WHERE excluded.recorded > recorded"""


@dataclass(frozen=True)
class Measurement:
    """What was measured of an implementation. Raises ValueError for numbers that no measurement gives."""

    implementation: Implementation
    seconds: float
    """Median of one run of the convolution."""
    spread: float
    """Distance of the quartiles, relative to the median."""
    runs: int

    def __post_init__(self) -> None:
        _require_possible(self.seconds, self.spread, self.runs)


@dataclass(frozen=True)
class Entry:
    """An entry as it is kept: one of another version may hold what this version can't read.

    Raises ValueError for what no version writes.
    """

    problem: str
    key: str
    """The target and what else of it decides about times, in the words of `SearchSpace.key`."""
    machine: str
    """Name of the processor or device that was measured."""
    version: str
    """Of the kernels."""
    implementation: Mapping[str, Any]
    """In the form of `implementation_record`."""
    seconds: float
    spread: float
    runs: int
    when: datetime

    def __post_init__(self) -> None:
        _require_possible(self.seconds, self.spread, self.runs)
        texts = (self.problem, self.key, self.machine, self.version)
        if not all(isinstance(text, str) for text in texts) or not isinstance(self.implementation, Mapping):
            raise ValueError("its columns don't hold what they should")

    @property
    def is_current(self) -> bool:
        """Whether the kernels of this version were measured."""
        return self.version == kernel_version()

    def measurement(self) -> Measurement:
        """What was measured. Raises ValueError when this version has no such implementation."""
        implementation = implementation_from_record(self.implementation)
        return Measurement(implementation, self.seconds, self.spread, self.runs)


class TuningDatabase:
    """The tuning database in the file `path`, which is created when there is none.

    Several processes may have it open and record at once, and one that is killed loses nothing that it had
    recorded. A damaged file is renamed to `FILE.damaged-1`, or the next number that is free, and a new one
    begun; with `read_only` it stays and counts as empty. Either is told to `report`, as are entries that
    can't be read. Use it in the thread that made it, and close it, or use it in a `with` statement.

    Raises FileNotFoundError for a missing file with `read_only`, other OSErrors when the file can't be read
    or written, also later, and ValueError when it is no tuning database, or has another format.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, report: Callable[[str], None], read_only: bool = False
    ) -> None:
        self._report = report
        self._file = DatabaseFile(Path(path), _FORMAT, report, read_only=read_only)

    def __enter__(self) -> TuningDatabase:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def record(
        self,
        problem: ConvolutionProblem,
        key: str,
        measurements: Iterable[Measurement],
        *,
        machine: str | None = None,
    ) -> None:
        """Keep what was measured on `machine`, by default this computer's processor.

        All of `measurements` get into the file at once, and replace those of the same implementations.
        """
        machine = processor_name() if machine is None else machine
        now = time.time()
        self._file.insert(
            _INSERT,
            [
                (
                    str(problem),
                    key,
                    machine,
                    kernel_version(),
                    _implementation_text(each.implementation),
                    each.seconds,
                    each.spread,
                    each.runs,
                    now,
                )
                for each in measurements
            ],
        )

    def measurements(
        self, problem: ConvolutionProblem, key: str, *, machine: str | None = None
    ) -> tuple[Measurement, ...]:
        """What was measured of this version's kernels on `machine`, fastest first.

        Times of different machines don't compare; by default they are those of the one measured last.
        """
        found = []
        for entry in self._entries_of(problem, key, machine):
            try:
                found.append(entry.measurement())
            except ValueError as error:
                self._report_unreadable(str(problem), error)
        return tuple(sorted(found, key=lambda each: each.seconds))

    def others(
        self, problem: ConvolutionProblem, key: str, *, machine: str | None = None
    ) -> tuple[Entry, ...]:
        """Entries for `problem` that `measurements` leaves out: of other versions, targets or machines."""
        used = {entry.machine for entry in self._entries_of(problem, key, machine)}
        return tuple(
            entry
            for entry in self._entries("WHERE problem = ? ORDER BY key, seconds", str(problem))
            if not (entry.key == key and entry.is_current and entry.machine in used)
        )

    def entries(self) -> Iterator[Entry]:
        """All that there are, by problem, key and time."""
        return self._entries("ORDER BY problem, key, seconds")

    def merge(self, other: TuningDatabase) -> int:
        """Take from `other` what is missing or older here; returns how many entries that were."""
        return self._file.insert(_INSERT, other._file.select(_SELECT))

    def _entries_of(self, problem: ConvolutionProblem, key: str, machine: str | None) -> list[Entry]:
        condition = "WHERE problem = ? AND key = ? AND version = ? ORDER BY recorded DESC"
        entries = list(self._entries(condition, str(problem), key, kernel_version()))
        if machine is None and entries:
            machine = entries[0].machine
        return [entry for entry in entries if entry.machine == machine]

    def _entries(self, condition: str, *values: str) -> Iterator[Entry]:
        for row in self._file.select(f"{_SELECT} {condition}", values):
            problem, key, machine, version, implementation, seconds, spread, runs, recorded = row
            try:
                record = json.loads(implementation)
                when = datetime.fromtimestamp(recorded, timezone.utc)
                entry = Entry(problem, key, machine, version, record, seconds, spread, runs, when)
            except (OverflowError, RecursionError, TypeError, ValueError) as error:
                self._report_unreadable(problem, error)
                continue
            yield entry

    def _report_unreadable(self, problem: str, error: Exception) -> None:
        self._report(f"{self._file.path}: ignored an entry for {problem}: {error}")


def _require_possible(seconds: float, spread: float, runs: int) -> None:
    try:
        is_possible = 0 < seconds < math.inf and 0 <= spread < math.inf and runs >= 1
    except TypeError:
        # A column of a database may hold text.
        is_possible = False
    if not is_possible:
        raise ValueError(
            f"a measurement has a positive time, a spread and at least one run, not {seconds!r} s, "
            f"{spread!r} and {runs!r} runs"
        )


@cache
def processor_name() -> str:
    """What this computer's processor calls itself."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _implementation_text(implementation: Implementation) -> str:
    """Equal for equal implementations."""
    return json.dumps(implementation_record(implementation), sort_keys=True)
