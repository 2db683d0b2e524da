"""A digest of all that decides about compiled programs, but for the programs themselves."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from iree.winograd.pipelines.machines.store import machine_path

_COMPILER = "iree-base-compiler"
_CPU_INFORMATION = Path("/proc/cpuinfo")
_PACKAGES = ("iree.winograd", "iree.winograd.dialect", "iree.winograd.passes", "iree.winograd.pipelines")


def compiler_digest(flags: Iterable[str], files: Sequence[str | None]) -> hashlib._Hash:
    """A digest of `flags`, the contents of `files`, this processor, the compiler, and this package.

    Machines that were calibrated on the processor are part of it.
    """
    digest = hashlib.sha256()
    for text in (*flags, _processor(), version(_COMPILER), _sources_digest()):
        add(digest, text.encode())
    machines = sorted(map(str, machine_path("any").parent.glob("*.json")))
    for path in (*machines, *filter(None, files)):
        add(digest, Path(path).read_bytes())
    return digest


def add(digest: hashlib._Hash, data: bytes | memoryview) -> None:
    """Have `digest` be one of `data` and its length, too."""
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
    for package in _PACKAGES:
        specification = find_spec(package)
        assert specification is not None and specification.origin is not None
        folder = Path(specification.origin).parent
        for path in sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".json", ".mlir")):
            add(digest, str(path.relative_to(folder)).encode())
            add(digest, path.read_bytes())
    return digest.hexdigest()
