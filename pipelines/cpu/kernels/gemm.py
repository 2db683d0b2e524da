"""The batched product of a block of transformed tiles and packed panels of transformed filters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.cpu.processor.product import CACHE_LINE_FLOATS, Panel, Rows
from iree.winograd.pipelines.cpu.processor.registers import emit_free_registers
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop, named
from iree.winograd.pipelines.emission.index import Index, IndexLike

from .reduction_runs import ReductionRuns


@dataclass(frozen=True)
class Ahead:
    """Elements of `buffer` from `first` on, so many for each input channel."""

    buffer: Buffer
    first: Index
    of_channel: int

    def emit(self, channel: Index) -> None:
        """Fetches those of a channel to L2."""
        for lane in range(0, self.of_channel, CACHE_LINE_FLOATS):
            self.buffer.prefetch(self.first + (channel * self.of_channel + lane), to_l2=True)


@dataclass(frozen=True)
class Fetched:
    """`count` elements of `buffer` from `first` on, which all products together fetch."""

    buffer: Buffer
    first: Index
    count: int

    def part(self, number: Index, parts: int, channels: int) -> Ahead:
        """One of so many parts, each of which multiplies `channels`."""
        of_channel = ceil_div(self.count, parts * channels)
        return Ahead(self.buffer, self.first + number * (channels * of_channel), of_channel)


def emit_products(
    tiles: Buffer,
    filters: Buffer,
    products: Buffer,
    *,
    first_tile: Index,
    first_column: Index,
    filter_block: Index,
    runs: Callable[[Index], ReductionRuns],
    schedule: WinogradSchedule,
    target: CpuTarget,
    tile_count: IndexLike,
    in_cache: bool = False,
    fetched: Fetched | None = None,
    beside: Callable[[Index], None] | None = None,
) -> None:
    """products[a, t, k] = sum over c of tiles[first_tile + t, a, first_column + c] * filters[block, a, c, k].

    `tiles` is tile_block x A x (groups * reduction, padded), `filters` is blocks x A x reduction x
    channel_block and `products` is A x tile_block x channel_block. Of the tiles only `tile_count` are
    multiplied, and a register block's that are beside them. `runs` are the columns c of an element, among
    those of the reduction. Filters that are `in_cache` are some of the channels: not these are fetched ahead,
    but what is `fetched`, and their products are added to those of others. `beside` emits what else is done
    for each element of a tile.
    """
    product = schedule.product
    with loop(tiles.extents[1], name="a") as a:
        if beside is not None:
            beside(a)
        summed, reduction = runs(a), filters.extents[2]
        with loop(tile_count, product.rows, "t") as t:
            with named("tile_offset"):
                tile_offset = tiles.offset([first_tile + t, a, first_column])
            with named("product_offset"):
                product_offset = products.offset([a, t, 0])

            panel_origin = filters.offset([filter_block, a, 0, 0])
            register_blocks = schedule.tile_block // product.rows
            if in_cache:
                step, steps = (
                    a * register_blocks + t // product.rows,
                    products.known_extents[0] * register_blocks,
                )
                ahead = None if fetched is None else fetched.part(step, steps, summed.multiple)
            else:
                filters_ahead = product.filters_ahead(register_blocks)
                first_ahead = (
                    panel_origin + (product.channels + t // product.rows * filters_ahead) * reduction
                )
                ahead = Ahead(filters, first_ahead, filters_ahead)

            def sums_of_block(first: Index, extent: Index) -> list[ir.Value]:
                def prefetch(c: Index) -> None:
                    if ahead is not None:
                        ahead.emit(first + c)

                rows = Rows(tiles, tile_offset + first, tiles.stride(0))
                panel = Panel(filters, panel_origin + first * product.channels)
                return product.add(product.zeros(products.element), rows, panel, extent, target, prefetch)

            def add_in_memory(first: Index, sums: list[ir.Value]) -> None:
                is_first = first.known == 0 and not in_cache
                _accumulate(products, product_offset, sums, schedule, first_block=is_first)
                emit_free_registers(target)

            if schedule.sum_registers == 1:
                _for_each_block(
                    summed,
                    schedule.reduction_block,
                    lambda first, extent: add_in_memory(first, sums_of_block(first, extent)),
                )
            else:
                add_in_memory(Index(0), _totals(summed, schedule.reduction_block, sums_of_block))


def _for_each_block(runs: ReductionRuns, size: int, body: Callable[[Index, Index], None]) -> None:
    """Emits the first block, which may be the only one, and all others."""

    def further_block(first: Index, extent: Index, values: list[ir.Value]) -> list[ir.Value]:
        body(first, extent)
        return values

    body(Index(0), runs.first_extent(size))
    runs.further_blocks(size, [], further_block)


def _totals(
    runs: ReductionRuns, size: int, sums_of_block: Callable[[Index, Index], list[ir.Value]]
) -> list[ir.Value]:
    """The sums of all blocks, added up in registers."""

    def add_block(first: Index, extent: Index, totals: list[ir.Value]) -> list[ir.Value]:
        sums = sums_of_block(first, extent)
        with named("total"):
            return [arith.addf(total, block) for total, block in zip(totals, sums, strict=True)]

    return runs.further_blocks(size, sums_of_block(Index(0), runs.first_extent(size)), add_block)


def _accumulate(
    products: Buffer, offset: Index, sums: list[ir.Value], schedule: WinogradSchedule, first_block: bool
) -> None:
    for position, value in enumerate(sums):
        i, v = divmod(position, schedule.register_vectors)
        target = offset + (i * products.stride(1) + v * schedule.vector_width)
        if not first_block:
            with named("product"):
                value = arith.addf(products.load(target, schedule.vector_width), value)
        products.store(value, target)
