"""The file keeps what was recorded, whoever writes at once, is killed, or damages it."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from iree.winograd.pipelines.selection.implementation import Implementation
from iree.winograd.pipelines.selection.tuning_database import Measurement, TuningDatabase
from measured_times import DIRECT, KEY, PROBLEM, TIMES, never
from warm_python import warm_python

# Records one measurement after another until killed; prints the number of each that is in the file.
WRITER = """
import sys
from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule
from iree.winograd.pipelines.selection.implementation import Implementation
from iree.winograd.pipelines.selection.tuning_database import Measurement, TuningDatabase

path, problem, first, count = sys.argv[1], ConvolutionProblem.parse(sys.argv[2]), *map(int, sys.argv[3:])
with TuningDatabase(path, report=lambda message: sys.exit(message)) as database:
    for number in range(first, first + count):
        schedule = DirectSchedule(16, 6, 4, 2, number)
        implementation = Implementation(Algorithm((1, 1), (1, 1)), schedule)
        database.record(problem, "key", [Measurement(implementation, 1e-3 * number, 0.0, 1)])
        print(number, flush=True)
"""


def start_writer(path: Path, first: int, count: int, python: str = sys.executable) -> subprocess.Popen[str]:
    arguments = [python, "-c", WRITER, path, str(PROBLEM), str(first), str(count)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def recorded_numbers(path: Path) -> list[int]:
    with TuningDatabase(path, report=never, read_only=True) as database:
        return [each.implementation.schedule.pixel_block for each in database.measurements(PROBLEM, "key")]


def filled(path: Path, count: int = 200) -> bytes:
    """The content of a database of several pages."""
    schedule = DIRECT.schedule
    with TuningDatabase(path, report=never) as database:
        database.record(
            PROBLEM,
            KEY,
            [
                Measurement(
                    Implementation(DIRECT.algorithm, replace(schedule, pixel_block=block)), 1.0, 0.0, 1
                )
                for block in range(1, count + 1)
            ],
        )
    return path.read_bytes()


def test_one_file_and_no_other(tmp_path: Path) -> None:
    filled(tmp_path / "tuning.db")
    assert [file.name for file in tmp_path.iterdir()] == ["tuning.db"]


def test_failures_that_are_no_damage_leave_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with TuningDatabase(path, report=never) as database:
        database.record(PROBLEM, KEY, TIMES)

        class Interrupted(sqlite3.Connection):
            def execute(self, *arguments: object) -> sqlite3.Cursor:
                raise sqlite3.OperationalError("interrupted")

        with monkeypatch.context() as patch:
            patch.setattr(database._file, "_connection", sqlite3.connect(path, factory=Interrupted))
            with pytest.raises(OSError, match="interrupted"):
                database.measurements(PROBLEM, KEY)
        assert database.measurements(PROBLEM, KEY) == TIMES


def test_concurrent_writers_lose_nothing(path: Path) -> None:
    writers = [start_writer(path, 1 + 40 * index, 40, warm_python()) for index in range(2)]
    assert [writer.wait(timeout=120) for writer in writers] == [0] * 2
    assert recorded_numbers(path) == list(range(1, 81))


@pytest.mark.wide
def test_a_killed_writer_loses_nothing_that_it_had_recorded(path: Path) -> None:
    for attempt in range(4):
        writer = start_writer(path, 1 + 100_000 * attempt, 100_000)
        assert writer.stdout is not None
        last = [int(writer.stdout.readline()) for _ in range(20 + attempt)][-1]
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        assert set(range(1 + 100_000 * attempt, last + 1)) <= set(recorded_numbers(path))


def test_a_transaction_that_was_cut_off_is_rolled_back(path: Path) -> None:
    """What is in the file of a process killed while it writes: pages of a transaction, and its journal."""
    complete = filled(path)
    child = os.fork()
    if child == 0:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "UPDATE measurement SET seconds = 7, implementation = implementation || '          '"
        )
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert path.read_bytes() != complete
    with TuningDatabase(path, report=never, read_only=True) as database:
        assert {each.seconds for each in database.measurements(PROBLEM, KEY)} == {1.0}
    assert path.read_bytes() == complete
    assert not path.with_name("tuning.db-journal").exists()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda content: content[: len(content) // 2 + 100],
    "header only": lambda content: content[:80],
    "another first page": lambda content: b"?" * 60 + content[60:72] + b"?" * 4024 + content[4096:],
    "page overwritten": lambda content: content[:8192] + random.Random(2).randbytes(4096) + content[12288:],
}


OTHERS = {
    "random": random.Random(1).randbytes(20000),
    "text": b"module {}\n" * 100,
    "short": b"?",
    "an empty database": b"SQLite format 3\0" + bytes(84),
}


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("other", OTHERS)
def test_a_file_that_never_was_a_tuning_database_stays(path: Path, other: str, read_only: bool) -> None:
    path.write_bytes(OTHERS[other])
    with pytest.raises(ValueError, match="is no tuning database"):
        TuningDatabase(path, report=never, read_only=read_only)
    assert path.read_bytes() == OTHERS[other]
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_set_aside(path: Path, damage: str) -> None:
    damaged = DAMAGES[damage](filled(path))
    for number in (1, 2):
        path.write_bytes(damaged)
        messages: list[str] = []
        with TuningDatabase(path, report=messages.append) as database:
            database.record(PROBLEM, KEY, TIMES)
            assert database.measurements(PROBLEM, KEY) == TIMES
        aside = Path(f"{path}.damaged-{number}")
        assert aside.read_bytes() == damaged
        assert len(messages) == 1 and str(aside) in messages[0]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_empty_to_a_reader_and_stays(path: Path, damage: str) -> None:
    damaged = DAMAGES[damage](filled(path))
    path.write_bytes(damaged)
    messages: list[str] = []
    with TuningDatabase(path, report=messages.append, read_only=True) as database:
        assert database.measurements(PROBLEM, KEY) == ()
    assert path.read_bytes() == damaged
    assert len(messages) == 1 and "damaged" in messages[0]


@pytest.mark.wide
def test_any_damaged_byte_is_survived(path: Path) -> None:
    content = filled(path, 10)
    generator = random.Random(3)
    for position in [*range(100), *(generator.randrange(len(content)) for _ in range(300))]:
        damaged = bytearray(content)
        damaged[position] ^= generator.randrange(1, 256)
        path.write_bytes(damaged)
        messages: list[str] = []
        try:
            with TuningDatabase(path, report=messages.append) as database:
                database.measurements(PROBLEM, KEY)
                database.record(PROBLEM, KEY, TIMES)
                assert set(TIMES) <= set(database.measurements(PROBLEM, KEY))
        except ValueError as error:
            # The numbers that tell whose file it is.
            assert 60 <= position < 72, error
        for aside in path.parent.glob("*.damaged-*"):
            aside.unlink()


def test_damage_done_while_the_file_is_open(path: Path) -> None:
    filled(path)
    messages: list[str] = []
    with TuningDatabase(path, report=messages.append) as database:
        path.write_bytes(random.Random(4).randbytes(20000))
        database.record(PROBLEM, KEY, TIMES)
        assert database.measurements(PROBLEM, KEY) == TIMES
    assert len(messages) == 1


def test_a_file_replaced_while_open_gets_what_is_recorded(path: Path) -> None:
    with TuningDatabase(path, report=never) as database:
        path.rename(path.with_suffix(".old"))
        database.record(PROBLEM, KEY, TIMES)
    with TuningDatabase(path, report=never, read_only=True) as database:
        assert database.measurements(PROBLEM, KEY) == TIMES


def test_an_empty_file_is_a_database_without_entries(path: Path) -> None:
    path.touch()
    with TuningDatabase(path, report=never, read_only=True) as database:
        assert list(database.entries()) == []
    assert path.read_bytes() == b""


def test_readers_create_no_file(path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"tuning\.db"):
        TuningDatabase(path, report=never, read_only=True)
    assert not path.exists()


@pytest.mark.parametrize("read_only", [False, True])
def test_files_of_others_are_left_alone(path: Path, read_only: bool) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmark (address TEXT)")
    content = path.read_bytes()
    with pytest.raises(ValueError, match="another program"):
        TuningDatabase(path, report=never, read_only=read_only)
    filled(path.with_suffix(".other"))
    with sqlite3.connect(path.with_suffix(".other")) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(ValueError, match="has format 9"):
        TuningDatabase(path.with_suffix(".other"), report=never, read_only=read_only)
    assert path.read_bytes() == content


@pytest.mark.parametrize("name", ["", "no/such/folder/tuning.db"])
def test_files_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError) as caught:
        TuningDatabase(tmp_path / name, report=never)
    assert caught.value.filename == str(tmp_path / name)
    assert caught.value.strerror in ("Is a directory", "No such file or directory")
