"""The register-blocked product of a block of transformed tiles and a packed panel of transformed filters."""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.vocabulary import (
    Buffer,
    Index,
    broadcast,
    loop,
    loop_carried,
    multiply_add,
    splat,
)

from .schedules import WinogradSchedule
from .target import CpuTarget


def emit_products(
    tiles: Buffer,
    filters: Buffer,
    products: Buffer,
    *,
    first_tile: Index,
    first_column: Index,
    filter_block: Index,
    reduction: int,
    schedule: WinogradSchedule,
    target: CpuTarget,
) -> None:
    """products[a, t, k] = sum over c of tiles[first_tile + t, a, first_column + c] * filters[block, a, c, k].

    `tiles` is tile_block x A x (groups * reduction, padded), `filters` is blocks x A x reduction x
    channel_block and `products` is A x tile_block x channel_block.
    """
    with (
        loop(tiles.extents[1], name="a") as a,
        loop(schedule.tile_block, schedule.register_tiles, "t") as t,
    ):
        tile_offset = tiles.offset([first_tile + t, a, first_column])
        product_offset = products.offset([a, t, 0])
        for first, extent in _reduction_blocks(reduction, schedule.reduction_block):
            sums = _register_block(
                tiles,
                filters,
                tile_offset + first,
                filters.offset([filter_block, a, first, 0]),
                extent,
                schedule,
                target,
            )
            _accumulate(products, product_offset, sums, schedule, first_block=first == 0)


def _reduction_blocks(reduction: int, block: int) -> list[tuple[int, int]]:
    return [(first, min(block, reduction - first)) for first in range(0, reduction, block)]


def _register_block(
    tiles: Buffer,
    filters: Buffer,
    tile_offset: Index,
    filter_offset: Index,
    extent: int,
    schedule: WinogradSchedule,
    target: CpuTarget,
) -> list[ir.Value]:
    """Sums over `extent` channels, kept in registers: register_tiles rows of register_vectors vectors."""
    width = schedule.vector_width
    accumulators = schedule.register_tiles * schedule.register_vectors
    interleaved_sums = schedule.interleaved_sums if extent % schedule.interleaved_sums == 0 else 1

    def add_channel(c: Index, sums: list[ir.Value]) -> list[ir.Value]:
        row = filter_offset + c * schedule.channel_block
        filter_vectors = [filters.load(row + v * width, width) for v in range(schedule.register_vectors)]
        for v in range(schedule.register_vectors):
            filters.prefetch(row + (v * width + schedule.filter_prefetch * schedule.channel_block))
        position = tile_offset + c
        updated = []
        for i in range(schedule.register_tiles):
            value = broadcast(tiles.load_scalar(position + i * tiles.stride(0)), width)
            for v, filter_vector in enumerate(filter_vectors):
                total = sums[i * schedule.register_vectors + v]
                updated.append(multiply_add(value, filter_vector, total, target.fused_multiply_add))
        return updated

    def step(c: Index, sums: list[ir.Value]) -> list[ir.Value]:
        return [
            updated
            for i in range(interleaved_sums)
            for updated in add_channel(c + i, sums[i * accumulators : (i + 1) * accumulators])
        ]

    zero = splat(0.0, width)
    sums = loop_carried(extent, interleaved_sums, [zero] * (interleaved_sums * accumulators), step, "c")
    total = sums[:accumulators]
    for first in range(accumulators, len(sums), accumulators):
        others = sums[first : first + accumulators]
        total = [arith.addf(one, other) for one, other in zip(total, others, strict=True)]
    return total


def _accumulate(
    products: Buffer, offset: Index, sums: list[ir.Value], schedule: WinogradSchedule, first_block: bool
) -> None:
    for position, value in enumerate(sums):
        i, v = divmod(position, schedule.register_vectors)
        target = offset + (i * products.stride(1) + v * schedule.vector_width)
        if not first_block:
            value = arith.addf(products.load(target, schedule.vector_width), value)
        products.store(value, target)
