"""What the driver writes: programs, reports, remarks and dumps."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from driver_run import TARGET, TYPE_ERROR, run
from iree.winograd.command_line.tool_directory import TOOL_DIRECTORY
from iree.winograd.compiling.embedding import stock_tool
from small_programs import ADD, CONVOLUTION, ENABLE, STRICT


def test_dumps_of_our_passes(tmp_path: Path) -> None:
    (tmp_path / "convolution.mlir").write_text(CONVOLUTION)
    passes = "winograd-convert-conv,iree-abi-wrap-entry-points"
    flags = [ENABLE, STRICT, *TARGET, f"--mlir-print-ir-after={passes}", "-o", "convolution.vmfb"]
    outcome = run(TOOL_DIRECTORY / "iree-compile", [*flags, "convolution.mlir"], tmp_path)
    assert outcome.code == 0, outcome.stderr
    wrapped, converted = re.split("^// -----// IR Dump After .*", outcome.stderr, flags=re.MULTILINE)[1:]
    assert "linalg.conv_2d" in wrapped
    assert "winograd.input_transform" in converted


@pytest.mark.wide
def test_the_standard_output_and_error_may_be_closed(tmp_path: Path) -> None:
    (tmp_path / "add.mlir").write_text(ADD)
    flags = " ".join((ENABLE, STRICT, *TARGET))
    environment = {**os.environ, "IREE_WINOGRAD_PYTHON": sys.executable}

    def shell(arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = f"'{TOOL_DIRECTORY / 'iree-compile'}' {flags} {arguments}"
        return subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True)

    for number, closed in enumerate((">&-", "2>&-", ">&- 2>&-")):
        assert shell(f"add.mlir -o {number}.vmfb {closed}").returncode == 0
    open_program = run(TOOL_DIRECTORY / "iree-compile", [ENABLE, *TARGET, "add.mlir", "-o", "open"], tmp_path)
    assert all(open_program.files[f"{number}.vmfb"] == open_program.files["open"] for number in range(3))
    # The stock tool, which these are left to, says that it can't write.
    assert shell("add.mlir --compile-to=input >&-").returncode == 1
    # What is no error's place stays empty.
    refused = shell("missing.mlir 2>&-")
    assert (refused.returncode, refused.stdout) == (1, b"")


def test_remarks_name_line_and_layer(tmp_path: Path) -> None:
    (tmp_path / "convolution.mlir").write_text(CONVOLUTION)
    flags = [ENABLE, STRICT, *TARGET, "--iree-winograd-remarks", "convolution.mlir", "-o", "convolution.vmfb"]
    became = run(TOOL_DIRECTORY / "iree-compile", [*flags, "--iree-winograd-output-tile=4"], tmp_path)
    assert became.code == 0
    assert became.stderr.startswith("convolution.mlir:6:13: remark: ")
    assert "F(4x4, 3x3)" in became.stderr
    left = run(TOOL_DIRECTORY / "iree-compile", [*flags, "--iree-winograd-deny-layers=0"], tmp_path)
    assert left.code == 0
    assert left.stderr.startswith("convolution.mlir:6:13: remark: ")
    assert "F(4x4, 3x3)" not in left.stderr
    flags = [*TARGET, "convolution.mlir", "-o", "convolution.vmfb"]
    stock = run(stock_tool("iree-compile"), flags, tmp_path)
    assert left.files["convolution.vmfb"] == stock.files["convolution.vmfb"]
    assert became.files["convolution.vmfb"] != stock.files["convolution.vmfb"]


def test_remarks_go_where_those_of_iree_go(tmp_path: Path) -> None:
    (tmp_path / "convolution.mlir").write_text(CONVOLUTION)
    flags = [ENABLE, STRICT, *TARGET, "--remarks-filter=winograd", "--remarks-output-file=remarks.yaml"]
    outcome = run(TOOL_DIRECTORY / "iree-compile", [*flags, "convolution.mlir", "-o", "out.vmfb"], tmp_path)
    assert outcome.code == 0
    assert b"winograd-convert-conv" in outcome.files["remarks.yaml"]


def test_report(tmp_path: Path) -> None:
    (tmp_path / "convolution.mlir").write_text(CONVOLUTION)
    arguments = [
        ENABLE,
        STRICT,
        *TARGET,
        "--iree-winograd-threads=3",
        "convolution.mlir",
        "-o",
        "convolution.vmfb",
    ]
    plain = run(TOOL_DIRECTORY / "iree-compile", arguments, tmp_path)
    arguments += ["--iree-winograd-report=first.json", "--iree-winograd-report=report.json"]
    outcome = run(TOOL_DIRECTORY / "iree-compile", arguments, tmp_path)
    assert (outcome.code, outcome.stdout, outcome.stderr) == (0, b"", "")
    assert set(outcome.files) == {"convolution.mlir", "convolution.vmfb", "report.json"}
    assert outcome.files["convolution.vmfb"] == plain.files["convolution.vmfb"]
    report = json.loads(outcome.files["report.json"])
    assert len(report["layers"]) == 1
    assert "threads 3" in report["target"]
    page = run(TOOL_DIRECTORY / "iree-compile", [*arguments, "--iree-winograd-report=a.html"], tmp_path)
    assert page.files["a.html"].startswith(b"<!DOCTYPE html>")


def test_report_that_cannot_be_written(tmp_path: Path) -> None:
    """Said before anything is compiled, even read: the program doesn't parse."""
    (tmp_path / "add.mlir").write_text("no MLIR")
    arguments = [
        ENABLE,
        STRICT,
        *TARGET,
        "add.mlir",
        "-o",
        "out.vmfb",
        "--iree-winograd-report=missing/report.html",
    ]
    outcome = run(TOOL_DIRECTORY / "iree-compile", arguments, tmp_path)
    message = "error: cannot open report file 'missing/report.html': No such file or directory\n"
    assert (outcome.code, outcome.stdout, outcome.stderr) == (1, b"", message)
    assert list(outcome.files) == ["add.mlir"]


def test_failed_compilations_leave_no_report(tmp_path: Path) -> None:
    (tmp_path / "type_error.mlir").write_text(TYPE_ERROR)
    arguments = [
        ENABLE,
        STRICT,
        *TARGET,
        "type_error.mlir",
        "-o",
        "out.vmfb",
        "--iree-winograd-report=report.html",
    ]
    outcome = run(TOOL_DIRECTORY / "iree-compile", arguments, tmp_path)
    assert outcome.code == 1
    assert list(outcome.files) == ["type_error.mlir"]


def test_output_replaces_a_file_only_when_complete(tmp_path: Path) -> None:
    (tmp_path / "add.mlir").write_text(ADD)
    (tmp_path / "type_error.mlir").write_text(TYPE_ERROR)
    output = tmp_path / "out.vmfb"
    output.write_bytes(b"before")
    output.chmod(0o640)
    tool = TOOL_DIRECTORY / "iree-compile"
    run(tool, [ENABLE, STRICT, *TARGET, "type_error.mlir", "-o", "out.vmfb"], tmp_path)
    assert output.read_bytes() == b"before"
    (tmp_path / "link.vmfb").symlink_to(output)
    assert run(tool, [ENABLE, STRICT, *TARGET, "add.mlir", "-o", "link.vmfb"], tmp_path).code == 0
    assert (tmp_path / "link.vmfb").is_symlink()
    assert output.read_bytes() != b"before"
    assert stat.S_IMODE(output.stat().st_mode) == 0o640
    assert not list(tmp_path.glob(".winograd-*"))
