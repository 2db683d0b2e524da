"""The schedules of Winograd's kernel from which the default one is taken: each division of tiles and channels
among workgroups with the register blocks whose products take least."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import inf, lcm
from typing import NamedTuple

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.algebra.largest_divisor import largest_divisor
from iree.winograd.pipelines.cpu.processor.product import RegisterBlock
from iree.winograd.pipelines.cpu.processor.target import ROW_PADDING, CpuTarget
from iree.winograd.pipelines.cpu.schedules.channel_blocks import ChannelBlocks
from iree.winograd.pipelines.cpu.schedules.fit import waiting_vectors
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from iree.winograd.pipelines.emission.vectors import vector_width_for
from iree.winograd.pipelines.machines.model import CpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .product_cost import accumulating_seconds, has_short_vectors, register_block_seconds, tile_vectors
from .workgroups import channel_parts, powers_of_two, workgroup_counts

MAX_TILE_BLOCK = 64
MAX_FILTER_BLOCK = 64
"""Input channels whose filters a workgroup transforms at a time."""
MAX_FILTERED_TILE_BLOCK = 128
"""Tiles of such a workgroup: another one transforms the same filters."""
FILTERED_TILES = range(10, 17)
"""Tiles for which constant filters are transformed in each call: fewer multiply each too seldom, and with 20
their reading is hidden."""
FILTERED_L2_CACHES = 2
"""How many times as large as L2 they are, as they are, at least: others are read faster."""
TOTALLED_BLOCK = 16
"""Channels of a reduction block that is added to a total in registers."""
SHORT_BLOCK = 48
"""The most channels of a reduction block, of up to SHORT_REDUCTION, that is added to others in memory."""
LONG_BLOCK = 64
"""The most channels of such a block of more channels, or of one that has all."""
SHORT_REDUCTION = 512
"""Channels up to which a direct convolution's one sum is so accurate that ours has to be more so."""
SHARED_COST = 1.35
"""How many times as long products of few channels by all rows that registers hold take on several threads, as
measured: each panel of filters is read for a single register block, and tiles are divided less evenly."""
NARROW_COST = 1.1
"""How many times as long products by a single vector of channels, with totals in registers, may be predicted
to take: they round less, and leave more of L2 to what isn't predicted with them."""


def tile_schedules(
    shape: ConvolutionShape, target: CpuTarget, machine: CpuMachine, threads: int
) -> tuple[WinogradSchedule, ...]:
    """The one of each division, for so many threads of `machine`."""
    return _divided(_tiled(shape), target, machine, threads)


def may_transform_filters(shape: ConvolutionShape, target: CpuTarget) -> bool:
    """Whether workgroups may transform constant filters: large ones of few tiles."""
    return (
        shape.tiles is not None
        and not shape.unknown_sizes
        and not shape.runtime_filter
        and shape.decomposition.view_count == 1
        and shape.tiles in FILTERED_TILES
        and shape.filter_bytes > shape.tap_bytes > FILTERED_L2_CACHES * target.l2_bytes
    )


def filter_schedules(
    shape: ConvolutionShape, target: CpuTarget, machine: CpuMachine, threads: int
) -> tuple[WinogradSchedule, ...]:
    """Those by which they do, where L2 holds all tiles beside: else these are read anew for each block."""
    if not may_transform_filters(shape, target):
        return ()
    tiled = _tiled(shape)._replace(transforms_filters=True, packs_taps=True)
    found = _divided(tiled, target, machine, threads)
    return tuple(each for each in found if each.transforms_filters and each.input_block is None)


class _Tiled(NamedTuple):
    """What the division of a convolution's tiles depends on: F(4x6) and F(6x4) are divided alike."""

    tiles: int | None
    transform_size: int
    reduction: int
    tile_products: int
    has_runs: bool
    """Whether some elements sum a part of the reduction."""
    groups: int
    group_inputs: int
    output_channels: int
    filter_bytes: int
    """Of an element, as are the next."""
    accumulator_bytes: int
    waiting_vectors: int
    """Of channels, in a workgroup's memory."""
    transforms_filters: bool
    """Whether workgroups may."""
    packs_taps: bool
    """Whether these filters are constants."""
    row_tiles: int
    """Of a channels-first output, where neighbours in a row share cache lines of each channel; else 1."""

    @property
    def group_outputs(self) -> int:
        return self.output_channels // self.groups

    @property
    def known_tiles(self) -> int:
        """Tiles to divide: of a batch known only at run time as many as a workgroup may have."""
        return MAX_TILE_BLOCK if self.tiles is None else self.tiles


