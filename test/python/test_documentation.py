"""The examples of the documentation run as they stand."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTATION = ROOT / "docs"


def test_python_api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(DOCUMENTATION / "python-api.md"), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0


def test_files_that_the_contributing_guide_names_are_there() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`((?:dialect|passes|pipelines|python|test|benchmarks|docs)/[\w./-]+)`", guide))
    yours = {path for path in named if "/my" in path or "test_my" in path}
    assert len(named - yours) > 20
    assert [path for path in sorted(named - yours) if not (ROOT / path).exists()] == []
