"""Random examples are the same in each run, whatever a worker has imported for other tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def drawn() -> list[int]:
    """Some numbers that Hypothesis draws."""
    numbers: list[int] = []

    @settings(max_examples=300)
    @given(st.integers())
    def draw(number: int) -> None:
        numbers.append(number)

    draw()
    return numbers


def test_examples_are_the_same_in_each_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawn()
    path = tmp_path / "imported_later.py"
    path.write_text(f"NUMBERS = {list(range(1_000_003, 1_900_000, 9_001))}\n")
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    monkeypatch.setitem(sys.modules, path.stem, importlib.util.module_from_spec(specification))
    assert drawn() == before
