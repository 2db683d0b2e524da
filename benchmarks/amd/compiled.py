"""A program as it is for AMD's GPUs: its kernels by their compilers, and what was chosen for its layers."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from iree.winograd import compile
from iree.winograd.errors import CompilationError
from iree.winograd.importers.imported_model import ImportedModel
from iree.winograd.report.schema import DecisionReport, choice

from benchmarks.amd.kernel import CompiledKernel
from benchmarks.amd.radv import MESA, STAND_INS, radv_kernels
from benchmarks.amd.rocm import TARGETS, rocm_kernels

RADV = "radv:"
"""How the names of targets begin that Mesa's driver is for."""
ALL_TARGETS = (*TARGETS, *(f"{RADV}{name}" for name in STAND_INS))


@dataclass(frozen=True)
class CompiledProgram:
    """The kernels of a program for a target, and what was chosen for its layers."""

    kernels: Sequence[CompiledKernel]
    layers: Sequence[Mapping[str, Any]]
    """Algorithm, schedule and predicted seconds of each that isn't left to IREE."""
    report: DecisionReport | None = None
    """None for a program of stock IREE's."""

    @property
    def as_json(self) -> dict[str, Any]:
        return {"layers": list(self.layers), "kernels": [kernel.as_json for kernel in self.kernels]}


def target_name(target: str) -> str:
    """One of the targets in the words of `iree.winograd.compile`."""
    stand_in = target.removeprefix(RADV)
    by_mesa = target != stand_in or stand_in not in TARGETS
    return f"vulkan:{STAND_INS[stand_in][0]}" if by_mesa else f"hip:{target}"


def compiled_for(
    source: str | ImportedModel, target: str, *, stock: bool = False, mesa: Path = MESA
) -> CompiledProgram:
    """A program, MLIR or the path of one or an imported model, as it is for one of the targets.

    Raises `CompilationError` where it doesn't compile, `NoMesaError` where Mesa is missing, and RuntimeError
    where a program doesn't load.
    """
    ((_, compiled),) = compiled_for_each(source, [target], stock=stock, mesa=mesa)
    if not isinstance(compiled, CompiledProgram):
        raise compiled
    return compiled


def compiled_for_each(
    source: str | ImportedModel, targets: Sequence[str], *, stock: bool = False, mesa: Path = MESA
) -> Iterator[tuple[str, CompiledProgram | CompilationError | RuntimeError]]:
    """The same for several targets, with the error where there is one: compiled once for GPUs of one family.

    Raises `NoMesaError`.
    """
    for name, group in groupby(sorted(targets, key=target_name), key=target_name):
        with tempfile.TemporaryDirectory() as folder:
            program, dump, report = Path(folder, "program.vmfb"), Path(folder, "dump"), Path(folder, "r.json")
            flags = [f"--iree-hal-dump-executable-files-to={dump}"]
            try:
                if stock:
                    compile(source, target=name, flags=flags, output=program, enable_winograd=False)
                else:
                    compile(source, target=name, flags=flags, output=program, report=report)
            except CompilationError as error:
                yield from ((target, error) for target in group)
                continue
            decisions = None if stock else json.loads(report.read_text())
            for target in group:
                try:
                    kernels = _kernels(target, program, dump, mesa)
                except RuntimeError as error:
                    yield target, error
                else:
                    yield target, CompiledProgram(kernels, list(_chosen(decisions)), decisions)


def _kernels(target: str, program: Path, dump: Path, mesa: Path) -> list[CompiledKernel]:
    if target_name(target).startswith("hip:"):
        return list(rocm_kernels(dump))
    expected = len(list(dump.rglob("*.spv")))
    return radv_kernels(program, target.removeprefix(RADV), expected, mesa)


def _chosen(report: DecisionReport | None) -> Iterator[dict[str, Any]]:
    for layer in report["layers"] if report is not None else ():
        candidate = choice(layer)
        if candidate is not None:
            yield {
                "algorithm": candidate["algorithm"],
                "schedule": candidate["schedule"],
                "predicted_seconds": candidate["predicted_seconds"],
            }
