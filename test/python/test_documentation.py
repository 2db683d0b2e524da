"""The examples of the documentation run as they stand."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import iree.winograd as winograd
import pytest
from iree.winograd.cli import main

ROOT = Path(__file__).parents[2]
DOCUMENTATION = ROOT / "docs"


def test_python_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(DOCUMENTATION / "guides" / "python.md"), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0


def test_everything_public_is_in_the_python_api() -> None:
    page = (DOCUMENTATION / "reference" / "python-api.md").read_text()
    assert [name for name in winograd.__all__ if not re.search(rf"\b{name}\b", page)] == []


def test_commands_are_in_the_page_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = set(re.findall(r"^    ([a-z-]+)(?= |$)", capsys.readouterr().out, re.MULTILINE))
    page = (DOCUMENTATION / "reference" / "command-line.md").read_text()
    (table,) = re.findall(r"\| `iree-winograd` \|.*\n((?:\|.*\n)*)", page)
    rows = (row.split("|")[1] for row in table.splitlines()[1:])
    assert {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)} == commands


def test_files_that_the_contributing_guide_names_are_there() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`((?:dialect|passes|pipelines|python|test|benchmarks|docs)/[\w./-]+)`", guide))
    yours = {path for path in named if "/my" in path or "test_my" in path}
    assert len(named - yours) > 20
    assert [path for path in sorted(named - yours) if not (ROOT / path).exists()] == []
