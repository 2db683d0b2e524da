"""Where a user's files are kept, as each system has it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

DATA_FOLDER_VARIABLE = "XDG_DATA_HOME"
"""Names the folder for data of the user."""
CACHE_FOLDER_VARIABLE = "XDG_CACHE_HOME"
"""Names the folder for what may be computed anew."""

_WINDOWS_VARIABLE = "LOCALAPPDATA"


def data_folder() -> Path:
    """That of this project for data: `~/.local/share/iree-winograd`, unless the variable names another."""
    default, macos, windows = (".local", "share"), ("Library", "Application Support"), "data"
    return _folder(DATA_FOLDER_VARIABLE, default, macos, windows)


def cache_folder() -> Path:
    """That of this project for what may be computed anew: `~/.cache/iree-winograd`, unless named."""
    return _folder(CACHE_FOLDER_VARIABLE, (".cache",), ("Library", "Caches"), "cache")


def _folder(variable: str, default: tuple[str, ...], macos: tuple[str, ...], windows: str) -> Path:
    named = os.environ.get(variable, "")
    # The specification of these variables has relative paths ignored.
    if os.path.isabs(named):
        return Path(named, "iree-winograd")
    if sys.platform == "win32":
        # A folder for both: what isn't synchronized between machines.
        local = os.environ.get(_WINDOWS_VARIABLE) or Path.home().joinpath("AppData", "Local")
        return Path(local, "iree-winograd", windows)
    return Path.home().joinpath(*(macos if sys.platform == "darwin" else default), "iree-winograd")
