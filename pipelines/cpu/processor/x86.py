"""x86-64: SSE, AVX2 and AVX-512.

Its processors keep the order of loads, and that of stores.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.machines.units import KIBIBYTE

from .instruction_set import InstructionSet, ProcessorFacts

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
AVX512_LANES = 16
"""f32 numbers of a register, which no other instruction set here has as many of."""
MATRIX_PROCESSORS = ("sapphirerapids", "emeraldrapids", "graniterapids")
"""Those with matrix units."""
MATRIX_UNIT_FEATURES = {"amx-tile", "amx-bf16"}
"""LLVM's names of what multiplies tiles of bf16."""
BF16_ROUNDING_FEATURES = {"avx512bf16", "avx512vl"}
"""Those of what rounds vectors of any length to bf16."""
BF16_PRODUCTS_FEATURE = "avx512bf16"
"""That of what multiplies vectors of pairs of bf16."""

_SCHED_YIELD = 24
"""The number of the system call."""


class X86(InstructionSet):
    """That of x86-64."""

    name = "x86-64"
    architectures = ("x86_64", "x86_64h")
    pause = "pause"
    element_registers = 1
    element_lanes = 1
    changed = ("~{dirflag}", "~{fpsr}", "~{flags}")

    def facts(self, cpu: str, features: Set[str]) -> ProcessorFacts:
        """A virtual machine may go by an older processor's number; what it has more then tells what it is."""
        if "amx-tile" in features and cpu not in MATRIX_PROCESSORS:
            cpu = "graniterapids" if "prefetchi" in features else "sapphirerapids"
        if "avx512f" in features:
            has_matrix_unit = features >= MATRIX_UNIT_FEATURES
            l2_bytes = L2_KIBIBYTES.get(cpu, 512) * KIBIBYTE
            rounds_bf16 = features >= BF16_ROUNDING_FEATURES
            multiplies_bf16 = BF16_PRODUCTS_FEATURE in features
            return ProcessorFacts(
                AVX512_LANES, 32, True, l2_bytes, cpu, has_matrix_unit, True, rounds_bf16, multiplies_bf16
            )
        l2_bytes, converts_half = L2_KIBIBYTES.get(cpu, 256) * KIBIBYTE, "f16c" in features
        has_fma = "avx2" in features and "fma" in features
        rounds_bf16 = "avxneconvert" in features
        return ProcessorFacts(
            8 if has_fma else 4,
            16,
            has_fma,
            l2_bytes,
            cpu,
            converts_half=converts_half,
            rounds_bf16=rounds_bf16,
            stores_half=False,
        )

    def vectors(self, count: int) -> Sequence[str]:
        return [f"~{{xmm{number}}}" for number in range(count)]

    def emit_processor_number(self) -> ir.Value:
        integer = ir.IntegerType.get_signless(32)
        number = self.emit("rdtscp", ("={ecx}", "~{eax}", "~{edx}"), result=integer).result
        # Bits from the 12th on are those of its part of the memory.
        return arith.andi(number, arith.constant(integer, 0xFFF))

    def emit_ordering(self) -> None:
        self.emit("", ("~{memory}",))

    def emit_yield(self) -> None:
        long = ir.IntegerType.get_signless(64)
        constraints = ("={rax}", "{rax}", "~{rcx}", "~{r11}", "~{memory}")
        self.emit("syscall", constraints, [arith.constant(long, _SCHED_YIELD)], long)


X86_64 = X86()
