"""`iree-winograd doctor`: what is fine here is said so, and each problem comes with its remedy."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from iree.winograd.cli import main
from iree.winograd.command_line.tool_directory import TOOL_DIRECTORY
from iree.winograd.compiling.embedding import stock_tool
from iree.winograd.health import devices, packages
from iree.winograd.health.files import file_findings
from iree.winograd.health.finding import Finding
from iree.winograd.health.packages import package_findings
from iree.winograd.health.tools import tool_findings
from warm_python import warm_python


def by_subject(findings: Any) -> dict[str, Finding]:
    return {finding.subject: finding for finding in findings}


def test_what_works_here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "TARGET_OF_DRIVER", {"local-sync": "cpu", "no-such-driver": "cpu"})
    monkeypatch.setenv("PATH", f"{TOOL_DIRECTORY}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("IREE_WINOGRAD_PYTHON", warm_python())
    monkeypatch.delenv("IREE_TOOL_PATH", raising=False)
    assert main(["doctor", "--json"]) == 1
    findings = {each["subject"]: each for each in json.loads(capsys.readouterr().out)}
    problems = {subject for subject, each in findings.items() if each["remedy"] is not None}
    assert problems == {"device no-such-driver"}
    assert findings["device local-sync"]["state"] == "computes"
    assert findings["iree-base-compiler"]["state"].startswith("3.13.")
    assert findings["iree-compile on PATH"]["state"] == f"{TOOL_DIRECTORY}/iree-compile, takes our flags"


def test_iree_compile_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "iree-compile").symlink_to(stock_tool("iree-compile"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("IREE_TOOL_PATH", str(tmp_path))
    found = by_subject(tool_findings())
    on_path, of_variable = found["iree-compile on PATH"], found["IREE_TOOL_PATH"]
    assert on_path.state == f"{tmp_path}/iree-compile doesn't take our flags"
    assert on_path.remedy is not None and f"export IREE_TOOL_PATH={TOOL_DIRECTORY}" in on_path.remedy
    assert of_variable.state == f"{tmp_path}/iree-compile doesn't take our flags"
    assert of_variable.remedy is not None and of_variable.remedy.startswith("unset IREE_TOOL_PATH")


def test_there_is_no_iree_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("IREE_TOOL_PATH", str(tmp_path))
    found = by_subject(tool_findings())
    assert found["iree-compile on PATH"].state == "none"
    assert "holds no iree-compile" in found["IREE_TOOL_PATH"].state
    monkeypatch.setenv("IREE_TOOL_PATH", "")
    assert by_subject(tool_findings())["IREE_TOOL_PATH"].remedy is not None


def test_versions_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"iree-winograd": "1.0", "iree-base-compiler": "3.12.0", "numpy": "2.0", "torch": "2.13"}
    monkeypatch.setattr(packages, "installed_version", versions.get)
    findings = list(package_findings())
    remedies = {(each.subject, each.state): each.remedy for each in findings if each.remedy is not None}
    assert remedies == {
        ("iree-base-compiler", "3.12.0, not 3.13.*"): "pip install 'iree-base-compiler==3.13.*'",
        ("iree-base-runtime", "not installed"): "pip install --force-reinstall iree-winograd",
        ("torch-mlir", "missing beside torch"): "pip install 'iree-winograd[torch]'",
    }
    assert not next(each for each in findings if each.subject == "onnx").present


def test_files_that_are_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    machines = tmp_path / "iree-winograd" / "machines"
    machines.mkdir(parents=True)
    (machines / "cpu.json").write_text("{")
    found = by_subject(file_findings(str(tmp_path / "missing.db")))
    assert found["cache"].remedy is None and "0 program(s)" in found["cache"].state
    assert found["machines"].state.startswith(f"ignored: {machines}/cpu.json: ")
    assert found["machines"].remedy == f"rm {machines}/cpu.json, then `iree-winograd calibrate`"
    assert found["tuning database"].state == f"{tmp_path}/missing.db: No such file or directory"
    text = tmp_path / "text.db"
    text.write_text("text")
    assert by_subject(file_findings(str(text)))["tuning database"].remedy is not None
