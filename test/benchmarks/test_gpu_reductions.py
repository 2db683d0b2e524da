"""The check of reductions on GPUs: what it builds runs, and what is wrong is told."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import gpu_reductions

# Both run the programs that one worker compiles.
pytestmark = [pytest.mark.wide, pytest.mark.xdist_group("gpu reductions")]

PLACES = ["between"]
"""Each takes a program of ours and one of IREE's."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reductions")
    gpu_reductions.build(path, "vulkan", ["one channel a group"], PLACES)
    return path


def test_programs_that_are_right_are_said_to_be(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = folder / "report.json"
    with pytest.raises(SystemExit) as ended:
        gpu_reductions.run(folder, report, rounds=1)
    assert ended.value.code == 0
    assert capsys.readouterr().out.count("right") == len(PLACES)
    rows = json.loads(report.read_text())["cases"]
    assert [row["place"] for row in rows] == PLACES
    assert all(row["right"] and row["ms"].keys() == gpu_reductions.KINDS.keys() for row in rows)


def test_programs_that_are_wrong_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = json.loads((folder / "cases.json").read_text())[0]
    (folder / "cases.json").write_text(json.dumps([first]))
    with np.load(folder / first["expected"]) as arrays:
        expected = [arrays[name] for name in arrays.files]
    np.savez_compressed(folder / first["expected"], *(each * 1.001 for each in expected))
    with pytest.raises(SystemExit) as ended:
        gpu_reductions.run(folder, None, rounds=1)
    assert ended.value.code == 1
    assert capsys.readouterr().out.count("WRONG") == 1
