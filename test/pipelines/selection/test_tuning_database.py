"""The tuning database gives back what was measured of the same convolution, target and kernels."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from iree.winograd.pipelines.selection import tuning_database
from iree.winograd.pipelines.selection.tuning_database import Measurement, TuningDatabase
from measured_times import KEY, PROBLEM, TIMES, never


def test_measurements_come_back_fastest_first(database: TuningDatabase, path: Path) -> None:
    database.record(PROBLEM, KEY, reversed(TIMES))
    assert database.measurements(PROBLEM, KEY) == TIMES
    with TuningDatabase(path, report=never, read_only=True) as other:
        assert other.measurements(PROBLEM, KEY) == TIMES


def test_a_newer_measurement_replaces_the_older(database: TuningDatabase) -> None:
    database.record(PROBLEM, KEY, TIMES)
    slower = replace(TIMES[0], seconds=3e-3, runs=7)
    database.record(PROBLEM, KEY, [slower])
    assert database.measurements(PROBLEM, KEY) == (TIMES[1], slower)


def test_only_the_exact_problem_and_key_count(database: TuningDatabase) -> None:
    database.record(PROBLEM, KEY, TIMES)
    assert database.measurements(replace(PROBLEM, batch=2), KEY) == ()
    assert database.others(replace(PROBLEM, batch=2), KEY) == ()
    assert database.measurements(PROBLEM, "x86-64 znver4, threads 2") == ()
    assert [entry.seconds for entry in database.others(PROBLEM, "x86-64 znver4, threads 2")] == [1e-3, 2e-3]
    assert database.others(PROBLEM, KEY) == ()


def test_measurements_of_other_kernels_are_left_out(
    database: TuningDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(tuning_database, "kernel_version", lambda: "earlier")
        database.record(PROBLEM, KEY, TIMES[:1])
    database.record(PROBLEM, KEY, TIMES[1:])
    assert database.measurements(PROBLEM, KEY) == TIMES[1:]
    (other,) = database.others(PROBLEM, KEY)
    assert other.version == "earlier" and not other.is_current
    assert other.measurement() == TIMES[0]


def test_times_of_several_machines_are_not_compared(database: TuningDatabase) -> None:
    database.record(PROBLEM, KEY, TIMES, machine="fast")
    slow = tuple(replace(each, seconds=10 * each.seconds) for each in TIMES)
    database.record(PROBLEM, KEY, slow, machine="slow")
    assert database.measurements(PROBLEM, KEY) == slow
    assert database.measurements(PROBLEM, KEY, machine="fast") == TIMES
    assert {entry.machine for entry in database.others(PROBLEM, KEY)} == {"fast"}
    assert {entry.machine for entry in database.others(PROBLEM, KEY, machine="fast")} == {"slow"}


def test_entries_that_this_version_cannot_read_are_reported(path: Path) -> None:
    with TuningDatabase(path, report=never) as database:
        database.record(PROBLEM, KEY, TIMES)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE measurement SET implementation = '{\"output_tile\": 1}' WHERE seconds > 1e-3"
        )
    messages: list[str] = []
    with TuningDatabase(path, report=messages.append) as database:
        assert database.measurements(PROBLEM, KEY) == TIMES[:1]
    assert len(messages) == 1 and "ignored an entry" in messages[0]


@pytest.mark.parametrize(
    "assignment",
    [
        "seconds = 'fast'",
        "seconds = -1",
        "spread = x'00'",
        "runs = 'many'",
        "recorded = 'today'",
        "recorded = 1e300",
        "key = x'ff'",
        "implementation = '[]'",
        "implementation = 7",
        "implementation = x'ff'",
        f"implementation = '{'[' * 100_000}'",
    ],
)
def test_entries_with_impossible_columns_are_reported(path: Path, assignment: str) -> None:
    with TuningDatabase(path, report=never) as database:
        database.record(PROBLEM, KEY, TIMES)
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE measurement SET {assignment} WHERE seconds > 1e-3")
    messages: list[str] = []
    with TuningDatabase(path, report=messages.append) as database:
        assert [entry.seconds for entry in database.entries()] == [1e-3]
    assert len(messages) == 1 and f"ignored an entry for {PROBLEM}" in messages[0]


@pytest.mark.parametrize(
    "wrong", [{"seconds": 0.0}, {"seconds": float("nan")}, {"spread": -0.1}, {"runs": 0}]
)
def test_impossible_measurements_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="positive time"):
        replace(TIMES[0], **wrong)


def test_nothing_of_a_failed_recording_stays(database: TuningDatabase) -> None:
    def fails() -> Iterator[Measurement]:
        yield TIMES[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        database.record(PROBLEM, KEY, fails())
    assert database.measurements(PROBLEM, KEY) == ()


def test_merging_keeps_the_newest(path: Path, database: TuningDatabase) -> None:
    newer = replace(TIMES[0], seconds=5e-3)
    with TuningDatabase(path.with_suffix(".other"), report=never) as other:
        other.record(PROBLEM, KEY, TIMES)
        database.record(PROBLEM, KEY, [newer])
        assert database.merge(other) == 1
        assert database.measurements(PROBLEM, KEY) == (TIMES[1], newer)
        assert other.merge(database) == 1
        assert other.measurements(PROBLEM, KEY) == (TIMES[1], newer)
        assert database.merge(other) == 0
