"""The rules that say, without measuring, how a CPU computes a convolution."""

from __future__ import annotations

from iree.winograd.pipelines.emission.vocabulary import vector_width_for
from iree.winograd.pipelines.machines.units import MEBIBYTE
from iree.winograd.pipelines.specification.shape import ConvolutionShape

from .kernels import CpuSchedule, needed_schedule
from .product import RegisterBlock
from .schedule_check import misfit
from .schedules import (
    ROW_PADDING,
    DepthwiseSchedule,
    DirectSchedule,
    WinogradSchedule,
    direct_workgroup_bytes,
)
from .target import CpuTarget

MAX_TILE_BLOCK = 64
INTERLEAVED_BLOCK = 32
"""Channels of a reduction block of interleaved sums."""
SHORT_BLOCK = 48
"""Channels of a reduction block of up to SHORT_REDUCTION channels without interleaved sums."""
LONG_BLOCK = 64
"""Channels of a reduction block of more channels."""
SHORT_REDUCTION = 512
"""Channels up to which a direct convolution's one sum is so accurate that ours has to be more so."""
INTERLEAVING_COST = 1.1
"""How many times the vectors may be read for interleaved sums: fewer reduction blocks save as much."""
FEW_OUTPUTS = 48
"""Output channels up to which writing and reading transformed inputs takes as long as the products."""
MAX_PIXEL_BLOCK = 112
WORKGROUPS_PER_THREAD = 2
"""Of a dispatch that several threads share: they don't start at the same time."""
WORKGROUP_PRODUCTS = 1 << 21
"""Multiplications below which a workgroup isn't worth waking a thread for, about 15 microseconds."""
DEPTHWISE_COST = 2
"""How many times as long a multiplication takes in a depthwise convolution, which waits for caches."""
MAX_DEPTHWISE_PIXELS = 16
MIN_DEPTHWISE_PIXELS = 8
"""Sums of a depthwise convolution that hide the latency of multiply-adds, whatever it takes in registers."""
VECTORS_PER_PASS = 4
"""Vectors of channels of a pass over all rows: neighbouring cache lines, yet few rows of them fill L1."""
REREAD_FILTERS = MEBIBYTE
"""Bytes of filters up to which each row of outputs may read them all: rows give more workgroups then."""
REREAD_TRANSFORMED_FILTERS = 5 * MEBIBYTE
"""Bytes of transformed filters up to which threads had rather read them all than share transformed tiles."""
MIN_OWN_TILES = 9
"""Tiles of a thread for which that pays."""
STREAMED_FILTERS = 16 * MEBIBYTE
"""Bytes of transformed filters from which on they come from memory rather than from a shared cache."""


def default_schedule(shape: ConvolutionShape, target: CpuTarget, threads: int) -> CpuSchedule:
    """The schedule that needs no measurement: for the direct kernels where tiles are single elements.

    It gives work to so many threads.

    Raises ValueError where none fits: of a batch known only at run time a workgroup transforms all channels.
    """
    needed = needed_schedule(shape, target)
    schedule: CpuSchedule
    if needed is WinogradSchedule:
        schedule = default_winograd_schedule(shape, target, threads)
    elif needed is DepthwiseSchedule:
        schedule = default_depthwise_schedule(shape, target, threads)
    else:
        schedule = default_direct_schedule(shape, target, threads)
    if reason := misfit(schedule, shape, target):
        raise ValueError(reason)
    return schedule


