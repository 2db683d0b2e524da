"""Runs a function of a module in a process of its own, so that no failure of a tool ends more than that."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_PREFIX = "@"


@dataclass(frozen=True)
class Limits:
    """`seconds` of time, `memory` in bytes and the `processors` to stay on; None is no limit."""

    seconds: float | None = None
    memory: int | None = None
    processors: frozenset[int] | None = None


@dataclass(frozen=True)
class Outcome:
    """What a process told before it ended, and why it didn't end well, if so."""

    messages: tuple[dict[str, Any], ...]
    failure: str | None


def run_isolated(
    module: str, task: dict[str, Any], *, threads: int = 1, limits: Limits | None = None
) -> Outcome:
    """Run `python -m MODULE TASK`, the task as JSON, with libraries set to so many threads."""
    limits = limits or Limits()
    command = [sys.executable, "-m", module, json.dumps(task)]
    process = subprocess.Popen(
        command,
        env={**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: _apply(limits),
    )
    try:
        output, errors = process.communicate(timeout=limits.seconds)
        failure = _failure(process.returncode, errors)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        failure = f"took more than {limits.seconds:.0f} s"
    told = [line[len(_PREFIX) :] for line in output.splitlines() if line.startswith(_PREFIX)]
    return Outcome(tuple(map(json.loads, told)), failure)


def answer_task(work: Callable[[dict[str, Any]], dict[str, Any] | None]) -> bool:
    """Whether `run_isolated` started this process; `work` is then given the task, and its result told."""
    if len(sys.argv) != 2 or not sys.argv[1].startswith("{"):
        return False
    result = work(json.loads(sys.argv[1]))
    if result is not None:
        tell(result)
    return True


def tell(message: dict[str, Any]) -> None:
    """Send a message to the process that started this one."""
    print(_PREFIX + json.dumps(message), flush=True)


def _apply(limits: Limits) -> None:
    if limits.memory is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (limits.memory, limits.memory))
    if limits.processors is not None:
        os.sched_setaffinity(0, limits.processors)


def _failure(code: int, errors: str) -> str | None:
    if code == 0:
        return None
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    lines = errors.strip().splitlines()
    return lines[-1] if lines else f"exit code {code}"
