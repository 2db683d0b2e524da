"""The examples of the documentation run as they stand."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

DOCUMENTATION = Path(__file__).parents[2] / "docs"


def test_python_api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(DOCUMENTATION / "python-api.md"), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0
