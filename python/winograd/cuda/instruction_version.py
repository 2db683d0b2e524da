"""The version of PTX that a text says it is of.

IREE 3.13 has LLVM write 8.0 for sm_90a, and passes it no other. What LLVM doesn't know of it is written as it
stands in kernels, and assemblers refuse what a text's version doesn't have.
"""

from __future__ import annotations

import re

_VERSION = re.compile(rb"^\.version (\d+)\.(\d+)$", re.MULTILINE)
_NEEDED = ((b"tensormap.replace", (8, 6)),)
"""Versions by instructions. This one is in 8.3, but assemblers before 8.6, that of CUDA 12.7, take a stride
for a count of 16 bytes, which compilers such as Triton have a way around for."""


def with_version(text: bytes) -> bytes:
    """The PTX of a module, of the version that has all of its instructions, if it says an earlier one."""
    needed = max((version for instruction, version in _NEEDED if instruction in text), default=(0, 0))

    def raised(found: re.Match[bytes]) -> bytes:
        version = max(needed, (int(found[1]), int(found[2])))
        return b".version %d.%d" % version

    return _VERSION.sub(raised, text, count=1)
