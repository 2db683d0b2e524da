"""`--iree-winograd-tuning-database` as users meet it on the command line."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from iree.winograd.pipelines.selection.implementation import (
    Implementation,
    implementation_from_record,
    implementation_record,
)
from iree.winograd.pipelines.selection.tuning_database import Measurement, TuningDatabase
from small_programs import compile_convolution
from wide import wide_combinations

FLAG = "--iree-winograd-tuning-database"
PROBLEM = ConvolutionProblem.parse(
    "1x18x18x16->16 kernel 3x3 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32"
)
compile_program = partial(compile_convolution, "--iree-winograd-threads=1", "-o", "out.vmfb")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_measured_schedule_is_taken() -> None:
    measured = Implementation(Algorithm((5, 5), (3, 3)), WinogradSchedule(8, 8, 4, 1, 16))
    space = CpuBackend(CpuTarget.of("haswell", "+avx2,+fma")).search_space()
    with TuningDatabase("tuning.db", report=print) as database:
        database.record(PROBLEM, space.key, [Measurement(measured, 1e-6, 0.0, 1)])
    for flags, is_tuned in [((f"{FLAG}=tuning.db",), True), ((), False)]:
        result = compile_program(*flags, "--iree-winograd-report=report.json")
        assert (result.returncode, result.stderr) == (0, "")
        report = json.loads(Path("report.json").read_text())
        assert report["failures"] == []
        (decision,) = report["layers"]
        chosen = decision["candidates"][decision["chosen"]]
        taken = implementation_from_record({name: chosen[name] for name in implementation_record(measured)})
        assert (decision["tuned"], taken == measured) == (is_tuned, is_tuned)
    assert sorted(path.name for path in Path().iterdir()) == [
        "convolution.mlir",
        "out.vmfb",
        "report.json",
        "tuning.db",
    ]


@pytest.mark.wide
def test_measurements_of_other_targets_are_a_remark() -> None:
    implementation = Implementation(Algorithm((5, 5), (3, 3)), WinogradSchedule(8, 8, 4, 1, 16))
    with TuningDatabase("tuning.db", report=print) as database:
        database.record(PROBLEM, "x86-64 znver4", [Measurement(implementation, 1e-6, 0.0, 1)])
    result = compile_program(f"{FLAG}=tuning.db", "--iree-winograd-remarks")
    assert result.returncode == 0
    assert "of tuning.db ignored 1 measurement of other versions, targets or machines" in result.stderr
    assert compile_program(f"{FLAG}=tuning.db").stderr == ""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none.db", "can't read tuning database 'none.db': No such file or directory"),
        ("convolution.mlir", "convolution.mlir is no tuning database: file is not a database"),
        *wide_combinations(
            [
                (".", "can't read tuning database '.': Is a directory"),
                ("", "must be a file, got ''"),
            ]
        ),
    ],
)
def test_a_file_that_is_no_database_is_an_error(name: str, reason: str) -> None:
    result = compile_program(f"{FLAG}={name}")
    assert result.returncode == 1
    assert result.stderr == f"iree-compile: for the {FLAG} option: {reason}\n"
    assert not Path("out.vmfb").exists() and not Path("none.db").exists()


def test_a_damaged_file_is_a_warning_and_stays() -> None:
    with TuningDatabase("damaged.db", report=print):
        damaged = Path("damaged.db").read_bytes()[:1000]
    Path("damaged.db").write_bytes(damaged)
    result = compile_program(f"{FLAG}=damaged.db")
    assert result.returncode == 0
    assert (
        "warning: ignored damaged.db, which is damaged: database disk image is malformed\n" in result.stderr
    )
    assert result.stderr.count("\n") == 1
    assert Path("out.vmfb").exists() and Path("damaged.db").read_bytes() == damaged