def _tiled(shape: ConvolutionShape) -> _Tiled:
    return _Tiled(
        tiles=shape.tiles,
        transform_size=shape.transform_size,
        reduction=shape.reduction,
        tile_products=shape.tile_products,
        has_runs=shape.decomposition.contributing_views is not None,
        groups=shape.groups,
        group_inputs=shape.group_inputs,
        output_channels=shape.output_channels,
        filter_bytes=shape.element_types.domain_bytes,
        accumulator_bytes=shape.element_types.accumulator_bytes,
        waiting_vectors=waiting_vectors(shape),
        transforms_filters=shape.runtime_filter and shape.decomposition.view_count == 1,
        packs_taps=False,
        row_tiles=shape.tiles_per_image[-1] if shape.output_channels_first else 1,
    )


@cache
def _divided(
    shape: _Tiled, target: CpuTarget, machine: CpuMachine, threads: int
) -> tuple[WinogradSchedule, ...]:
    """The one of each division, several of which may come to the same."""
    products = _TileProducts(shape, target, machine)
    return tuple(dict.fromkeys(map(products.schedule, _divisions(shape, target, threads))))


@dataclass(frozen=True)
class _Division:
    """How tiles and output channels are divided among workgroups."""

    most_tiles: int
    """Of a workgroup."""
    register_vectors: int
    threads: int
    """That share the blocks of tiles."""
    workgroups: int
    """That there should be, by parts of the output channels where tiles are fewer blocks."""
    input_block: int | None = None
    filter_block: int | None = None
    multiple: int = 1
    """Of which a workgroup's tiles are one, where that many fit."""


class _TileBlock(NamedTuple):
    """The tiles of a workgroup in register blocks."""

    tiles: int
    register_tiles: int
    register_vectors: int
    sum_registers: int
    reduction_block: int
    blocks: int
    """That there are of all tiles."""
    channel_blocks: int
    register_blocks: int
    """Of a thread, for a block of channels: those of the rounds in which threads take blocks of tiles."""
    seconds: float
    """Of one of them, in proportion."""

    def splits(self, workgroups: int) -> int:
        """The parts of the output channels for so many workgroups."""
        return channel_parts(workgroups, self.blocks, self.channel_blocks)

    def product_seconds(self, workgroups: int) -> float:
        """Of a thread, in proportion."""
        channel_blocks = ceil_div(self.channel_blocks, self.splits(workgroups))
        return self.register_blocks * channel_blocks * self.seconds


