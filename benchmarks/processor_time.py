"""Processor time of commands."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def processor_seconds(
    command: Sequence[str | Path], rounds: int = 1, variables: Mapping[str, str] | None = None
) -> float:
    """The least that `command` took of all rounds: user and system time of it and what it starts.

    On a busy machine it is more, too: cores share what they have. Python keeps bytecode of what it imports,
    as installers do: the first round is not the least. Raises CalledProcessError when the command fails.
    """
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **(variables or {})}
    return min(_processor_seconds(command, environment) for _ in range(rounds))


def _processor_seconds(command: Sequence[str | Path], environment: Mapping[str, str]) -> float:
    before = _used_by_children()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return _used_by_children() - before


def _used_by_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
