"""How fast loops could be at best, by the published rates of AMD's units.

Sources are AMD's instruction set references and white papers of RDNA 2 to 4 and CDNA 2 to 4. Latencies,
conflicts of banks, and waves that wait for memory are not in it: a bound is no prediction.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from benchmarks.amd.machine_code import Instructions, MatrixProduct

_SHARED_BYTES = 128
"""That the shared memory of a compute unit moves in a cycle."""
_CACHED_BYTES, _CACHED_BYTES_OF_CDNA = 128, 64
"""That its first cache gives in a cycle."""
_DOUBLED = re.compile(r"v_(?:fma|fmac|fmaak|fmamk|mul|add|sub|subrev|max|min|max_num|min_num)_f32")
"""What RDNA 3 and 4 do for a wave of 64 in one cycle."""
_QUARTER = re.compile(r"v_(?:mul_lo|mul_hi|mad_[ui]64|mad_co|rcp|rsq|sqrt|exp|log)_")
"""What runs at a quarter of the rate."""


@dataclass(frozen=True)
class Architecture:
    """What a SIMD does in a cycle; a compute unit has several."""

    name: str
    simds: int
    lanes: int
    """Threads of which it executes a vector instruction."""
    multiply_adds: int
    """Of f32 at best, outside of matrix units."""
    registers: int
    """Vectors of 32 bits that the file holds for waves of 32 threads, or of 64 on CDNA."""
    granule: int
    """In which these are given to waves of that size."""
    waves: int
    """That it keeps at most."""
    native_wave: int
    """Threads of these."""
    matrix: Mapping[str, int] = field(default_factory=dict)
    """Multiply-adds of matrix units, by what they multiply."""
    doubles: bool = False
    """Whether waves of 64 take one cycle for what `_DOUBLED` names."""
    overlaps: bool = False
    """Whether matrix units work while the vector unit does."""
    shared_memory: int = 64 * 1024
    """Bytes of a compute unit."""
    cached_bytes: int = _CACHED_BYTES
    """That the first cache of a compute unit gives in a cycle."""


def _rdna(name: str, registers: int, halves: int = 0) -> Architecture:
    multiply_adds = 64 if halves else 32
    matrix = {"f16": halves, "bf16": halves} if halves else {}
    granule = registers // 64
    return Architecture(name, 2, 32, multiply_adds, registers, granule, 16, 32, matrix, doubles=halves > 0)


def _cdna(name: str, halves: int, singles: int = 32, shared_kib: int = 64) -> Architecture:
    matrix = {"f16": halves, "bf16": halves, "bf16_1k": halves, "xf32": halves // 2, "f32": singles}
    shared = shared_kib * 1024
    return Architecture(
        name,
        4,
        16,
        32,
        512,
        8,
        8,
        64,
        matrix,
        overlaps=True,
        shared_memory=shared,
        cached_bytes=_CACHED_BYTES_OF_CDNA,
    )


ARCHITECTURES = MappingProxyType(
    {
        "gfx103": _rdna("RDNA 2", 1024),
        # The large chips have registers for half as many waves more.
        "gfx1100": _rdna("RDNA 3", 1536, 128),
        "gfx1101": _rdna("RDNA 3", 1536, 128),
        "gfx1151": _rdna("RDNA 3.5", 1536, 128),
        "gfx11": _rdna("RDNA 3", 1024, 128),
        "gfx12": _rdna("RDNA 4", 1536, 256),
        "gfx90a": _cdna("CDNA 2", 128),
        "gfx942": _cdna("CDNA 3", 256),
        "gfx950": _cdna("CDNA 4", 512, shared_kib=160),
    }
)
"""By how LLVM's names of chips begin, longer beginnings first."""


def architecture_of(chip: str) -> Architecture:
    """Raises ValueError for a chip of another family."""
    for prefix, architecture in ARCHITECTURES.items():
        if chip.startswith(prefix):
            return architecture
    raise ValueError(f"the architecture of {chip!r} isn't known")


@dataclass(frozen=True)
class Bound:
    """Cycles of a SIMD for one wave in a loop, while all SIMDs are at it."""

    computing: float
    sharing: float
    """That shared memory takes."""
    caching: float
    """That the first cache takes."""
    least: float
    """For the products alone, by the unit that does them."""

    @staticmethod
    def of(loop: Instructions, architecture: Architecture, wave: int) -> Bound:
        """For waves of so many threads. Raises KeyError for products of matrices that the unit hasn't."""
        vector = 0.0
        for name, number in loop.names.items():
            if name.startswith("v_") and MatrixProduct.of(name) is None:
                doubled = architecture.doubles and wave == 64 and _DOUBLED.fullmatch(name)
                cycles = 1 if doubled else wave / architecture.lanes
                vector += number * cycles * (4 if _QUARTER.match(name) else 1)
        matrix = sum(
            number * each.multiply_adds / architecture.matrix[each.factors]
            for each, number in loop.matrix_products
        )
        computing = max(vector, matrix) if architecture.overlaps else vector + matrix
        sharing = loop.shared_bytes * wave / _SHARED_BYTES * architecture.simds
        caching = loop.cached_bytes * wave / architecture.cached_bytes * architecture.simds
        least = matrix or loop.multiply_adds * wave / architecture.multiply_adds
        return Bound(computing, sharing, caching, least)

    @property
    def by(self) -> str:
        if self.computing >= max(self.sharing, self.caching):
            return "computing"
        return "shared memory" if self.sharing >= self.caching else "the first cache"

    @property
    def of_peak(self) -> float:
        return self.least / max(self.computing, self.sharing, self.caching)


def waves_by_registers(registers: int, wave: int, architecture: Architecture) -> int:
    """Waves that a SIMD has registers for."""
    share = architecture.native_wave / wave
    granule = max(1, int(architecture.granule * share))
    used = -(-max(1, registers) // granule) * granule
    return min(architecture.waves, int(architecture.registers * share) // used)


def waves_by_sharing(shared: int, threads: int, wave: int, architecture: Architecture) -> int:
    """Waves of a SIMD whose workgroups a compute unit has shared memory for."""
    if not shared:
        return architecture.waves
    workgroups = architecture.shared_memory // shared
    return max(1, workgroups * -(-threads // wave) // architecture.simds)
