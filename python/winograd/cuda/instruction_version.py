"""The version of PTX that a text says it is of.

IREE 3.13 has LLVM write 8.0 for sm_90a, and passes it no other. What LLVM doesn't know of it is written as it
stands in kernels, and assemblers refuse what a text's version doesn't have.
"""

from __future__ import annotations

import re

_VERSION = re.compile(rb"^\.version (\d+)\.(\d+)$", re.MULTILINE)
_NEEDED = ((b"tensormap.", (8, 3)),)
"""Versions by what is first in them: PTX ISA, "Release Notes". Drivers have 8.3 from CUDA 12.3 on."""


def with_version(text: bytes) -> bytes:
    """The PTX of a module, of the version that has all of its instructions, if it says an earlier one."""
    needed = max((version for instruction, version in _NEEDED if instruction in text), default=(0, 0))

    def raised(found: re.Match[bytes]) -> bytes:
        version = max(needed, (int(found[1]), int(found[2])))
        return b".version %d.%d" % version

    return _VERSION.sub(raised, text, count=1)
