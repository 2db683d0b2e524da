"""What a CPU kernel needs to know of its target, read from IREE's executable target."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.pipelines.machines.units import KIBIBYTE

ROW_PADDING = 16
"""f32 elements after each row of transformed tiles: rows a power of two apart would share few cache sets."""
L2_KIBIBYTES = {
    "znver1": 512,
    "znver2": 512,
    "znver3": 512,
    "znver4": 1024,
    "znver5": 1024,
    "skylake-avx512": 1024,
    "cascadelake": 1024,
    "cooperlake": 1024,
    "icelake-server": 1280,
    "tigerlake": 1280,
    "alderlake": 1280,
    "raptorlake": 1280,
    "sapphirerapids": 2048,
    "emeraldrapids": 2048,
    "graniterapids": 2048,
}
"""The L2 cache of one core, by LLVM's name of the processor; the least where its models differ.

IREE's runtime gives a workgroup as much memory of its own as this cache holds, so a kernel may not need more.
"""
MATRIX_PROCESSORS = ("sapphirerapids", "emeraldrapids", "graniterapids")
"""Those with matrix units."""
MATRIX_UNIT_FEATURES = {"amx-tile", "amx-bf16"}
"""LLVM's names of what multiplies tiles of bf16."""


@dataclass(frozen=True)
class CpuTarget:
    """An x86-64 target: f32 lanes of a vector register, how many of these, whether it has FMA, and its L2.

    `cpu` is LLVM's name of the processor, empty where code is for no particular one. `has_matrix_unit` says
    whether it multiplies tiles of bf16, as AMX does.
    """

    vector_width: int
    vector_registers: int
    fused_multiply_add: bool
    l2_bytes: int
    cpu: str = ""
    has_matrix_unit: bool = False
    converts_half: bool = False
    """Whether vectors of f16 are widened and narrowed by instructions of their own."""

    @property
    def workgroup_bytes(self) -> int:
        """What the arrays of a workgroup may take: L2, but for bytes skipped to begin each on a line."""
        return self.l2_bytes - KIBIBYTE

    @staticmethod
    def of(cpu: str, features: str) -> CpuTarget:
        """Reads LLVM's names of a processor and its features, e.g. "haswell" and "+avx2,+fma,-avx512f".

        A virtual machine may go by an older processor's number; what it has more then tells what it is.
        """
        enabled: set[str] = set()
        for feature in filter(None, features.split(",")):
            (enabled.add if feature[0] == "+" else enabled.discard)(feature[1:])
        if "amx-tile" in enabled and cpu not in MATRIX_PROCESSORS:
            cpu = "graniterapids" if "prefetchi" in enabled else "sapphirerapids"
        if "avx512f" in enabled:
            has_matrix_unit = enabled >= MATRIX_UNIT_FEATURES
            return CpuTarget(16, 32, True, L2_KIBIBYTES.get(cpu, 512) * KIBIBYTE, cpu, has_matrix_unit, True)
        l2_bytes = L2_KIBIBYTES.get(cpu, 256) * KIBIBYTE
        if "avx2" in enabled and "fma" in enabled:
            return CpuTarget(8, 16, True, l2_bytes, cpu, converts_half="f16c" in enabled)
        return CpuTarget(4, 16, False, l2_bytes, cpu, converts_half="f16c" in enabled)

    @staticmethod
    def least(one: CpuTarget, other: CpuTarget) -> CpuTarget:
        """What code can rely on that has to run on both."""
        return CpuTarget(
            min(one.vector_width, other.vector_width),
            min(one.vector_registers, other.vector_registers),
            one.fused_multiply_add and other.fused_multiply_add,
            min(one.l2_bytes, other.l2_bytes),
            one.cpu if one.cpu == other.cpu else "",
            one.has_matrix_unit and other.has_matrix_unit,
            one.converts_half and other.converts_half,
        )
