"""The blocks that IREE's own code has of a product of pixels and channels on RDNA, as IREE 3.13 chooses them.

By ROCm it is bound by the first cache, which threads read all operands from, by Vulkan by shared memory.
`benchmarks.amd --stock` shows both.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd


@dataclass(frozen=True)
class IreeBlock:
    """Of a workgroup."""

    rows: int
    columns: int
    threads: int
    bound: float
    """The part of the peak rate that its loop could reach."""
    awaited_terms: int | None = None
    """Of a sum, in a step whose operands are loaded when it begins; None where they are loaded ahead."""


_OF_A_PIXEL = IreeBlock(1, 128, 32, 0.20, awaited_terms=4)
_WIDE, _SMALL = IreeBlock(32, 128, 256, 0.24, awaited_terms=32), IreeBlock(8, 32, 64, 0.20, awaited_terms=32)
_TALL = IreeBlock(128, 64, 128, 0.78, awaited_terms=8)
_VULKAN_THREADS, _VULKAN_ROWS, _VULKAN_COLUMNS, _VULKAN_TERMS = 128, 8, 4, 16
"""By Vulkan: of a workgroup, the sums of a thread, and those of a step, at most."""
_LANES, _LOADING_THREADS = 32, 64
"""Of workgroups that add up the parts of one sum, and those that have a step's operands in shared memory."""


def block_by_rocm(rows: int, columns: int, terms: int) -> IreeBlock:
    """The first whose sizes and step divide a product's, 32 x 128 where none does.

    Threads have 1 x 16 sums, for which they load 17 numbers from the first cache, 8 x 8, or 1 x 4.
    """
    if rows == 1:
        return _OF_A_PIXEL
    sizes = rows, columns, terms
    for block in (_WIDE, _TALL, _SMALL):
        steps = block.rows, block.columns, block.awaited_terms
        if all(step and size % step == 0 for size, step in zip(sizes, steps, strict=True)):
            return block
    return _WIDE


def block_by_vulkan(rows: int, columns: int, terms: int, *, greatest: float, loaded: float) -> IreeBlock:
    """Threads have four columns, and so many rows, eight at most, that blocks divide the sizes.

    Their bound is `loaded` of the sums that they have for each number that they load, `greatest` at most.
    """

    def bound(of_rows: int, of_columns: int) -> float:
        return min(greatest, loaded * of_rows * of_columns / (of_rows + of_columns))

    if rows == 1 and terms % _LANES == 0:
        return IreeBlock(1, 1, _LANES, bound(1, 1), awaited_terms=terms)
    if rows == 1 or columns % _VULKAN_COLUMNS:
        of_columns = _VULKAN_COLUMNS if rows == 1 else 1
        across = _LANES if rows == 1 else 2
        down = _LANES // across
        return IreeBlock(down, across * of_columns, _LANES, bound(1, of_columns), awaited_terms=4)
    block_columns = gcd(columns, 64)
    across = block_columns // _VULKAN_COLUMNS
    down = gcd(rows, _VULKAN_THREADS // across)
    of_rows = next(each for each in range(_VULKAN_ROWS, 0, -1) if rows // down % each == 0)
    threads = across * down
    awaited = None if threads >= _LOADING_THREADS else _VULKAN_TERMS
    return IreeBlock(down * of_rows, block_columns, threads, bound(of_rows, _VULKAN_COLUMNS), awaited)
