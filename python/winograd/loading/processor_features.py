"""Which features of a processor this machine lacks: code that uses one of them would end the process."""

from __future__ import annotations

import platform
import sys
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

_CPU_INFORMATION = Path("/proc/cpuinfo")

_LINUX_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "sse3": "pni",
        "ssse3": "ssse3",
        "sse4.1": "sse4_1",
        "sse4.2": "sse4_2",
        "popcnt": "popcnt",
        "lzcnt": "abm",
        "bmi": "bmi1",
        "bmi2": "bmi2",
        "movbe": "movbe",
        "f16c": "f16c",
        "fma": "fma",
        "avx": "avx",
        "avx2": "avx2",
        "avxvnni": "avx_vnni",
        "gfni": "gfni",
        "vaes": "vaes",
        "vpclmulqdq": "vpclmulqdq",
        "avx512f": "avx512f",
        "avx512bw": "avx512bw",
        "avx512cd": "avx512cd",
        "avx512dq": "avx512dq",
        "avx512vl": "avx512vl",
        "avx512ifma": "avx512ifma",
        "avx512vbmi": "avx512vbmi",
        "avx512vbmi2": "avx512_vbmi2",
        "avx512vnni": "avx512_vnni",
        "avx512bitalg": "avx512_bitalg",
        "avx512vpopcntdq": "avx512_vpopcntdq",
        "avx512bf16": "avx512_bf16",
        "avx512fp16": "avx512_fp16",
    }
)
"""By LLVM's names, those of features whose instructions compiled code has where it may.

Not of matrix units: kernels ask for them when they run, and do without.
"""


def missing_features(features: Collection[str]) -> list[str]:
    """Those of `features`, by LLVM's names, that this processor lacks; none where the system doesn't tell."""
    present = _flags()
    if not present:
        return []
    return [each for each in features if each in _LINUX_NAMES and _LINUX_NAMES[each] not in present]


@cache
def _flags() -> frozenset[str]:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return frozenset()
    try:
        lines = _CPU_INFORMATION.read_text().splitlines()
    except OSError:
        return frozenset()
    fields = (line.partition(":") for line in lines)
    return next(
        (frozenset(value.split()) for name, _, value in fields if name.strip() == "flags"), frozenset()
    )
