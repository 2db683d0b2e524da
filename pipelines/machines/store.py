"""Files of machines, and where those that were measured are kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from .model import KINDS, Machine, machine_from_json
from .user_folders import data_folder


def machine_path(name: str) -> Path:
    """The file of the machine that was measured for the target of the given name."""
    return data_folder() / "machines" / f"{name}.json"


def read_machine(path: str | os.PathLike[str], kind: str | None = None) -> Machine:
    """The machine in a file.

    Raises OSError where it can't be read, and ValueError where it holds none, or not one of the given kind.
    """
    try:
        machine = machine_from_json(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None
    if kind is not None and machine.kind != kind:
        raise ValueError(f"{os.fspath(path)}: holds {KINDS[machine.kind]}, but the target is {KINDS[kind]}")
    return machine


def stored_machine(name: str, kind: str, report: Callable[[str], None]) -> Path | None:
    """The file of the machine that was measured for the target of this name, if one can be read.

    A damaged one is told to `report`.
    """
    if not name:
        return None
    path = machine_path(name)
    try:
        read_machine(path, kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        report(f"a measured machine is ignored: {path}: {error.strerror}")
        return None
    except ValueError as error:
        report(f"a measured machine is ignored: {error}")
        return None
    return path