@dataclass(frozen=True)
class _TileProducts:
    """The products of the tiles of `shape`, by plain numbers: of the many that are compared few are taken."""

    shape: _Tiled
    target: CpuTarget
    machine: CpuMachine
    known: dict[tuple[int, int, int, int | None, int, int], _TileBlock] = field(default_factory=dict)
    """Many divisions differ in their workgroups alone."""

    def schedule(self, division: _Division) -> WinogradSchedule:
        """The schedule whose products take least.

        Register blocks of a single vector leave totals the most tiles, and L2 to other data: their products
        are half as many. But each block of channels reads tiles anew, from far where a dispatch of their own
        transforms them, and more parts of the channels would each transform them. Of short vectors they load
        an element for each multiply-add.
        """
        vectors, workgroups = division.register_vectors, division.workgroups

        def seconds(block: _TileBlock) -> float:
            is_costly = block.sum_registers == 1 and self.shape.reduction <= LONG_BLOCK
            cost = SHARED_COST if is_costly and division.threads > 1 else 1.0
            return cost * block.product_seconds(workgroups)

        fastest = min((self._block(division, vectors, registers) for registers in (1, 2)), key=seconds)
        narrows = workgroups == 1 and division.input_block is None and not has_short_vectors(self.target)
        if vectors > 1 and narrows:
            narrow = self._block(division, 1, sum_registers=2)
            if seconds(narrow) <= NARROW_COST * seconds(fastest):
                fastest = narrow
        return WinogradSchedule(
            vector_width=self.width,
            tile_block=fastest.tiles,
            register_tiles=fastest.register_tiles,
            register_vectors=fastest.register_vectors,
            reduction_block=fastest.reduction_block,
            sum_registers=fastest.sum_registers,
            channel_splits=fastest.splits(workgroups),
            input_block=division.input_block,
            filter_block=division.filter_block,
        )

    @cached_property
    def width(self) -> int:
        """Lanes of a vector of channels."""
        return vector_width_for(self.shape.group_outputs, self.target.vector_width)

    def _block(self, division: _Division, register_vectors: int, sum_registers: int) -> _TileBlock:
        """The one whose register blocks read least."""
        most, multiple, threads = division.most_tiles, division.multiple, division.threads
        key = most, multiple, threads, division.filter_block, register_vectors, sum_registers
        if key not in self.known:
            self.known[key] = self._found_block(*key)
        return self.known[key]

    def _found_block(
        self,
        most: int,
        multiple: int,
        threads: int,
        filter_block: int | None,
        register_vectors: int,
        sum_registers: int,
    ) -> _TileBlock:
        shape, reduction, tiles = self.shape, self.shape.reduction, self.shape.known_tiles
        most_rows = RegisterBlock.most_rows(register_vectors, self.target, sum_registers)
        tile_block, register_tiles = _divide_tiles(tiles, most, multiple, most_rows, threads)
        reduction_block = TOTALLED_BLOCK if sum_registers == 2 else _block_in_memory(shape)
        if filter_block is not None:
            reduction_block = filter_block // ceil_div(filter_block, reduction_block)
        reduction_block = min(reduction, reduction_block)
        product = RegisterBlock(register_tiles, register_vectors, self.width, filter_prefetch=0)
        multiplying = (
            shape.tile_products
            / shape.transform_size
            * register_block_seconds(product, reduction, shape.filter_bytes, self.target, self.machine)
        )
        sums, summed_blocks = register_tiles * register_vectors, ceil_div(reduction, reduction_block)
        adding_up = accumulating_seconds(sums, summed_blocks, sum_registers, self.machine)
        rounds = ceil_div(tiles, tile_block * threads)
        return _TileBlock(
            tiles=tile_block,
            register_tiles=register_tiles,
            register_vectors=register_vectors,
            sum_registers=sum_registers,
            reduction_block=reduction_block,
            blocks=ceil_div(tiles, tile_block),
            channel_blocks=ChannelBlocks(shape.output_channels, shape.groups, product.channels).count,
            register_blocks=rounds * tile_block // register_tiles,
            seconds=multiplying + adding_up,
        )


def _block_in_memory(shape: _Tiled) -> int:
    """Channels of a reduction block that is added to others in memory: equal blocks round least.

    Blocks that divide the channels of a view end where runs do.
    """
    reduction = shape.reduction
    most = SHORT_BLOCK if LONG_BLOCK < reduction <= SHORT_REDUCTION else LONG_BLOCK
    dividing = largest_divisor(shape.group_inputs, most)
    return (
        dividing if shape.has_runs and 2 * dividing > most else ceil_div(reduction, ceil_div(reduction, most))
    )


