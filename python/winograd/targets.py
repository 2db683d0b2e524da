"""Names for the machines to compile for."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cache

from iree.winograd.errors import InvalidOptionError


@dataclass(frozen=True)
class _Target:
    flags: tuple[str, ...]
    chip_flag: str
    default_chip: str | None


_TARGETS = {
    "cpu": _Target(
        ("--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"),
        "--iree-llvmcpu-target-cpu",
        "host",
    ),
    "vulkan": _Target(("--iree-hal-target-device=vulkan",), "--iree-vulkan-target", None),
    "cuda": _Target(("--iree-hal-target-device=cuda",), "--iree-cuda-target", None),
    "hip": _Target(("--iree-hal-target-device=hip",), "--iree-rocm-target", None),
}

TARGET_OF_DRIVER = {
    "local-task": "cpu",
    "local-sync": "cpu",
    "cuda": "cuda",
    "vulkan": "vulkan",
    "hip": "hip",
}
"""For each driver of IREE's runtime, the target that its programs are compiled for unless one is given."""
DEFAULT_DRIVERS = {target: driver for driver, target in reversed(TARGET_OF_DRIVER.items())}
"""For each target, the driver that runs its programs unless one is given: the first above."""


def driver_name(device: str) -> str:
    """The part of a URI that names the driver."""
    return device.split("://", 1)[0]


def target_flags(target: str) -> tuple[str, ...]:
    """The flags of `iree-compile` for `target`: `cpu`, `vulkan`, `cuda` or `hip`, or one of them and a chip.

    A chip follows a colon, as in `cpu:znver4`, `vulkan:rdna3`, `cuda:sm_80` or `hip:gfx942`, in the names
    that the flags of IREE know. Without one `cpu` is the machine that compiles, and the others are IREE's
    default.

    Raises `InvalidOptionError` for another target.
    """
    name, _, chip = target.partition(":")
    if name not in _TARGETS:
        raise InvalidOptionError(f"target {target!r} is not known; known are {', '.join(_TARGETS)}")
    known = _TARGETS[name]
    chip = chip or known.default_chip or ""
    return (*known.flags, f"{known.chip_flag}={chip}") if chip else known.flags


@cache
def find_crash(flags: tuple[str, ...]) -> str | None:
    """What IREE says before it crashes on `flags`, those of `iree-compile`, or None.

    Names of targets that it doesn't know end its process. So they are tried in another one, on a program of
    nothing, which takes 20 ms.
    """
    # The names above need no compiler.
    from iree.winograd import embedding

    tool = embedding.stock_tool("iree-compile")
    trial = subprocess.run(
        [tool, *flags, "--compile-to=preprocessing", "-"],
        input=b"module {}",
        capture_output=True,
        check=False,
    )
    said, _, _ = trial.stderr.decode(errors="replace").partition("Please report issues")
    if trial.returncode >= 0:
        # LLVM crashes later on: its code for no x86-64 processor in particular lacks 64 bits.
        if "Unknown CPU for target architecture x86_64" not in said:
            return None
        said, _, _ = said.partition(" (ignoring processor)")
    lines = said.strip().splitlines() or ["IREE crashes on these flags"]
    return lines[-1].removeprefix("<unknown>:0: error: ")
