"""What the Makefile runs is there: pytest says no more than that it ran no tests where a file isn't."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("target", ["test-all", "test-aarch64", "test-torch"])
def test_files_of_a_target_exist(target: str) -> None:
    command = ["make", "--dry-run", "--silent", "--directory", str(ROOT), target]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    named = {word.partition("::")[0] for word in printed.split() if word.startswith("test/")}
    assert named
    assert [path for path in named if not list(ROOT.glob(path))] == []
