"""What a compiled part of a model is kept by."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import iree.winograd.dialect
import iree.winograd.passes
import iree.winograd.pipelines
from iree.compiler import version as compiler_version
from iree.winograd.importers import ImportedModel
from iree.winograd.pipelines.machines.store import machine_path

_CPU_INFORMATION = Path("/proc/cpuinfo")


def program_key(model: ImportedModel, flags: Sequence[str], files: Sequence[str | None]) -> str:
    """A digest of all that decides about a compiled program.

    That is the program with its weights, `flags`, the contents of `files`, this processor and the machines
    that were calibrated on it, IREE, and this package.
    """
    digest = hashlib.sha256()
    for text in (*flags, _processor(), compiler_version.VERSION, _sources_digest()):
        _add(digest, text.encode())
    _add(digest, model.program)
    for name, array in model.weights.items():
        _add(digest, name.encode())
        _add(digest, array.data)
    machines = sorted(map(str, machine_path("any").parent.glob("*.json")))
    for path in (*machines, *filter(None, files)):
        _add(digest, Path(path).read_bytes())
    return digest.hexdigest()


def _add(digest: hashlib._Hash, data: bytes | memoryview) -> None:
    digest.update(f"{len(data)}\n".encode())
    digest.update(data)


@cache
def _processor() -> str:
    """What the compiler may make use of here."""
    try:
        lines = _CPU_INFORMATION.read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    facts = ("flags", "Features", "model name", "cache size")
    return "\n".join(sorted({line for line in lines if line.startswith(facts)}))


@cache
def _sources_digest() -> str:
    """Of this package: the choice of algorithms is part of a program, not only the kernels."""
    digest = hashlib.sha256()
    packages = (iree.winograd, iree.winograd.dialect, iree.winograd.passes, iree.winograd.pipelines)
    for package in packages:
        folder = Path(str(package.__file__)).parent
        for path in sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".json", ".mlir")):
            _add(digest, str(path.relative_to(folder)).encode())
            _add(digest, path.read_bytes())
    return digest.hexdigest()
