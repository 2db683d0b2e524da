"""The process that compiles a program for sizes that came often: `python -m` this, and a job as JSON.

It is one of its own, and of low priority, so that calls take as long as they do without it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_NICENESS = 10
"""That it adds to its own: beside work that takes all cores it gets a tenth of one, not nothing."""


@dataclass(frozen=True)
class Job:
    """What to compile: a model in a file, its function `entry` for arguments of `shapes`, and how."""

    model: str
    entry: str
    shapes: list[list[int]]
    program: str
    report: str
    target: str
    flags: list[str]
    options: Mapping[str, Any]

    def command(self) -> list[str]:
        """That of a process which does it."""
        job = json.dumps(asdict(self), default=os.fspath)
        return [sys.executable, "-m", __name__, job]


def main(job: Job) -> None:
    """Does the job. Raises `CompilationError`."""
    from iree.winograd.compiling.program import compile
    from iree.winograd.dialect.bindings import ir
    from iree.winograd.specializing.known_sizes import fix_sizes

    module = ir.Module.parse(Path(job.model).read_bytes(), ir.Context())
    fix_sizes(module, job.entry, job.shapes)
    compile(
        module,
        target=job.target,
        flags=job.flags,
        output=job.program,
        report=job.report,
        **job.options,
    )


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    main(Job(**json.loads(sys.argv[1])))
