"""What earlier runs left on disk: compiled parts, machines, a tuning database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from iree.winograd.keeping.program_cache import default_folder, usage
from iree.winograd.pipelines.machines.store import machine_path, read_machine

from .finding import Finding

_MEBIBYTE = 2**20


def file_findings(database: str | None) -> Iterator[Finding]:
    """The cache of torch.compile, the calibrated machines, and the tuning database that is asked for."""
    yield _cache(default_folder())
    folder = machine_path("any").parent
    machines = sorted(folder.glob("*.json"))
    if not machines:
        yield Finding(
            "machines", f"none calibrated in {folder}: times are predicted by rates of similar ones"
        )
    for path in machines:
        yield _machine(path)
    if database is not None:
        yield _database(database)


def _cache(folder: Path) -> Finding:
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        return Finding(
            "cache",
            f"{existing} is not writable",
            f"chmod u+rwx {existing}, or set XDG_CACHE_HOME to another folder",
        )
    entries = list(usage(folder))
    size = sum(each.size for each in entries) / _MEBIBYTE
    incomplete = sum(not each.entry.is_complete for each in entries)
    left = f", {incomplete} incomplete" if incomplete else ""
    return Finding("cache", f"{len(entries)} program(s){left}, {size:.1f} MiB, in {folder}")


def _machine(path: Path) -> Finding:
    try:
        read_machine(path)
    except (OSError, ValueError) as error:
        return Finding("machines", f"ignored: {error}", f"rm {path}, then `iree-winograd calibrate`")
    return Finding("machines", str(path))


def _database(path: str) -> Finding:
    from iree.winograd.pipelines.selection.tuning_database import TuningDatabase

    damage: list[str] = []
    try:
        TuningDatabase(path, report=damage.append, read_only=True).close()
    except OSError as error:
        return Finding("tuning database", f"{path}: {error.strerror}", "iree-winograd tune makes one")
    except ValueError as error:
        return Finding("tuning database", str(error), "give a file that iree-winograd tune made")
    if damage:
        return Finding("tuning database", damage[0], f"rm {path}, then `iree-winograd tune`")
    return Finding("tuning database", path)
