"""What benchmarks of `torch.compile` share: processes of contenders, their caches, the ratio of times."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.isolation import run_isolated

OURS = "winograd"
"""Our backend, which the names of its contenders begin with."""
EAGER = "eager"
CALLS_UNTIL_DECIDED = 5
"""Calls of a compiled model after which it is decided whether a graph runs eagerly."""


def answer_of(module: str, task: dict[str, Any], threads: int, subject: str) -> dict[str, Any]:
    """What a process of `module` tells last of a task; a failure is printed as that of `subject`."""
    outcome = run_isolated(module, task, threads=threads)
    if outcome.failure is not None:
        print(f"{subject}: {outcome.failure}", flush=True)
    return outcome.messages[-1] if outcome.messages else {}


def keep_our_cache_in(folder: str) -> None:
    os.environ["XDG_CACHE_HOME"] = str(Path(folder, OURS))


def keep_inductors_cache_in(folder: str, name: str) -> None:
    """Of one contender: that finds another's kernels in its cache is quicker than in a first process."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder, name))


def allow_compilations(count: int) -> None:
    """Of one class of modules by so many contenders, which torch would give up on after a few."""
    import torch

    torch._dynamo.config.recompile_limit = 8 * count


def ratio(milliseconds: Mapping[str, float]) -> float | None:
    """Of the fastest of the others and ours; None without either."""
    ours = [value for name, value in milliseconds.items() if name.startswith(OURS)]
    others = [value for name, value in milliseconds.items() if not name.startswith(OURS)]
    return min(others) / min(ours) if ours and others else None
