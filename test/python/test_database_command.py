"""`iree-winograd database` shows, merges and exports measurements, and names bad files without tracebacks."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from iree.winograd import cli
from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.backends.schedules import IreeSchedule
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from iree.winograd.pipelines.selection import tuning_database
from iree.winograd.pipelines.selection.implementation import Implementation, implementation_from_record
from iree.winograd.pipelines.selection.tuning_database import Measurement, TuningDatabase

PROBLEM = ConvolutionProblem.parse(
    "1x56x56x64->64 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32"
)
OTHER_PROBLEM = replace(PROBLEM, batch=8)
DIRECT = Implementation(Algorithm((1, 1), (1, 1)), DirectSchedule(16, 6, 4, 2, 28))
TILED = Implementation(Algorithm((4, 4), (3, 3)), WinogradSchedule(16, 28, 7, 2, 64, input_block=8))
IREE = Implementation(DIRECT.algorithm, IreeSchedule())
TIMES = (Measurement(TILED, 1.25e-3, 0.02, 100), Measurement(DIRECT, 2e-3, 0.01, 50))


def database(*arguments: str | Path) -> int:
    return cli.main(["database", *map(str, arguments)])


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., Path]:
    def record(
        name: str, *measurements: Measurement, problem: ConvolutionProblem = PROBLEM, key: str = "znver4"
    ) -> Path:
        path = tmp_path / name
        with TuningDatabase(path, report=print) as database:
            database.record(problem, key, measurements, machine="a machine")
        return path

    return record


def test_show_prints_the_best_of_each_convolution(
    record: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    record("a.db", *TIMES)
    path = record("a.db", TIMES[1], problem=OTHER_PROBLEM, key="znver5")
    assert database("show", path) == 0
    first, second = capsys.readouterr().out.split("\n\n")
    assert first.startswith("znver4, on a machine\n")
    assert str(PROBLEM) in first
    assert "1.25 ms ± 1.0%, the best of 2 measurements: F(4x4, 3x3), winograd" in first
    assert str(OTHER_PROBLEM) in second
    assert "2 ms ± 0.5%, the best of 1 measurement: a direct convolution" in second


def test_show_selects_convolutions(record: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    record("a.db", *TIMES)
    path = record("a.db", TIMES[1], problem=OTHER_PROBLEM)
    assert database("show", path, "--problem=8x*kernel 3x3*") == 0
    text = capsys.readouterr().out
    assert str(OTHER_PROBLEM) in text and str(PROBLEM) not in text
    assert database("show", path, "--problem=9x*") == 0
    assert capsys.readouterr().out == "no measurements\n"


def test_show_tells_other_kernels_apart(
    record: Callable[..., Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(tuning_database, "kernel_version", lambda: "earlier")
        record("a.db", TIMES[0])
    path = record("a.db", TIMES[1])
    assert database("show", path) == 0
    current, other = capsys.readouterr().out.split("\n\n")
    assert "the kernels of this version" in current and "direct" in current
    assert "earlier, other kernels: ignored" in other and "F(4x4, 3x3)" in other


def test_iree_alone_is_shown_merged_and_exported_like_others(
    record: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = record("a.db", *TIMES, Measurement(IREE, 1e-3, 0.0, 7))
    assert database("show", path) == 0
    assert "the best of 3 measurements: a direct convolution, iree\n" in capsys.readouterr().out
    assert database("merge", tmp_path / "b.db", path) == 0
    capsys.readouterr()
    assert database("export", tmp_path / "b.db") == 0
    exported = json.loads(capsys.readouterr().out)
    assert {implementation_from_record(each["implementation"]) for each in exported} == {DIRECT, TILED, IREE}


def test_merge_keeps_the_newest_and_leaves_the_sources(
    record: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older = record("older.db", *TIMES)
    newer = record("newer.db", replace(TIMES[0], seconds=3e-3))
    contents = older.read_bytes(), newer.read_bytes()
    for sources in ((older, newer), (newer, older)):
        target = tmp_path / f"{sources[0].stem}-first.db"
        assert database("merge", target, *sources) == 0
        with TuningDatabase(target, report=print, read_only=True) as merged:
            assert [each.seconds for each in merged.measurements(PROBLEM, "znver4")] == [2e-3, 3e-3]
            assert {entry.machine for entry in merged.entries()} == {"a machine"}
    assert (older.read_bytes(), newer.read_bytes()) == contents
    assert capsys.readouterr().out.splitlines() == [
        f"{older}: 2 new measurements",
        f"{newer}: 1 new measurement",
        f"{newer}: 1 new measurement",
        f"{older}: 1 new measurement",
    ]


def test_merge_touches_nothing_when_a_source_is_missing(
    record: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = record("a.db", *TIMES)
    assert database("merge", tmp_path / "target.db", source, tmp_path / "none.db") == 1
    assert capsys.readouterr().err == (
        f"iree-winograd database: {tmp_path / 'none.db'}: No such file or directory\n"
    )
    assert not (tmp_path / "target.db").exists()


def test_merge_goes_on_after_damaged_sources_and_replaces_a_damaged_target(
    record: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, damaged, target = record("a.db", *TIMES), tmp_path / "damaged.db", tmp_path / "target.db"
    damaged.write_bytes(source.read_bytes()[:5000])
    target.write_bytes(damaged.read_bytes())
    assert database("merge", target, damaged, source) == 1
    said = capsys.readouterr()
    assert f"ignored {damaged}, which is damaged" in said.err
    assert f"renamed to {target}.damaged-1" in said.err
    assert said.out == f"{damaged}: 0 new measurements\n{source}: 2 new measurements\n"
    assert database("merge", target, source) == 0


def test_exported_json_holds_everything(
    record: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = record("a.db", *TIMES)
    assert database("export", path) == 0
    exported = json.loads(capsys.readouterr().out)
    with TuningDatabase(path, report=print, read_only=True) as opened:
        entries = list(opened.entries())
    assert len(exported) == len(entries) == 2
    for record_, entry, measurement in zip(exported, entries, TIMES, strict=True):
        assert record_ == vars(entry) | {"when": entry.when.isoformat()}
        assert implementation_from_record(record_["implementation"]) == measurement.implementation
        assert record_["seconds"] == measurement.seconds


def test_exported_csv_agrees_with_json(
    record: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = record("a.db", *TIMES)
    assert database("export", path) == 0
    exported = json.loads(capsys.readouterr().out)
    assert database("export", path, "--format=csv", "-o", tmp_path / "a.csv") == 0
    assert capsys.readouterr().out == ""
    rows = list(csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text())))
    for row, record_ in zip(rows, exported, strict=True):
        assert json.loads(row.pop("implementation")) == record_.pop("implementation")
        assert row == {name: str(value) for name, value in record_.items()}


def test_export_leaves_its_output_as_it_was_when_it_fails(
    record: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "a.json"
    output.write_text("kept")
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(os.urandom(5000))
    assert database("export", damaged, "-o", output) == 1
    assert database("export", tmp_path / "none.db", "-o", output) == 1
    assert output.read_text() == "kept"
    source = record("a.db", *TIMES)
    assert database("export", source, "-o", tmp_path / "no" / "a.json") == 1
    assert f"{tmp_path / 'no' / 'a.json'}: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("action", ["show", "export"])
def test_files_that_are_no_databases_are_named(
    action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.db"
    text.write_text("text")
    for path, reason in [
        (tmp_path / "none.db", "No such file or directory"),
        (tmp_path, "Is a directory"),
        (text, "is no tuning database"),
    ]:
        assert database(action, path) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("iree-winograd database: ") and said.err.count("\n") == 1
        assert str(path) in said.err and reason in said.err
    assert sorted(tmp_path.iterdir()) == [text]


@pytest.mark.parametrize(
    "arguments", [[], ["show"], ["merge", "a.db"], ["export", "a.db", "--format=xml"], ["lose", "a.db"]]
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        database(*arguments)
    assert exit.value.code == 2
    assert "usage: iree-winograd database" in capsys.readouterr().err


def test_output_that_nobody_reads_to_its_end(record: Callable[..., Path]) -> None:
    path = record("a.db", *TIMES)
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write) as unread:
        command = [sys.executable, "-m", "iree.winograd.cli", "database", "export", path]
        result = subprocess.run(command, stdout=unread, stderr=subprocess.PIPE, check=False)
    assert result.returncode == 1
    assert result.stderr == b""
