"""What LLVM tells of kernels for ROCm, in the assembly that IREE leaves of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from benchmarks.amd.bounds import Bound, architecture_of, waves_by_registers, waves_by_sharing
from benchmarks.amd.kernel import CompiledKernel, loop_of

TARGETS = (
    "gfx90a",
    "gfx942",
    "gfx950",
    "gfx1100",
    "gfx1101",
    "gfx1151",
    "gfx1200",
    "gfx1201",
)
"""Those of the chips that IREE knows which differ."""


def rocm_kernels(dump: Path) -> Iterator[CompiledKernel]:
    """Those of all assembly in a folder of `--iree-hal-dump-executable-files-to`."""
    for path in sorted(dump.rglob("*.rocmasm")):
        yield from kernels_of_assembly(path.read_text(errors="replace"))


def kernels_of_assembly(text: str) -> Iterator[CompiledKernel]:
    """Raises ValueError for assembly without a target, or for a chip that isn't known."""
    target = re.search(r'\.amdgcn_target "[^"]*-(gfx\w+)', text)
    if target is None:
        raise ValueError("the assembly names no target")
    chip = target[1]
    architecture = architecture_of(chip)
    metadata = text[text.rfind("amdhsa.kernels:") :]
    for facts in re.split(r"^  - \.", metadata, flags=re.MULTILINE)[1:]:

        def number(key: str, facts: str = facts) -> int:
            match = re.search(rf"\.{key}:\s+(\d+)", facts)
            return int(match[1]) if match else 0

        named = re.search(r"^ {4}\.name:\s+(\S+)", facts, re.MULTILINE)
        assert named is not None, "kernels have names"
        name = named[1]
        code = re.search(rf"^{re.escape(name)}:.*?^\.Lfunc_end", text, re.MULTILINE | re.DOTALL)
        loop = loop_of(name, code[0]) if code else None
        wave, threads = number("wavefront_size"), number("max_flat_workgroup_size")
        registers, shared = number("vgpr_count"), number("group_segment_fixed_size")
        yield CompiledKernel(
            chip,
            name,
            threads,
            wave,
            registers,
            number("vgpr_spill_count") + number("sgpr_spill_count"),
            shared,
            min(
                waves_by_registers(registers, wave, architecture),
                waves_by_sharing(shared, threads, wave, architecture),
            ),
            loop,
            loop and Bound.of(loop, architecture, wave),
        )
