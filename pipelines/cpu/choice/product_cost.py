"""What a product of matrices takes on a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from iree.winograd.pipelines.cpu.processor.product import Product, RegisterBlock
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.machines.model import CpuMachine

from .rates import (
    ACCUMULATE_CYCLES,
    CACHED_FILTERS,
    FETCHED_LINES,
    FIRST_CACHE_FILTERS,
    MEMORY_FILTERS,
    PIXEL_CYCLES,
    TOTAL_CYCLES,
    VECTOR_CYCLES,
)
from .workers import Workers

_TILE_VECTORS, _SHORT_TILE_VECTORS = (2, 3), (4, 3, 2)
_SHORT_LANES, _MANY_REGISTERS = 4, 32


def channel_seconds(product: Product, target: CpuTarget, machine: CpuMachine) -> float:
    """Seconds that a block of sums takes for one of the products that it sums."""
    work = product.channel_work
    return max(
        work.multiply_adds * multiply_add_seconds(target, machine),
        max(work.loads / machine.loads_per_cycle, machine.multiply_add_latency) / machine.clock,
    )


def accumulating_seconds(sums: int, blocks: int, sum_registers: int, machine: CpuMachine) -> float:
    """Seconds that so many vectors of sums take to be added up, after each of the reduction's `blocks`."""
    in_memory = blocks if sum_registers == 1 else 1
    cycles = in_memory * ACCUMULATE_CYCLES + (blocks - in_memory) * TOTAL_CYCLES
    return sums * cycles / machine.clock


def register_block_seconds(
    block: RegisterBlock, reduction: int, filter_bytes: int, target: CpuTarget, machine: CpuMachine
) -> float:
    """Seconds that a kernel takes for a channel of `reduction` in a register block, fetching ahead included.

    Filters of a block of channels that don't stay in the first cache come from the second one.
    """
    loads = block.channel_work.loads + block.vectors + FETCHED_LINES
    panel = filter_bytes * reduction * block.channels
    read = 0.0
    if panel > FIRST_CACHE_FILTERS * machine.caches[0].size:
        bandwidth = CACHED_FILTERS * machine.caches[1].bandwidth
        read = filter_bytes * block.channels / bandwidth
    loaded = max(loads / machine.loads_per_cycle, machine.multiply_add_latency) / machine.clock
    multiplied = block.channel_work.multiply_adds * multiply_add_seconds(target, machine)
    beside = block.rows * PIXEL_CYCLES + block.vectors * VECTOR_CYCLES
    return max(multiplied, loaded, read) + beside / machine.clock


def has_short_vectors(target: CpuTarget) -> bool:
    """Whether vectors are short, and registers for them many, as NEON's."""
    return target.vector_width == _SHORT_LANES and target.vector_registers >= _MANY_REGISTERS


def tile_vectors(target: CpuTarget) -> Sequence[int]:
    """Vectors of channels in register blocks of tiles that are chosen without measurement, the best first.

    Of many short vectors a block of more channels loads less for each multiply-add.
    """
    return _SHORT_TILE_VECTORS if has_short_vectors(target) else _TILE_VECTORS


@cache
def least_vector_seconds(
    lanes: int, reduction: int, filter_bytes: int, target: CpuTarget, machine: CpuMachine
) -> float:
    """Of each vector of sums of a register block of tiles, in the one that takes least for them.

    More rows take less for each, whatever they wait for.
    """
    seconds = []
    for vectors in range(1, max(tile_vectors(target)) + 1):
        block = RegisterBlock(RegisterBlock.most_rows(vectors, target), vectors, lanes, filter_prefetch=0)
        per_channel = register_block_seconds(block, reduction, filter_bytes, target, machine)
        seconds.append(per_channel / (block.rows * vectors))
    return min(seconds)


def multiply_add_seconds(target: CpuTarget, machine: CpuMachine) -> float:
    """From the start of one multiply-add of whole vectors to that of the next."""
    return 2 * target.vector_width / machine.flops


def filter_seconds(size: int, parts: int, workers: Workers) -> float:
    """Seconds that a thread reads filters for, `parts` parts of `size` bytes.

    All threads together read them once from memory: the filters of a whole network don't stay in any cache
    from one run to the next. What others have read comes from the cache that they share, and what a thread
    has read itself, from its own.
    """
    machine, whole = workers.machine, parts * size
    distinct = min(workers.share, parts) * size
    shared = max(0.0, distinct - whole / workers.count)
    own = workers.share * size - distinct
    return (
        whole / (MEMORY_FILTERS * workers.memory_bandwidth)
        + shared / (MEMORY_FILTERS * workers.shared_bandwidth(whole))
        + own / _reached(machine.bandwidth(size), machine)
    )


def _reached(bandwidth: float, machine: CpuMachine) -> float:
    """What the reading of filters reaches of a bandwidth."""
    return bandwidth * (MEMORY_FILTERS if bandwidth <= machine.memory_bandwidth else CACHED_FILTERS)