def _divisions(shape: _Tiled, target: CpuTarget, threads: int) -> Iterator[_Division]:
    """Tiles alone, in blocks as small as L2 or the threads ask for, or channels as well.

    Of channels-first outputs several threads also take whole rows of tiles. Of workgroups that divide the
    channels of a block of tiles each transforms its input, or the input has a transform of its own, and a
    block has as many tiles as L2 holds products of.
    """
    width = vector_width_for(shape.group_outputs, target.vector_width)
    tiles = shape.known_tiles
    workgroups = workgroup_counts(threads)
    # A tile's row of inputs and of products, in f32; a workgroup's memory also holds tiles between passes.
    waiting = shape.waiting_vectors * target.vector_width
    available = target.workgroup_bytes // shape.accumulator_bytes - waiting
    input_row = shape.transform_size * (shape.groups * shape.reduction + ROW_PADDING)
    vectors = _register_vectors(shape.group_outputs, width, target)

    def most_tiles(width_in_vectors: int, own_inputs: int) -> int:
        product_row = shape.transform_size * width * width_in_vectors
        return min(MAX_TILE_BLOCK, available // (own_inputs + product_row))

    most = most_tiles(vectors, input_row)
    if most > 0:
        shares = {ceil_div(tiles, count) for count in workgroups} if shape.tiles is not None else set()
        for share in sorted({most, *(share for share in shares if share < most)}):
            yield _Division(share, vectors, threads, 1)
        if threads > 1:
            for rows in sorted(_whole_rows(shape, {most, *shares}, most)):
                yield _Division(rows, vectors, threads, 1, multiple=shape.row_tiles)
    if shape.tiles is None:
        return
    input_block = min(MAX_TILE_BLOCK, max(1, tiles // workgroups[-1]))
    parts = ChannelBlocks(shape.output_channels, shape.groups, vectors * width).count
    # Narrower blocks of channels are more parts of them.
    for width_in_vectors in [vectors] if parts >= threads else sorted({vectors, 1}, reverse=True):
        most = most_tiles(width_in_vectors, input_row)
        for blocks in powers_of_two(threads // 2):
            share = ceil_div(tiles, blocks)
            if share <= most:
                for count in workgroups[:2]:
                    yield _Division(share, width_in_vectors, blocks, count)
                    for rows in _whole_rows(shape, {share}, most):
                        yield _Division(rows, width_in_vectors, blocks, count, multiple=shape.row_tiles)
        most = most_tiles(width_in_vectors, 0)
        if most > 0:
            for count in workgroups:
                yield _Division(most, width_in_vectors, 1, count, input_block)
    if shape.transforms_filters:
        block = largest_divisor(shape.group_inputs, MAX_FILTER_BLOCK)
        panel_row = (block + 1) * vectors * width
        most = available // shape.transform_size - panel_row
        most = min(MAX_FILTERED_TILE_BLOCK, most // (vectors * width))
        if most > 0:
            for count in workgroups:
                yield _Division(most, vectors, 1, count, input_block, block)
        row = input_row + shape.transform_size * vectors * width
        if shape.packs_taps and tiles <= (available - shape.transform_size * panel_row) // row:
            for count in workgroups:
                yield _Division(tiles, vectors, 1, count, None, block)


def _whole_rows(shape: _Tiled, shares: set[int], most: int) -> set[int]:
    """The shares of tiles as whole rows of them, as many as `most` tiles have; none of channels last."""
    row = shape.row_tiles
    return set() if row == 1 else {min(ceil_div(share, row), most // row) * row for share in shares} - {0}


def _register_vectors(group_outputs: int, width: int, target: CpuTarget) -> int:
    """The best number of vectors of output channels, or another one where these overlap less."""
    most = group_outputs // width
    fitting = [vectors for vectors in tile_vectors(target) if vectors <= most] or [most]
    return min(fitting, key=lambda vectors: ceil_div(group_outputs, vectors * width) * vectors)


@cache
def _divide_tiles(
    tiles: int, most: int, multiple: int, most_register_tiles: int, threads: int
) -> tuple[int, int]:
    """Tiles of a workgroup, at most `most`, and of a register block, whose multiple they are.

    They are another `multiple`, too, if any such block is small enough. They are those that read least
    vectors for every channel: one per tile, also past the last and of threads without a block, and filters
    per register block. Of several those that compute least, and then the most tiles, which read filters
    least often.
    """

    most_register_tiles = min(most_register_tiles, most, tiles)
    share = ceil_div(tiles, threads)
    least: tuple[float, int, int] = (inf, 0, 0)
    division = 0, 0
    for register_tiles in range(most_register_tiles, max(1, most_register_tiles // 2) - 1, -1):
        step = lcm(register_tiles, multiple)
        fewest = ceil_div(share, step) * step
        # No division into such register blocks computes fewer.
        if fewest * (1 + 1 / register_tiles) > least[0]:
            continue
        for tile_block in range(most // step * step, 0, -step):
            computed = ceil_div(tiles, tile_block * threads) * tile_block
            reads = computed * (1 + 1 / register_tiles), computed, -tile_block
            if reads < least:
                least, division = reads, (tile_block, register_tiles)
            if computed == fewest:
                break
    if division == (0, 0):
        return _divide_tiles(tiles, most, 1, most_register_tiles, threads)
    return division
