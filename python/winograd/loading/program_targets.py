"""What processors a compiled program is for, as IREE's compiler describes them in it."""

from __future__ import annotations

import mmap
import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike

from iree.winograd.loading.program_module import mapped_file
from iree.winograd.pipelines.machines.processor_features import enabled_features

_TARGET = b"#hal.executable.target<"
_DESCRIPTION_BYTES = 4096
"""That IREE's description of a target takes at most."""
_BACKEND = re.compile(rb'"([\w-]+)"')
_TRIPLE = re.compile(rb'target_triple = "(\w+)')
_GPU = re.compile(rb'arch = "([^"]+)"')
_FEATURES = re.compile(rb'cpu_features = "([^"]*)"')

_CPU = "llvm-cpu"
"""IREE's backend for CPUs."""
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""LLVM's names of processors that systems have others for."""


@dataclass(frozen=True)
class ProgramTarget:
    """A processor that a program, or a part of it, is for."""

    backend: str
    """IREE's name of it: "llvm-cpu", "cuda", "vulkan-spirv", "rocm"."""
    architecture: str
    """LLVM's name of a CPU's, `sm_80` or the like of a GPU's; empty where the program doesn't tell."""
    features: tuple[str, ...]
    """LLVM's names of a CPU's, of those that code may use."""

    def __str__(self) -> str:
        if self.backend == _CPU and self.architecture not in ("", this_architecture()):
            return f"{self.architecture} processors, and this one is {this_architecture()}"
        return f"{self.backend} {self.architecture}".rstrip()


def program_targets(program: bytes | str | PathLike[str]) -> Sequence[ProgramTarget]:
    """Those of a program, each once; none where it doesn't tell. Raises OSError."""
    if isinstance(program, bytes):
        return _targets(program)
    with mapped_file(program) as mapped:
        return _targets(mapped)


def this_architecture() -> str:
    """LLVM's name of this machine's."""
    machine = platform.machine().lower()
    return _MACHINES.get(machine, machine)


def _targets(program: bytes | mmap.mmap) -> Sequence[ProgramTarget]:
    return list(dict.fromkeys(map(_target, _descriptions(program))))


def _descriptions(program: bytes | mmap.mmap) -> Iterator[bytes]:
    place = program.find(_TARGET)
    while place >= 0:
        following = program.find(_TARGET, place + 1)
        end = place + _DESCRIPTION_BYTES
        yield program[place : end if following < 0 else min(end, following)]
        place = following


def _target(description: bytes) -> ProgramTarget:
    def found(pattern: re.Pattern[bytes]) -> str:
        match = pattern.search(description)
        return match[1].decode() if match else ""

    backend = found(_BACKEND)
    architecture = found(_TRIPLE) if backend == _CPU else found(_GPU)
    return ProgramTarget(backend, architecture, tuple(enabled_features(found(_FEATURES))))
