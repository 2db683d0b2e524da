"""Runs of the stock `iree-compile` and of ours, and all that can be seen of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iree.winograd.targets import target_flags
from small_programs import ADD, ENABLE
from warm_python import warm_python

TARGET = target_flags("cpu")
TYPE_ERROR = ADD.replace("arith.addf", "arith.addi")


@dataclass(frozen=True)
class Outcome:
    """What a command left behind, timing and addresses aside."""

    code: int
    stdout: bytes
    stderr: str
    files: dict[str, bytes]


def run(tool: Path, arguments: Sequence[str], folder: Path, stdin: bytes = b"") -> Outcome:
    # What is left to the stock tool is found beside a Python.
    python = warm_python() if ENABLE in arguments else sys.executable
    environment = {**os.environ, "IREE_WINOGRAD_PYTHON": python}
    completed = subprocess.run(
        [tool, *arguments], cwd=folder, input=stdin, capture_output=True, env=environment, check=False
    )
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    files = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    return Outcome(completed.returncode, completed.stdout, completed.stderr.decode(), files)
