"""What a CPU kernel needs to know of its target, read from IREE's executable target."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from iree.winograd.pipelines.emission.numbers.known import Numbers, numbers_of
from iree.winograd.pipelines.machines.host import WORKER_MEMORY
from iree.winograd.pipelines.machines.processor_features import enabled_features
from iree.winograd.pipelines.machines.units import KIBIBYTE
from iree.winograd.pipelines.problems.iree_code import IreeCode

from .instruction_set import InstructionSet
from .x86 import AVX512_LANES, X86_64

IREE_CODE = IreeCode(vectorizes_loops=True, attends_slowly=True)
"""IREE's own code for all processors."""

ROW_PADDING = 16
"""f32 elements after each row of transformed tiles: rows a power of two apart would share few cache sets."""

APPLE = "apple-"
"""What LLVM's names of Apple's processors begin with."""


@dataclass(frozen=True)
class CpuTarget:
    """A processor: f32 lanes of a vector register, how many of these, whether it has FMA, and its L2.

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
    rounds_bf16: bool = False
    """Whether vectors of f32 are rounded to bf16 by an instruction of their own."""
    multiplies_bf16: bool = False
    """Whether one instruction adds products of pairs of bf16 to a vector of sums of f32."""
    stores_half: bool = True
    """Whether images that only kernels read are stored in half precision: conversions take less than f32's
    other half takes in the caches."""
    instruction_set: InstructionSet = X86_64

    @property
    def numbers(self) -> Numbers:
        """How it converts types of numbers."""
        return numbers_of(
            rounds_bf16=self.rounds_bf16,
            fused_multiply_add=self.fused_multiply_add,
            estimates_reciprocals=self.vector_width == AVX512_LANES,
        )

    @property
    def runs_linux(self) -> bool:
        """Whether that is what its programs run on: where they are compiled on Linux, not for a Mac."""
        return sys.platform == "linux" and not self.cpu.startswith(APPLE)

    @property
    def workgroup_bytes(self) -> int:
        """What the arrays of a workgroup may take, but for bytes skipped to begin each on a line.

        That is L2, which IREE's runtime gives a worker, or what `load` does where that is less.
        """
        return min(self.l2_bytes, WORKER_MEMORY) - KIBIBYTE

    @staticmethod
    def of(cpu: str, features: str, instruction_set: InstructionSet = X86_64) -> CpuTarget:
        """Reads LLVM's names of a processor and its features, e.g. "haswell" and "+avx2,+fma,-avx512f"."""
        return CpuTarget(*instruction_set.facts(cpu, set(enabled_features(features))), instruction_set)

    @staticmethod
    def least(one: CpuTarget, other: CpuTarget) -> CpuTarget:
        """What code can rely on that has to run on both. Raises ValueError for two instruction sets."""
        if one.instruction_set != other.instruction_set:
            raise ValueError(f"no code runs on {one.instruction_set.name} and {other.instruction_set.name}")
        return CpuTarget(
            min(one.vector_width, other.vector_width),
            min(one.vector_registers, other.vector_registers),
            one.fused_multiply_add and other.fused_multiply_add,
            min(one.l2_bytes, other.l2_bytes),
            one.cpu if one.cpu == other.cpu else "",
            one.has_matrix_unit and other.has_matrix_unit,
            one.converts_half and other.converts_half,
            one.rounds_bf16 and other.rounds_bf16,
            one.multiplies_bf16 and other.multiplies_bf16,
            one.stores_half and other.stores_half,
            one.instruction_set,
        )
