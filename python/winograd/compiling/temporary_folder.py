"""The folder of temporary files, in which LLVM writes what it links."""

from __future__ import annotations

import os

from iree.winograd.errors import CompilationError

_VARIABLES = ("TMPDIR", "TMP", "TEMP", "TEMPDIR")
"""Of which LLVM takes the first that is set."""


def check_temporary_folder() -> None:
    """Raises `CompilationError` where the environment names a folder that can't be written to.

    LLVM would crash the process.
    """
    named = next((name for name in _VARIABLES if os.environ.get(name)), None)
    if named is not None and not (os.path.isdir(folder := os.environ[named]) and os.access(folder, os.W_OK)):
        raise CompilationError(f"{named} names {folder!r}, in which no temporary files can be written")
