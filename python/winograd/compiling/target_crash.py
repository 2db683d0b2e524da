"""Whether IREE ends its process on the names of targets that it is given."""

from __future__ import annotations

import subprocess
from functools import cache

from iree.winograd.compiling.embedding import stock_tool
from iree.winograd.targets import KNOWN_TARGET_FLAGS


@cache
def find_crash(flags: tuple[str, ...]) -> str | None:
    """What IREE says before it crashes on `flags`, those of `iree-compile`, or None.

    Names of targets that it doesn't know end its process. So flags that may hold such names are tried in
    another one, on a program of nothing, which takes 20 ms.
    """
    if not any("target" in flag and flag.lstrip("-") not in KNOWN_TARGET_FLAGS for flag in flags):
        return None
    tool = stock_tool("iree-compile")
    trial = subprocess.run(
        [tool, *flags, "--compile-to=preprocessing", "-"],
        input=b"module {}",
        capture_output=True,
        check=False,
    )
    said, _, _ = trial.stderr.decode(errors="replace").partition("Please report issues")
    if trial.returncode >= 0:
        # LLVM crashes later on: its code for no x86-64 processor in particular lacks 64 bits.
        if "Unknown CPU for target architecture x86_64" not in said:
            return None
        said, _, _ = said.partition(" (ignoring processor)")
    lines = said.strip().splitlines() or ["IREE crashes on these flags"]
    return lines[-1].removeprefix("<unknown>:0: error: ")
