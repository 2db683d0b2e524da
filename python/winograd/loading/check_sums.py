"""Whether a compiled program is what the compiler wrote: what a damaged one does nobody knows."""

from __future__ import annotations

import io
from contextlib import suppress
from os import PathLike
from zipfile import BadZipFile, ZipFile

_ARCHIVE = b"PK\x03\x04"
"""How IREE's files begin, which are ZIP archives as well, unless its compiler is told otherwise."""


_ERRORS = (BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError)
"""What reading an archive whose list is damaged leads to."""


class DamagedFileError(Exception):
    """A file isn't what was written."""


def check_sums(program: bytes | str | PathLike[str]) -> None:
    """Compare the parts of a program, which are bytes or in a file, with the sums that the archive has.

    Raises `DamagedFileError`, and OSError when the file can't be read. One that is no archive has no sums.
    """
    with io.BytesIO(program) if isinstance(program, bytes) else open(program, "rb") as file:
        if file.read(len(_ARCHIVE)) != _ARCHIVE:
            return
        damaged: str | None = "the list of its parts"
        with suppress(*_ERRORS), ZipFile(file) as archive:
            damaged = archive.testzip()
        if damaged is not None:
            raise DamagedFileError(f"{damaged} isn't what was written")
