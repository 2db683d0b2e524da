"""Names of targets that IREE doesn't know."""

from __future__ import annotations

import re
import subprocess
from functools import cache

from iree.winograd.compiling.embedding import stock_tool
from iree.winograd.pipelines.machines.amd import amd_family
from iree.winograd.targets import KNOWN_TARGET_FLAGS

_CUDA_FLAG = "--iree-cuda-target="
_UNDESCRIBED = b'#hal.executable.target<"cuda", "cuda-nvptx-fb">'
"""A target of CUDA's by any name that begins as chips do: it comes without what kernels have to know."""
_LLVM_ERROR = "LLVM ERROR: "
_ROCM_CHIP = re.compile(r"Unknown ROCM target '(\w+)'")


@cache
def find_unknown_target(flags: tuple[str, ...]) -> str | None:
    """What IREE says of a target that it doesn't know among `flags`, those of `iree-compile`, or None.

    Most of such names end its process. So flags that may hold one are tried in another process, on a program
    of nothing, which takes 20 ms.
    """
    asked = [flag for flag in flags if "target" in flag and flag.lstrip("-") not in KNOWN_TARGET_FLAGS]
    if not asked:
        return None
    tool = stock_tool("iree-compile")
    trial = subprocess.run(
        [tool, *flags, "--compile-to=preprocessing", "-"],
        input=b"module {}",
        capture_output=True,
        check=False,
    )
    said, _, _ = trial.stderr.decode(errors="replace").partition("Please report issues")
    if unknown := _ROCM_CHIP.search(said):
        return unknown[0] + _by_vulkan(unknown[1])
    chips = [flag.partition("=")[2] for flag in asked if flag.startswith(_CUDA_FLAG)]
    if chips and _UNDESCRIBED in trial.stdout:
        return f"Unknown CUDA target '{chips[-1]}'"
    if trial.returncode >= 0:
        # LLVM crashes later on: its code for no x86-64 processor in particular lacks 64 bits.
        if "Unknown CPU for target architecture x86_64" not in said:
            return None
        said, _, _ = said.partition(" (ignoring processor)")
    lines = said.strip().splitlines() or ["IREE crashes on these flags"]
    if lines[-1].startswith(_LLVM_ERROR):
        return f"{' '.join(asked)}: {lines[-1].removeprefix(_LLVM_ERROR)}"
    return lines[-1].removeprefix("<unknown>:0: error: ")


def _by_vulkan(chip: str) -> str:
    """What programs for a chip that IREE has no ROCm code for may be compiled for, if anything."""
    family = amd_family(chip)
    if family is None or family.is_cdna:
        return ""
    name = "rdna1" if chip.startswith("gfx101") else family.name.lower()
    return f": compile for Vulkan, vulkan:{name}, and run the program by the GPU's Vulkan driver"
