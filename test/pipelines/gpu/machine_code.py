"""What NVIDIA's assembler made of kernels."""

from __future__ import annotations

import struct


def opcodes(image: bytes) -> list[list[int]]:
    """Of each kernel of machine code those of its instructions, 16 bytes each; nothing of text."""
    if image[:4] != b"\x7fELF":
        return []
    (table,), (size, count, names) = (
        struct.unpack_from("<Q", image, 0x28),
        struct.unpack_from("<3H", image, 0x3A),
    )
    sections = [struct.unpack_from("<2I4Q", image, table + size * number) for number in range(count)]
    of_names = sections[names][4]
    kernels_of_image = (
        image[begin : begin + length]
        for name, _, _, _, begin, length in sections
        if image.startswith(b".text.", of_names + name)
    )
    return [
        [instruction & 0xFFF for instruction, _ in struct.iter_unpack("<2Q", code)]
        for code in kernels_of_image
    ]
