"""The files that options name, checked before there is a compilation that they could spoil."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from iree.winograd.errors import InvalidOptionError
from iree.winograd.pipelines.machines.store import read_machine
from iree.winograd.pipelines.selection.options import WinogradOptions


class OptionFileError(InvalidOptionError):
    """The file that the option `name` of `WinogradOptions` names isn't there, or is of another kind."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


def check_option_files(options: WinogradOptions, warn: Callable[[str], None]) -> None:
    """Raise `OptionFileError` when the tuning database or the machine can't be read, or the assembler run.

    `warn` is told of a damaged database, which counts as empty.
    """
    if options.tuning_database is not None:
        _check_tuning_database(options.tuning_database, warn)
    if options.machine is not None:
        _check_machine(options.machine)
    if options.ptxas is not None and shutil.which(options.ptxas) is None:
        raise OptionFileError("ptxas", f"can't run assembler '{options.ptxas}': there is no such program")


def _check_tuning_database(path: str, warn: Callable[[str], None]) -> None:
    # It takes the compiler's time to load, which not everyone who states options needs.
    from iree.winograd.pipelines.selection.tuning_database import TuningDatabase

    try:
        TuningDatabase(path, report=warn, read_only=True).close()
    except OSError as error:
        message = f"can't read tuning database '{path}': {error.strerror}"
        raise OptionFileError("tuning_database", message) from None
    except ValueError as error:
        raise OptionFileError("tuning_database", str(error)) from None


def _check_machine(path: str) -> None:
    try:
        read_machine(path)
    except OSError as error:
        raise OptionFileError("machine", f"can't read machine '{path}': {error.strerror}") from None
    except ValueError as error:
        raise OptionFileError("machine", str(error)) from None
