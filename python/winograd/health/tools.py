"""Which `iree-compile` a shell, and which one IREE's Python tools would run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from iree.winograd.command_line.flags import ENABLE
from iree.winograd.command_line.tool_directory import TOOL_DIRECTORY

from .finding import Finding

_TOOL = "iree-compile"
_VARIABLE = "IREE_TOOL_PATH"
_SECONDS = 60


def tool_findings() -> Iterator[Finding]:
    """The one on PATH and those of the variable, each of them ours or not."""
    yield _on_path()
    yield _of_variable()


def _on_path() -> Finding:
    subject = f"{_TOOL} on PATH"
    found = shutil.which(_TOOL)
    own = Path(sys.executable).parent
    if found is None:
        return Finding(subject, "none", f"export PATH={own}:$PATH, or use `iree-winograd compile`")
    if takes_our_flags(found):
        return Finding(subject, f"{found}, takes our flags")
    return Finding(
        subject,
        f"{found} doesn't take our flags",
        f"export PATH={own}:$PATH for that of this environment, or export {_VARIABLE}={TOOL_DIRECTORY}",
    )


def _of_variable() -> Finding:
    value = os.environ.get(_VARIABLE)
    if value is None:
        return Finding(_VARIABLE, "unset: Python tools of this environment find ours")
    remedy = f"unset {_VARIABLE}, or export {_VARIABLE}={TOOL_DIRECTORY}"
    if not value:
        return Finding(_VARIABLE, "empty: Python tools run the stock compiler", remedy)
    folders = [Path(folder) for folder in value.split(os.pathsep) if folder]
    tool = next((each for folder in folders if os.access(each := folder / _TOOL, os.X_OK)), None)
    if tool is None:
        return Finding(_VARIABLE, f"{value} holds no {_TOOL}: Python tools run the stock compiler", remedy)
    if takes_our_flags(str(tool)):
        return Finding(_VARIABLE, f"{tool}, takes our flags")
    return Finding(_VARIABLE, f"{tool} doesn't take our flags", remedy)


def takes_our_flags(tool: str) -> bool:
    """Whether a command is our `iree-compile`: the stock one doesn't know the flag."""
    command = [tool, f"--{ENABLE}", "--compile-to=input", "-"]
    try:
        trial = subprocess.run(
            command, input=b"module {}", capture_output=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return trial.returncode == 0
