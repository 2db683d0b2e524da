"""AMD's GPUs: their families by the names that IREE's targets have for them, and a machine of each chip."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from .units import KIBIBYTE

FEW_WAVES = 0.7
"""The part of a rate that is left where a SIMD has one wave, which nothing hides latencies of."""


class AmdFamily(Enum):
    """Chips whose units are of the same rates."""

    CDNA1 = "CDNA 1"
    CDNA2 = "CDNA 2"
    CDNA3 = "CDNA 3"
    CDNA4 = "CDNA 4"
    RDNA2 = "RDNA 2"
    RDNA3 = "RDNA 3"
    RDNA4 = "RDNA 4"

    @property
    def is_cdna(self) -> bool:
        """Whether warps have 64 threads, and matrix units multiply f32, too."""
        return self in (AmdFamily.CDNA1, AmdFamily.CDNA2, AmdFamily.CDNA3, AmdFamily.CDNA4)

    @property
    def simds(self) -> int:
        """Of a compute unit."""
        return 4 if self.is_cdna else 2

    @property
    def shared_memory_bytes(self) -> int:
        """Of a compute unit, whatever a workgroup may have."""
        return (160 if self is AmdFamily.CDNA4 else 64) * KIBIBYTE


@dataclass(frozen=True)
class AmdChip:
    """A GPU by AMD's published figures; rates of caches are about those that others measured."""

    teraflops: float
    """Of f32 outside of matrix units, at best: packed on CDNA from CDNA 2 on, dual-issued from RDNA 3 on."""
    compute_units: int
    cache: int
    """MiB of the last cache."""
    cache_bandwidth: float
    """TB/s."""
    bandwidth: float
    """TB/s of memory."""
    matrix_teraflops: float | None = None
    """Of fp16 with sums in f32. Those of RDNA 3 are no faster than its other units, and not used."""


AMD_CHIPS: Mapping[str, AmdChip] = MappingProxyType(
    {
        "gfx908": AmdChip(23.1, 120, 8, 3.0, 1.23, 185),  # Instinct MI100
        "gfx90a": AmdChip(47.9, 110, 8, 3.5, 1.6, 191),  # half of an Instinct MI250X
        "gfx942": AmdChip(163.4, 304, 256, 11.0, 5.3, 1307),  # Instinct MI300X
        "gfx950": AmdChip(157.3, 256, 256, 11.0, 8.0, 2517),  # Instinct MI355X
        "gfx1030": AmdChip(23.0, 80, 128, 1.9, 0.51),  # Radeon RX 6900 XT
        "gfx1100": AmdChip(61.4, 96, 96, 3.0, 0.96),  # Radeon RX 7900 XTX
        "gfx1101": AmdChip(37.3, 60, 64, 2.3, 0.62),  # Radeon RX 7800 XT
        "gfx1102": AmdChip(21.8, 32, 32, 1.2, 0.29),  # Radeon RX 7600
        "gfx1103": AmdChip(8.9, 12, 2, 0.6, 0.09),  # Radeon 780M
        "gfx1150": AmdChip(11.9, 16, 2, 0.7, 0.12),  # Radeon 890M
        "gfx1151": AmdChip(29.7, 40, 32, 1.2, 0.256),  # Radeon 8060S
        "gfx1200": AmdChip(25.6, 32, 32, 1.8, 0.32, 103),  # Radeon RX 9060 XT
        "gfx1201": AmdChip(48.7, 64, 64, 3.3, 0.64, 195),  # Radeon RX 9070 XT
    }
)
"""By LLVM's names."""

_REPRESENTATIVES: Mapping[AmdFamily, str] = MappingProxyType(
    {
        AmdFamily.CDNA1: "gfx908",
        AmdFamily.CDNA2: "gfx90a",
        AmdFamily.CDNA3: "gfx942",
        AmdFamily.CDNA4: "gfx950",
        AmdFamily.RDNA2: "gfx1030",
        AmdFamily.RDNA3: "gfx1100",
        AmdFamily.RDNA4: "gfx1201",
    }
)
"""The chips that stand for those of a family that aren't known."""
_FAMILIES = (
    (re.compile(r"gfx90a"), AmdFamily.CDNA2),
    (re.compile(r"gfx94\w"), AmdFamily.CDNA3),
    (re.compile(r"gfx9[5-9]\w"), AmdFamily.CDNA4),
    (re.compile(r"gfx9\w+|cdna1"), AmdFamily.CDNA1),
    # RDNA 1 has the rates of RDNA 2, and no cache behind the second.
    (re.compile(r"gfx10\w+|rdna[12]"), AmdFamily.RDNA2),
    (re.compile(r"gfx11\w+|rdna3"), AmdFamily.RDNA3),
    # Later ones are taken for the last that is known.
    (re.compile(r"gfx1\w+|rdna\d+"), AmdFamily.RDNA4),
    (re.compile(r"cdna2"), AmdFamily.CDNA2),
    (re.compile(r"cdna3"), AmdFamily.CDNA3),
    (re.compile(r"cdna\d+"), AmdFamily.CDNA4),
)


def amd_family(architecture: str) -> AmdFamily | None:
    """That of a chip, or of a family's own name ("rdna3"), as IREE's targets say it; None for other GPUs."""
    return next((family for name, family in _FAMILIES if name.fullmatch(architecture)), None)


def amd_chip(architecture: str) -> AmdChip | None:
    """The chip of a name, or one that stands for its family; None for GPUs of others."""
    family = amd_family(architecture)
    if family is None:
        return None
    return AMD_CHIPS.get(architecture) or AMD_CHIPS[_REPRESENTATIVES[family]]
