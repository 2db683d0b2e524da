"""What the threads of a warp tell each other."""

from __future__ import annotations

from collections.abc import Callable

from iree.winograd.dialect.bindings import arith, gpu, ir
from iree.winograd.pipelines.emission.index import Index

from .matrix_unit import WARP_THREADS


def over_threads(
    share: ir.Value,
    threads: int,
    combine: Callable[[ir.Value, ir.Value], ir.Value],
    *,
    nearest: int = 1,
) -> ir.Value:
    """What the shares of so many neighbours of a warp, a power of two, are combined to; each has it then.

    With `nearest`, a power of two, those that are as far from each other or a multiple of it.
    """
    offset = nearest
    while offset < threads:
        distance, width = (
            arith.constant(ir.IntegerType.get_signless(32), each) for each in (offset, WARP_THREADS)
        )
        share = combine(share, gpu.shuffle(share, distance, width, gpu.ShuffleMode.XOR)[0])
        offset *= 2
    return share


def of_first_thread(index: Index) -> Index:
    """What the first thread of the warp has, for an index that is less than 2^31.

    Of what all of its threads have alike: NVIDIA's assembler only knows then that they do, and keeps what
    follows from it in registers of the warp, as matrix units want their descriptors.
    """
    if index.known is not None:
        return index
    word = ir.IntegerType.get_signless(32)
    first, width = (arith.constant(word, each) for each in (0, WARP_THREADS))
    number = arith.index_cast(word, index.value)
    told = gpu.shuffle(number, first, width, gpu.ShuffleMode.IDX)[0]
    return Index(arith.index_castui(ir.IndexType.get(), told))
