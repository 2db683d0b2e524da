"""The page on what we rely on names tests that there are, and leaves none of this folder out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "what-we-rely-on-in-iree.md").read_text()
NAMED = re.compile(r"`((?:test_)?[\w-]+\.(?:py|mlir))(?:::(\w+))?`")
FUNCTIONS = re.compile(r"^def (test_\w+)", re.MULTILINE)
# Of tables whose last column is tests.
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and line.count("|") == 5 and not line.startswith(("| fact ", "| --- "))
]


def exists(file: str, function: str) -> bool:
    return any(not function or function in FUNCTIONS.findall(path.read_text()) for path in files(file))


def files(name: str) -> list[Path]:
    return [path for path in (ROOT / "test").rglob(name) if "Output" not in path.parts]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_fact_has_tests_that_there_are(row: list[str]) -> None:
    tests = NAMED.findall(row[-1])
    assert tests
    assert [each for each in tests if not exists(*each)] == []


def test_each_test_of_this_folder_is_of_a_fact() -> None:
    named = {function for row in ROWS for _, function in NAMED.findall(row[-1])}
    there = {
        function
        for path in Path(__file__).parent.glob("test_*.py")
        if path != Path(__file__)
        for function in FUNCTIONS.findall(path.read_text())
    }
    assert there - named == set()
