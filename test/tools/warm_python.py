"""Our command lines in processes of their own, without imports that take each longer than its work.

They are forks of one process for all tests of a worker: see `forked_tools`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from functools import cache
from pathlib import Path

import forked_tools

_COMMAND = "iree.winograd.cli:main"
_TEXT = "forked_tools:run_text"
# What the driver imports when it comes to need it.
_MODULES = [
    "iree.winograd.command_line.driver",
    "iree.winograd.passes",
    "iree.winograd.pipelines",
    "iree.winograd.report.decisions",
]


@cache
def _server() -> list[str]:
    return forked_tools.command(sys.executable, [_COMMAND, _TEXT], _MODULES)


def iree_winograd(*arguments: str) -> list[str]:
    """The command `iree-winograd ARGUMENTS...`."""
    return [*_server(), _COMMAND, *arguments]


@cache
def warm_python() -> str:
    """An executable that does of `-c PROGRAM ARGUMENTS...` what this Python does: `IREE_WINOGRAD_PYTHON`."""
    path = Path(tempfile.mkdtemp(prefix="warm-"), "python")
    # Python would read it as its own path, were it a link.
    path.write_text(f'#!/bin/sh\nexec {" ".join(_server())} {_TEXT} "$@"\n')
    path.chmod(0o700)
    return str(path)


def driver_environment() -> dict[str, str]:
    """What `iree-compile` of the checkout is to be run in, with our flags."""
    return {**os.environ, "IREE_WINOGRAD_PYTHON": warm_python()}
