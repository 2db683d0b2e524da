"""AArch64: NEON.

Its processors reorder loads and stores, unless an instruction keeps them from it.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.machines.units import KIBIBYTE

from .instruction_set import InstructionSet, ProcessorFacts

L2_KIBIBYTES = {
    "apple-m1": 3072,
    "apple-m2": 4096,
    "apple-m3": 2560,
    "apple-m4": 2560,
    "cortex-a72": 512,
    "cortex-a76": 256,
    "cortex-a78": 256,
    "cortex-x1": 512,
    "neoverse-n1": 1024,
    "neoverse-n2": 1024,
    "neoverse-v1": 1024,
    "neoverse-v2": 1024,
}
"""The L2 cache of one core, or its share of one that several have, by LLVM's name of the processor; the least
where its models differ."""
LEAST_L2_KIBIBYTES = 256
"""Of processors that aren't in the table."""
VECTOR_LANES, VECTOR_REGISTERS = 4, 32

_SCHED_YIELD = 124
"""The number of Linux's system call."""
_THREAD_REGISTERS = ("tpidr_el0", "tpidrro_el0")
_THREAD_SHIFT = 12
"""Bits of a thread's address that all threads have in common: they lie in pages of their own."""
_SPREADING = 0x9E3779B1
"""Knuth's multiplicative hashing of 32 bits: 2**32 divided by the golden ratio."""
_SPREAD_SHIFT = 20
"""The upper bits of such a product are the spread ones."""


class AArch64(InstructionSet):
    """That of 64 bits of Arm's, with NEON, which all of its processors have.

    Vectors of SVE aren't used: LLVM's code for NEON multiplies as much in a cycle on processors whose vectors
    of SVE are of 128 bits, and on those of Neoverse V1.
    """

    name = "AArch64"
    architectures = ("aarch64", "arm64")
    pause = "yield"
    element_registers = 3
    element_lanes = VECTOR_LANES
    changed = ("~{cc}",)

    def facts(self, cpu: str, features: Set[str]) -> ProcessorFacts:
        return ProcessorFacts(
            VECTOR_LANES,
            VECTOR_REGISTERS,
            True,
            L2_KIBIBYTES.get(cpu, LEAST_L2_KIBIBYTES) * KIBIBYTE,
            cpu,
            converts_half=True,
            rounds_bf16="bf16" in features,
        )

    def vectors(self, count: int) -> Sequence[str]:
        return [f"~{{v{number}}}" for number in range(count)]

    def emit_processor_number(self) -> ir.Value:
        """Of a thread, that is: a system call alone would tell the processor's.

        Linux has the address of a thread's data in the first of these registers, macOS in the second.
        """
        long, integer = ir.IntegerType.get_signless(64), ir.IntegerType.get_signless(32)
        addresses = [self.emit(f"mrs $0, {each}", ("=r",), result=long).result for each in _THREAD_REGISTERS]
        page = arith.shrui(arith.addi(*addresses), arith.constant(long, _THREAD_SHIFT))
        spread = arith.muli(arith.trunci(integer, page), arith.constant(integer, _SPREADING))
        return arith.shrui(spread, arith.constant(integer, _SPREAD_SHIFT))

    def emit_ordering(self) -> None:
        self.emit("dmb ish", ("~{memory}",))

    def emit_yield(self) -> None:
        long = ir.IntegerType.get_signless(64)
        constraints = ("={x0}", "{x8}", "~{memory}")
        self.emit("svc #0", constraints, [arith.constant(long, _SCHED_YIELD)], long)


AARCH64 = AArch64()
