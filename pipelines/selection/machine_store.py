"""Where the machines that were measured are kept, and which one the cost models take for a target."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from iree.winograd.pipelines.cpu.target import CpuTarget
from iree.winograd.pipelines.kernel_target import KernelTarget

from .default_machines import default_machine
from .machine import CpuMachine, Machine, machine_from_json

DATA_FOLDER_VARIABLE = "XDG_DATA_HOME"
"""Names the folder for data of the user, `~/.local/share` where it is unset."""


@dataclass(frozen=True)
class MachineModel:
    """A machine, and the file that it was read from; None where it is the default of a target."""

    machine: Machine
    path: Path | None


def machine_path(name: str) -> Path:
    """The file of the machine that was measured for the target of the given name."""
    data = os.environ.get(DATA_FOLDER_VARIABLE, "")
    # The specification of the variable has relative paths ignored.
    folder = Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share"
    return folder / "iree-winograd" / "machines" / f"{name}.json"


def target_name(target: KernelTarget) -> str:
    """LLVM's name of a processor, or the architecture of a GPU; empty where code is for several."""
    return target.cpu if isinstance(target, CpuTarget) else target.architecture


def read_machine(path: str | os.PathLike[str]) -> Machine:
    """The machine in a file. Raises OSError where it can't be read, and ValueError where it holds none."""
    try:
        return machine_from_json(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None


def stored_machine(target: KernelTarget) -> Machine | None:
    """The machine that was measured for a target, or None. Raises ValueError when its file is damaged."""
    name = target_name(target)
    if not name:
        return None
    path = machine_path(name)
    try:
        machine = read_machine(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    _require_kind(machine, target, path)
    return machine


def machine_model(target: KernelTarget, path: str | None, report: Callable[[str], None]) -> MachineModel:
    """The machine in the file `path`, or else the one that was measured for `target`, or else the default.

    A damaged file of a measured machine is told to `report`. Raises OSError when `path` can't be read, and
    ValueError when it holds no machine of the target's kind.
    """
    if path is not None:
        machine = read_machine(path)
        _require_kind(machine, target, Path(path))
        return MachineModel(machine, Path(path))
    try:
        stored = stored_machine(target)
    except ValueError as error:
        report(f"a measured machine is ignored: {error}")
        stored = None
    if stored is not None:
        return MachineModel(stored, machine_path(target_name(target)))
    return MachineModel(default_machine(target), None)


def _require_kind(machine: Machine, target: KernelTarget, path: Path) -> None:
    if isinstance(machine, CpuMachine) != isinstance(target, CpuTarget):
        kinds = ("a CPU", "a GPU") if isinstance(machine, CpuMachine) else ("a GPU", "a CPU")
        raise ValueError(f"{path}: holds {kinds[0]}, but the target is {kinds[1]}")
