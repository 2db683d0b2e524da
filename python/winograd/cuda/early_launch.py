"""Kernels that are launched before those ahead of them have ended: programmatic dependent launch.

A kernel that depends on another is launched when that has ended, its memory is written back, and the GPU has
turned to the next launch; or, if it waits for these itself, when the last workgroups of the other leave (CUDA
C++ Programming Guide, "Programmatic Dependent Launch and Synchronization"): five networks of one image took
an H200 up to 8 % less time so. Where the other asks for it (`griddepcontrol.launch_dependents`) it is
launched when these begin. Its own then lie where there is room, not where they would be alone: ConvNeXt-T
and Swin-T took 15 % longer. So no kernel asks.

What a kernel does first comes before it waits if it reads and writes no memory: it finds addresses, and asks
for its filters to be brought to the second cache. Kernels that say where they wait
(`pipelines/gpu/device/early_launch.py`) read constants before, too.

LLVM loads what a kernel only reads by `ld.global.nc`. It is for memory that nobody writes while the kernel
runs (CUDA C++ Programming Guide, "Read-Only Data Cache Load Function"), and PTX's memory consistency model
leaves it out, as it does textures ("Scope and applicability of the model"). But the kernel before writes when
this one has begun. That the writes are seen behind `griddepcontrol.wait` is promised of other loads only:
kernels that wait have these.
"""

from __future__ import annotations

import re

from iree.winograd.pipelines.problems.wait_place import WAIT_PLACE

MARKER = "winograd_waits"
"""A variable of modules whose kernels all wait for those that they depend on."""

_LEAST_ARCHITECTURE = 90
_TARGET = re.compile(rb"^\.target sm_(\d+).*\n", re.MULTILINE)
_ADDRESS_SIZE = re.compile(rb"^\.address_size .*\n", re.MULTILINE)
_ENTRY = re.compile(rb"^[^/\n]*\.entry\b", re.MULTILINE)
_BODY = re.compile(rb"^(?:\.visible |\.weak )?\.entry [^{]*\{\n", re.MULTILINE)
_COMPUTING = b"|".join(
    b"add and bfe cvt cvta div lop3 mad max min mov mul mul24 neg not or".split()
    + b"prmt rem selp setp shf shl shr sub xor".split()
)
_HARMLESS = re.compile(
    rb"\t\.(?:reg|local|shared|loc)\b.*\n"
    rb"|\t(?:ld\.param|prefetch\.global|%s)\.[^;\n]*;\n"
    rb"|\s*//.*\n"
    rb"|\n" % _COMPUTING
)
"""A line that reads and writes no memory, and that the next one is behind."""
_NON_COHERENT, _COHERENT = b"\tld.global.nc.", b"\tld.global."
_OWN_PLACE = f"\t{WAIT_PLACE}\n".encode()
_VARIABLE = f".visible .global .align 4 .u32 {MARKER} = 1;\n".encode()
_WAIT = b"\tgriddepcontrol.wait;\n"


def with_waits(text: bytes) -> bytes:
    """The PTX of a module whose kernels wait for those that they depend on before they read or write memory.

    They load what these may have written by loads that see it.

    `text` as it is where its GPU has no such instructions, or not all kernels in it are found.
    """
    target, bodies = _TARGET.search(text), list(_BODY.finditer(text))
    if target is None or int(target[1]) < _LEAST_ARCHITECTURE or len(bodies) != len(_ENTRY.findall(text)):
        return text
    parts: list[bytes] = []
    done = 0
    ends = [*(each.start() for each in bodies[1:]), len(text)]
    for body, end in zip(bodies, ends, strict=True):
        place = _wait_place(text, body.end(), end)
        parts += text[done:place], _WAIT
        done = place
    waiting = b"".join([*parts, text[done:]]).replace(_NON_COHERENT, _COHERENT)
    marked, count = _ADDRESS_SIZE.subn(lambda found: found[0] + _VARIABLE, waiting, count=1)
    return marked if count else text


def _wait_place(text: bytes, begin: int, end: int) -> int:
    """Where a kernel waits whose body is from `begin` to `end`: where it says, or as late as it may."""
    own = text.find(_OWN_PLACE, begin, end)
    if own >= 0:
        return own
    place, line = begin, _HARMLESS.match(text, begin)
    while line is not None:
        place = line.end()
        line = _HARMLESS.match(text, place)
    return place
