"""The files that options name, checked before there is a compilation that they could spoil."""

from __future__ import annotations

from collections.abc import Callable

from iree.winograd.errors import InvalidOptionError
from iree.winograd.pipelines.machines.store import read_machine
from iree.winograd.pipelines.selection.tuning_database import TuningDatabase


def check_tuning_database(path: str | None, warn: Callable[[str], None]) -> None:
    """Raise `InvalidOptionError` when there is no tuning database in the file `path` that could be read.

    `warn` is told of a damaged one, which counts as empty.
    """
    if path is None:
        return
    try:
        TuningDatabase(path, report=warn, read_only=True).close()
    except OSError as error:
        raise InvalidOptionError(f"can't read tuning database '{path}': {error.strerror}") from None
    except ValueError as error:
        raise InvalidOptionError(str(error)) from None


def check_machine(path: str | None) -> None:
    """Raise `InvalidOptionError` when there is no machine in the file `path` that could be read."""
    if path is None:
        return
    try:
        read_machine(path)
    except OSError as error:
        raise InvalidOptionError(f"can't read machine '{path}': {error.strerror}") from None
    except ValueError as error:
        raise InvalidOptionError(str(error)) from None
