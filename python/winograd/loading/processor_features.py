"""Which features of a processor this machine lacks: code that uses one of them would end the process."""

from __future__ import annotations

import platform
import sys
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

_CPU_INFORMATION = Path("/proc/cpuinfo")

_X86_NAMES: Mapping[str, str] = MappingProxyType(
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
"""Linux's, by LLVM's names, those of features whose instructions compiled code has where it may.

Not of matrix units: kernels ask for them when they run, and do without.
"""

_AARCH64_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "fp-armv8": "fp",
        "neon": "asimd",
        "aes": "aes",
        "sha2": "sha2",
        "sha3": "sha3",
        "crc": "crc32",
        "lse": "atomics",
        "rdm": "asimdrdm",
        "rcpc": "lrcpc",
        "fullfp16": "asimdhp",
        "fp16fml": "asimdfhm",
        "dotprod": "asimddp",
        "jsconv": "jscvt",
        "complxnum": "fcma",
        "i8mm": "i8mm",
        "bf16": "bf16",
        "sve": "sve",
        "sve2": "sve2",
    }
)
"""The same of AArch64."""

_NAMES = MappingProxyType({"x86_64": ("flags", _X86_NAMES), "aarch64": ("Features", _AARCH64_NAMES)})
"""By the architecture, the field in which Linux says what a processor has, and its names."""


def missing_features(features: Collection[str]) -> list[str]:
    """Those of `features`, by LLVM's names, that this processor lacks; none where the system doesn't tell."""
    present = _flags()
    if not present:
        return []
    _, names = _NAMES[platform.machine()]
    return [each for each in features if each in names and names[each] not in present]


@cache
def _flags() -> frozenset[str]:
    if sys.platform != "linux" or platform.machine() not in _NAMES:
        return frozenset()
    field, _ = _NAMES[platform.machine()]
    try:
        lines = _CPU_INFORMATION.read_text().splitlines()
    except OSError:
        return frozenset()
    fields = (line.partition(":") for line in lines)
    return next((frozenset(value.split()) for name, _, value in fields if name.strip() == field), frozenset())
