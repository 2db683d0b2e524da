"""Executables for CUDA, as IREE stores them: a header, and a flatbuffer with kernels and their text.

The flatbuffer is that of IREE's `cuda_executable_def.fbs`: a table whose first field is a vector of kernels,
and its second one of modules, tables whose first field is their text, a string.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap

FORMAT = "cuda-nvptx-fb"
"""IREE's name of such executables."""

_MAGIC = b"CDA1"
_VERSION = bytes(4)
_HEADER_BYTES = 64
_SIZE_AT = 8
"""Where in the header the size of the flatbuffer is, in 8 bytes."""
_KERNELS, _MODULES, _TEXT = 0, 1, 0
"""Fields of an executable and of a module."""
_MODULE, _NAME, _THREADS, _SHARED_BYTES = 0, 1, 2, 3
"""Fields of a kernel."""
_ALIGNMENT = 16
_WORD_BYTES = 4


class NoTextError(ValueError):
    """Bytes that are no executable for CUDA with text."""


@dataclass(frozen=True)
class Image:
    """What a driver loads: the text of kernels, or machine code."""

    reference: int
    """Where the executable says how far behind it the length of the image is."""
    content: bytes


@dataclass(frozen=True)
class Kernel:
    """A kernel of an executable: its name, threads of a workgroup in x, y and z, and bytes of shared memory.

    Shared memory is what a launch has to ask for; `module` is the number of the image that the kernel is in.
    """

    name: str
    module: int
    threads: tuple[int, int, int]
    shared_bytes: int


def executables(program: bytes | mmap) -> Iterator[bytes]:
    """Those for CUDA in a compiled program."""
    place = program.find(_MAGIC + _VERSION)
    while place >= 0:
        (size,) = struct.unpack_from("<Q", program, place + _SIZE_AT)
        begin = place + _HEADER_BYTES
        identifier = begin + _WORD_BYTES
        if begin + size <= len(program) and program[identifier : identifier + len(_MAGIC)] == _MAGIC:
            yield program[place : begin + size]
        place = program.find(_MAGIC + _VERSION, place + 1)


def kernels(executable: bytes) -> tuple[Kernel, ...]:
    """Those of an executable. Raises `NoTextError` where it isn't one."""
    try:
        root = _target(executable, _HEADER_BYTES)
        return tuple(
            _kernel(executable, table) for table in _tables(executable, _field(executable, root, _KERNELS))
        )
    except struct.error:
        raise NoTextError("an executable has no kernels where it says") from None


def images(executable: bytes) -> tuple[Image, ...]:
    """Those of all modules. Raises `NoTextError` where there are none."""
    if not executable.startswith(_MAGIC):
        raise NoTextError("an executable has no text")
    try:
        root = _target(executable, _HEADER_BYTES)
        tables = _tables(executable, _field(executable, root, _MODULES))
        found = tuple(_image(executable, _field(executable, table, _TEXT)) for table in tables)
    except struct.error:
        raise NoTextError("an executable has no text where it says") from None
    if not found:
        raise NoTextError("an executable has no text")
    return found


def with_content(executable: bytes, image: Image, content: bytes) -> bytes:
    """`executable` with other `content` of one of its images: in the place of the old, or behind all else.

    References to other images, and to others behind them, stay valid.
    """
    place = _target(executable, image.reference)
    begin, end = place + _WORD_BYTES, place + _WORD_BYTES + len(image.content)
    buffer = bytearray(executable)
    buffer[begin:end] = bytes(len(image.content))
    if len(content) > len(image.content):
        buffer += bytes(-(len(buffer) + _WORD_BYTES) % _ALIGNMENT)
        place = len(buffer)
        # A string ends with a zero, and a flatbuffer with a whole word.
        buffer += bytes(_WORD_BYTES + len(content) + 1)
        buffer += bytes(-len(buffer) % _ALIGNMENT)
    struct.pack_into("<I", buffer, image.reference, place - image.reference)
    struct.pack_into(f"<I{len(content)}s", buffer, place, len(content), content)
    struct.pack_into("<Q", buffer, _SIZE_AT, len(buffer) - _HEADER_BYTES)
    return bytes(buffer)


def _kernel(executable: bytes, table: int) -> Kernel:
    name = _target(executable, _field(executable, table, _NAME))
    begin = name + _WORD_BYTES
    return Kernel(
        executable[begin : begin + _word(executable, name)].decode(),
        _number(executable, table, _MODULE),
        struct.unpack_from("<3I", executable, _field(executable, table, _THREADS)),
        _number(executable, table, _SHARED_BYTES),
    )


def _image(executable: bytes, reference: int) -> Image:
    place = _target(executable, reference)
    begin, length = place + _WORD_BYTES, _word(executable, place)
    if begin + length > len(executable):
        raise NoTextError("an executable's text goes on behind its end")
    return Image(reference, executable[begin : begin + length])


def _tables(executable: bytes, reference: int) -> list[int]:
    """Where the tables of a vector are."""
    vector = _target(executable, reference)
    return [
        _target(executable, vector + _WORD_BYTES * (1 + number))
        for number in range(_word(executable, vector))
    ]


def _number(executable: bytes, table: int, number: int) -> int:
    """A field of a table that is a number: 0 where it isn't there."""
    offset = _offset(executable, table, number)
    return _word(executable, table + offset) if offset else 0


def _word(executable: bytes, place: int) -> int:
    (word,) = struct.unpack_from("<I", executable, place)
    return int(word)


def _target(executable: bytes, reference: int) -> int:
    """What a reference at a place refers to."""
    return reference + _word(executable, reference)


def _field(executable: bytes, table: int, number: int) -> int:
    """Where a field of a table is. Raises `NoTextError` for one that isn't there."""
    offset = _offset(executable, table, number)
    if offset == 0:
        raise NoTextError("an executable has no text")
    return table + offset


def _offset(executable: bytes, table: int, number: int) -> int:
    """Where in a table a field of it is; 0 for one that isn't there."""
    (back,) = struct.unpack_from("<i", executable, table)
    description = table - back
    (size,) = struct.unpack_from("<H", executable, description)
    at = 4 + 2 * number
    (offset,) = struct.unpack_from("<H", executable, description + at) if at < size else (0,)
    return int(offset)
