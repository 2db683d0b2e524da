"""What a CPU kernel needs to know of its target, read from IREE's executable target."""

from __future__ import annotations

from dataclasses import dataclass

KIBIBYTE = 1024


@dataclass(frozen=True)
class CpuTarget:
    """An x86-64 target: lanes of f32 in a vector register, the number of these, and whether it has FMA."""

    vector_width: int
    vector_registers: int
    fused_multiply_add: bool
    l2_bytes: int = 1024 * KIBIBYTE

    @staticmethod
    def from_features(features: str) -> CpuTarget:
        """Reads LLVM's feature string, e.g. "+avx2,+fma,-avx512f"."""
        enabled: set[str] = set()
        for feature in filter(None, features.split(",")):
            (enabled.add if feature[0] == "+" else enabled.discard)(feature[1:])
        if "avx512f" in enabled:
            return CpuTarget(vector_width=16, vector_registers=32, fused_multiply_add=True)
        if "avx2" in enabled and "fma" in enabled:
            return CpuTarget(vector_width=8, vector_registers=16, fused_multiply_add=True)
        return CpuTarget(vector_width=4, vector_registers=16, fused_multiply_add=False)