def default_winograd_schedule(shape: ConvolutionShape, target: CpuTarget, threads: int) -> WinogradSchedule:
    """The Winograd schedule for so many threads that needs no measurement.

    Registers full; as many tiles as L2 holds, but so many that the multiplications of a block outlast the
    reading of its filters: one register block of tiles for filters in a shared cache, four for filters in
    memory. Where L2 doesn't hold that many, or threads would have too few tiles of their own, the input
    transform becomes a dispatch of its own.
    """
    group_outputs = shape.group_outputs
    width = vector_width_for(group_outputs, target.vector_width)
    register_vectors = _register_vectors(group_outputs, width)
    tiles = MAX_TILE_BLOCK if shape.tiles is None else shape.tiles
    filter_bytes = shape.filter_bytes
    most_register_tiles = RegisterBlock.most_rows(register_vectors, target)
    wanted = min(tiles, most_register_tiles * (4 if filter_bytes > STREAMED_FILTERS else 1))

    # A tile's row of inputs and of products, in f32; a workgroup's memory also holds a tile between two
    # passes.
    available = (
        target.l2_bytes // shape.element_types.accumulator_bytes - shape.transform_size * target.vector_width
    )
    product_row = shape.transform_size * width * register_vectors
    input_row = shape.transform_size * (shape.groups * shape.reduction + ROW_PADDING)
    most_fused = min(MAX_TILE_BLOCK, available // (input_row + product_row))

    blocks = -(-tiles // max(1, most_fused))
    channel_blocks = shape.groups * -(-group_outputs // (width * register_vectors))
    multiplications = tiles * shape.transform_size * shape.reduction * shape.output_channels
    splits = _splits(blocks, channel_blocks, multiplications, threads)
    own_tiles = -(-tiles // threads)
    reread = filter_bytes <= REREAD_TRANSFORMED_FILTERS and own_tiles >= MIN_OWN_TILES
    few_outputs = shape.output_channels <= FEW_OUTPUTS
    fused = shape.tiles is None or (most_fused >= wanted and (splits == 1 or reread or few_outputs))
    if shape.tiles is not None and fused and blocks < _wanted_workgroups(multiplications, threads):
        most_fused = min(most_fused, -(-tiles // (-(-blocks // threads) * threads)))
    most = most_fused if fused else min(MAX_TILE_BLOCK, available // product_row)
    tile_block, register_tiles = _divide_tiles(tiles, most, most_register_tiles)
    interleaved_sums = 1
    reduction_block = SHORT_BLOCK if shape.reduction <= SHORT_REDUCTION else LONG_BLOCK
    # Smaller register blocks ask for filters faster than memory gives them.
    if shape.reduction <= SHORT_REDUCTION and filter_bytes < STREAMED_FILTERS:
        interleaved = _divide_tiles(tiles, most, RegisterBlock.most_rows(2 * register_vectors, target))
        if _reads(tiles, interleaved) <= INTERLEAVING_COST * _reads(tiles, (tile_block, register_tiles)):
            tile_block, register_tiles = interleaved
            interleaved_sums, reduction_block = 2, INTERLEAVED_BLOCK
    return WinogradSchedule(
        vector_width=width,
        tile_block=tile_block,
        register_tiles=register_tiles,
        register_vectors=register_vectors,
        reduction_block=min(shape.reduction, reduction_block),
        interleaved_sums=interleaved_sums,
        channel_splits=(
            1 if fused else _splits(-(-tiles // tile_block), channel_blocks, multiplications, threads)
        ),
        input_block=None if fused else min(MAX_TILE_BLOCK, max(1, tiles // _workgroups(threads))),
    )


def _register_vectors(group_outputs: int, width: int) -> int:
    """Two vectors of output channels, or three where these overlap less."""
    return min(
        range(min(2, group_outputs // width), min(3, group_outputs // width) + 1),
        key=lambda vectors: (-(-group_outputs // (vectors * width)) * vectors, vectors),
    )


def _divide_tiles(tiles: int, most: int, most_register_tiles: int) -> tuple[int, int]:
    """Tiles of a workgroup, at most `most`, and of a register block, whose multiple they are."""
    divisions = (
        _divide_tiles_by(tiles, most, register_tiles)
        for register_tiles in range(max(1, 2 * most_register_tiles // 3), most_register_tiles + 1)
    )
    return min(divisions, key=lambda division: _reads(tiles, division))


def _reads(tiles: int, division: tuple[int, int]) -> float:
    """Vectors read for every channel: one per tile, also past the last, and filters per register block."""
    tile_block, register_tiles = division
    return -(-tiles // tile_block) * tile_block * (1 + 1 / register_tiles)


def _divide_tiles_by(tiles: int, most: int, most_register_tiles: int) -> tuple[int, int]:
    most_rows = max(1, most // most_register_tiles)
    blocks = -(-tiles // min(max(1, most), most_rows * most_register_tiles))
    per_block = -(-tiles // blocks)
    rows = -(-per_block // most_register_tiles)
    register_tiles = min(-(-per_block // rows), max(1, most) // rows)
    return register_tiles * rows, register_tiles


def default_direct_schedule(shape: ConvolutionShape, target: CpuTarget, threads: int) -> DirectSchedule:
    """The direct schedule for so many threads that needs no measurement.

    Its register block is the one that wastes least of this shape.
    """
    group_outputs = shape.group_outputs
    width = vector_width_for(group_outputs, target.vector_width)
    pixels = shape.output_size[-1]

    def cycles(block: tuple[int, int]) -> float:
        rows, vectors = block
        passes = -(-pixels // rows) * -(-group_outputs // (vectors * width))
        # Two multiply-adds or loads a cycle, four cycles until a sum can be added to, and the loop's own.
        return passes * (max(rows * vectors / 2, (rows + vectors) / 2, 4) + 1)

    blocks = [
        (rows, vectors)
        for vectors in range(1, min(4, group_outputs // width) + 1)
        for rows in range(1, min(pixels, RegisterBlock.most_rows(vectors, target)) + 1)
    ]
    register_pixels, register_vectors = min(blocks, key=cycles)
    row_block, pixel_block, register_pixels = _direct_blocks(shape, target, threads, register_pixels)
    rows = shape.output_rows
    workgroups = (shape.batch or 1) * -(-rows // row_block) * -(-pixels // pixel_block)
    channel_blocks = shape.groups * -(-group_outputs // (width * register_vectors))
    multiplications = (shape.batch or 1) * rows * pixels * shape.reduction * shape.output_channels
    return DirectSchedule(
        vector_width=width,
        register_pixels=register_pixels,
        register_vectors=register_vectors,
        row_block=row_block,
        pixel_block=pixel_block,
        channel_splits=_splits(workgroups, channel_blocks, multiplications, threads),
    )


def _direct_blocks(
    shape: ConvolutionShape, target: CpuTarget, threads: int, register_pixels: int
) -> tuple[int, int, int]:
    """Rows and pixels of a workgroup and pixels of a register block, whose input L2 holds if it is copied.

    Raises ValueError when it doesn't hold the input of a single output.
    """
    pixels, rows = shape.output_size[-1], shape.output_rows
    pixel_blocks = -(-pixels // MAX_PIXEL_BLOCK)
    pixel_block = min(pixels, -(-pixels // pixel_blocks // register_pixels) * register_pixels)
    row_block = min(rows, max(1, MAX_PIXEL_BLOCK // pixel_block))
    filter_bytes = shape.filter_bytes
    if filter_bytes <= REREAD_FILTERS:
        blocks_per_row = (shape.batch or 1) * -(-pixels // pixel_block)
        row_block = max(1, min(row_block, rows * blocks_per_row // _workgroups(threads)))
    while direct_workgroup_bytes(shape, row_block, pixel_block, target) > target.l2_bytes:
        if row_block > 1:
            row_block -= 1
        elif pixel_block > register_pixels:
            pixel_block = max(register_pixels, pixel_block - register_pixels)
        elif register_pixels > 1:
            register_pixels = pixel_block = register_pixels - 1
        else:
            raise ValueError(f"the input of one output exceeds the L2 cache of {target.l2_bytes} bytes")
    return row_block, pixel_block, register_pixels


def default_depthwise_schedule(shape: ConvolutionShape, target: CpuTarget, threads: int) -> DepthwiseSchedule:
    """The depthwise schedule for so many threads that needs no measurement.

    Registers full of sums and of the filters of one row of taps; rows, then channels, in as many parts as
    give threads work.
    """
    width = vector_width_for(shape.output_channels, target.vector_width)
    pixels, rows, batch = shape.output_size[-1], shape.output_rows, shape.batch or 1
    filters = shape.decomposition.kernel_size[-1] * shape.group_inputs
    most_pixels = min(MAX_DEPTHWISE_PIXELS, max(MIN_DEPTHWISE_PIXELS, target.vector_registers - filters - 2))
    work = DEPTHWISE_COST * batch * rows * pixels * shape.reduction * shape.output_channels
    row_blocks = _splits(batch, rows, work, threads)
    passes = -(-shape.output_channels // (VECTORS_PER_PASS * width))
    return DepthwiseSchedule(
        vector_width=width,
        register_pixels=-(-pixels // -(-pixels // most_pixels)),
        row_block=-(-rows // row_blocks),
        vectors_per_pass=VECTORS_PER_PASS,
        channel_splits=_splits(batch * row_blocks, passes, work, threads),
    )


def _workgroups(threads: int) -> int:
    """Workgroups that a dispatch should have, for threads to share."""
    return 1 if threads == 1 else WORKGROUPS_PER_THREAD * threads


def _splits(workgroups: int, channel_blocks: int, multiplications: int, threads: int) -> int:
    """The parts to divide output channels into, so that threads have enough workgroups of enough work."""
    return max(1, min(channel_blocks, _wanted_workgroups(multiplications, threads) // workgroups))


def _wanted_workgroups(multiplications: int, threads: int) -> int:
    """Workgroups that the dispatch of so many multiplications should have."""
    return min(_workgroups(threads), multiplications // WORKGROUP_PRODUCTS)
