"""What a CPU kernel takes by its schedule, from counts of operations and bytes.

Multiply-adds take what the machine's rate of operations says, all else cycles of its clock: processors differ
in how many multiply-adds of their widest vectors a cycle starts. What the kernels reach is in `rates.py`,
what several threads take from each other in `workers.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cache
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.algebra.transforms import transforms
from iree.winograd.passes.match.convolutions.element_types import element_bytes
from iree.winograd.pipelines.cpu.processor.product import Product
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.channel_blocks import ChannelBlocks
from iree.winograd.pipelines.cpu.schedules.depthwise import DepthwiseSchedule, depthwise_workgroup_bytes
from iree.winograd.pipelines.cpu.schedules.direct import (
    DirectSchedule,
    copies_input,
    direct_channel_blocks,
    in_lines,
    row_parts,
    skips_padding,
    staged_elements,
)
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from iree.winograd.pipelines.emission.vectors import vector_width_for
from iree.winograd.pipelines.machines.model import CpuMachine
from iree.winograd.pipelines.problems.schedule import FILTER_TRANSFORM_STAGE
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .layout_cost import (
    interleaved_element_cycles,
    read_tile_cycles,
    shared_line_seconds,
    transposed_pixel_cycles,
    written_tile_cycles,
)
from .product_cost import (
    accumulating_seconds,
    channel_seconds,
    filter_seconds,
    least_vector_seconds,
    multiply_add_seconds,
    register_block_seconds,
)
from .rates import (
    CACHED_FILTERS,
    ELEMENT_CYCLES,
    INPUT_OPERATION_CYCLES,
    MEMORY_FILTERS,
    OUTPUT_ELEMENT_CYCLES,
    OUTPUT_OPERATION_CYCLES,
    PRODUCT_EFFICIENCY,
    SHARED_TILES,
    STAGED_BYTES_PER_CYCLE,
    STORE_CYCLES,
    TAP_ROW_CYCLES,
    TILE_PRODUCT_EFFICIENCY,
    UNHIDDEN_FRACTION,
)
from .representative import representative
from .tile_schedules import may_transform_filters
from .transform_cost import filter_vector_seconds, transform_seconds
from .workers import Workers, complete

EXACTNESS = 1 - 1e-9
"""Times a sum: what sums of the same numbers in another order aren't below."""


def winograd_seconds(
    shape: ConvolutionShape,
    schedule: WinogradSchedule,
    target: CpuTarget,
    machine: CpuMachine,
    threads: int,
) -> Mapping[str, float]:
    """Seconds of the stages of `WinogradKernel`.

        products = register blocks * (reduction * channel / efficiency + adding up its blocks)
        input    = tiles * V*C/lanes * (1.3 * operations + 2*A) cycles
        output   = tiles * K/lanes * (0.6 * operations + 2*(A + M)) cycles

    in the symbols of docs/explanation/architecture.md, with M outputs and the recipes' nested operations per
    tile, tiles past the last of a block included, and shuffles of channels-first tiles, whose outputs share
    cache lines with neighbouring blocks. A channel takes the multiply-adds of a register block, its loads at
    two a cycle, or the latency of its sums, whichever is longest; a block of the reduction is added to others
    in memory, or to totals in registers. Filters are transformed beforehand, or read as they are and
    transformed once for each block of tiles.
    """
    tiles = prod(shape.tiles_per_image) * shape.images
    tile_blocks = ceil_div(tiles, schedule.tile_block)
    parts, channel_blocks = _channel_parts(shape, schedule.product.channels, schedule.channel_splits)
    workers = Workers(machine, threads, tile_blocks * parts)
    cycle = 1 / machine.clock
    register_blocks = schedule.tile_block // schedule.register_tiles
    filter_bytes = shape.element_types.domain_bytes
    channel = register_block_seconds(schedule.product, shape.reduction, filter_bytes, target, machine)
    per_channel = channel / TILE_PRODUCT_EFFICIENCY
    products, filters = _products(
        shape, schedule.product, per_channel, register_blocks, (parts, channel_blocks), workers, filter_bytes
    )
    accumulated = register_blocks * shape.transform_size * channel_blocks
    adding_up = accumulating_seconds(
        schedule.register_tiles * schedule.register_vectors,
        ceil_div(shape.reduction, schedule.reduction_block),
        schedule.sum_registers,
        machine,
    )
    decomposition = shape.decomposition
    elements = shape.transform_size
    lanes = min(target.vector_width, schedule.vector_width)
    input_vectors = decomposition.view_count * shape.groups * ceil_div(shape.group_inputs, lanes)
    per_input = _input_cycles(shape) + read_tile_cycles(shape, lanes, schedule.tile_block)
    output_vectors = channel_blocks * schedule.register_vectors
    per_output = _output_cycles(shape) + written_tile_cycles(shape, lanes, schedule.tile_block)
    input_cycles = input_vectors * per_input
    shared_lines = shared_line_seconds(shape, schedule.tile_block, workers)
    of_tiles = schedule.tile_block * output_vectors * per_output * cycle
    stages = {
        "products": products + workers.load * accumulated * adding_up,
        "filters": filters,
        "output": workers.load * (of_tiles + channel_blocks * schedule.channel_block * shared_lines),
    }
    if schedule.filter_block is not None:
        vectors = channel_blocks * schedule.register_vectors * shape.group_inputs
        transforming = workers.load * vectors * filter_vector_seconds(shape, schedule.vector_width, machine)
        read = (
            workers.share
            * shape.element_types.domain_bytes
            * (prod(shape.kernel_size) * shape.group_inputs * channel_blocks * schedule.channel_block)
        )
        reading = read / (workers.memory_bandwidth / workers.count)
        # Packed ones are fetched while those before are multiplied by.
        hidden = 0.0 if shape.runtime_filter else (1 - UNHIDDEN_FRACTION) * min(products, reading)
        stages["filters"] = reading - hidden
        stages[FILTER_TRANSFORM_STAGE] = transforming
    if schedule.input_block is None:
        stages["input"] = workers.load * schedule.tile_block * input_cycles * cycle
        return complete(stages, workers)
    row_bytes = shape.element_types.domain_bytes * elements * shape.groups * shape.reduction
    transformed = tile_blocks * schedule.tile_block * row_bytes
    block = schedule.tile_block * row_bytes
    # Each block of channels reads the tiles anew, from L2 where they fit beside its filters.
    panel = shape.element_types.domain_bytes * elements * shape.reduction * schedule.channel_block
    again = CACHED_FILTERS * machine.bandwidth(block + panel)
    reached = SHARED_TILES if workers.count > 1 else 1.0
    read = workers.share * block / (reached * workers.shared_bandwidth(transformed))
    if block + panel > target.l2_bytes:
        read += workers.share * (channel_blocks - 1) * block / again
    completed = complete(stages, workers)
    input_blocks = ceil_div(tile_blocks * schedule.tile_block, schedule.input_block)
    input_workers = Workers(machine, threads, input_blocks)
    work = input_blocks * min(schedule.input_block, tiles) * input_cycles * cycle
    transforming = transform_seconds(work, transformed, input_workers)
    transform = complete({"input": transforming}, input_workers)
    return {
        **completed,
        "input": transforming + read,
        "dispatch": transform["dispatch"] + completed["dispatch"],
        "waiting": transform["waiting"] + completed["waiting"],
    }


def least_seconds(shape: ConvolutionShape, target: CpuTarget, machine: CpuMachine, threads: int) -> float:
    """What no default schedule of `WinogradKernel` is predicted to take less than.

    That is what is done for each tile, if threads and registers divided tiles and channels evenly, and what
    of reading filters isn't hidden, without adding up sums, moving channels of channels-first images and
    waiting for all but the first of several threads to start.
    """
    shape = representative(shape)
    lanes = vector_width_for(shape.group_outputs, target.vector_width)
    tiles = prod(shape.tiles_per_image) * shape.images
    input_vectors = shape.decomposition.view_count * shape.groups * ceil_div(shape.group_inputs, lanes)
    output_vectors = shape.groups * ceil_div(shape.group_outputs, lanes)
    filter_bytes = shape.element_types.domain_bytes
    per_channel = least_vector_seconds(lanes, shape.reduction, filter_bytes, target, machine)
    multiplying = per_channel / TILE_PRODUCT_EFFICIENCY
    products = tiles * shape.tile_products * output_vectors * multiplying
    cycles = input_vectors * _input_cycles(shape) + output_vectors * _output_cycles(shape)
    work = products + tiles * cycles / machine.clock
    most_threads = min(threads, machine.cores)
    divided = min(work, work / most_threads + machine.wake_seconds)
    filters = 0.0
    if not shape.runtime_filter:
        bandwidth = min(threads * machine.memory_bandwidth, machine.shared_memory_bandwidth)
        read = filter_bytes * shape.tile_products * shape.output_channels
        if may_transform_filters(shape, target):
            read = min(read, shape.tap_bytes)
        filters = read / (MEMORY_FILTERS * bandwidth)
    unhidden = filters - (1 - UNHIDDEN_FRACTION) * min(products / most_threads, filters)
    return (divided + unhidden + machine.dispatch_seconds) * EXACTNESS


def direct_seconds(
    shape: ConvolutionShape, schedule: DirectSchedule, target: CpuTarget, machine: CpuMachine, threads: int
) -> Mapping[str, float]:
    """Seconds of the stages of `DirectKernel`: products, the reading of filters, staging and stores."""
    shape = in_lines(shape)
    batch, rows, pixels = shape.images, shape.output_rows, shape.output_size[-1]
    tasks = batch * ceil_div(rows, schedule.row_block) * ceil_div(pixels, schedule.pixel_block)
    blocks = direct_channel_blocks(shape, schedule.product.channels)
    parts, channel_blocks = _divided(blocks, schedule.channel_splits)
    workers = Workers(machine, threads, tasks * parts)
    cycle = 1 / machine.clock
    row = row_parts(shape, schedule.pixel_block)
    row_blocks = [ceil_div(part.pixels, schedule.register_pixels) for part in row]
    register_blocks = schedule.row_block * sum(row_blocks)
    per_channel = channel_seconds(schedule.product, target, machine) / PRODUCT_EFFICIENCY
    skips = skips_padding(shape, schedule.pixel_block)
    if skips:
        # Of the taps of the last dimension those that each part has, of the others what is read on average.
        read = sum(
            count * len(part.taps) * channel_seconds(schedule.part_product(part), target, machine)
            for count, part in zip(row_blocks, row, strict=True)
        )
        of_row = read / (sum(row_blocks) * shape.kernel_size[-1])
        per_channel = prod(shape.read_shares[:-1]) * of_row / PRODUCT_EFFICIENCY
    filter_bytes = element_bytes(schedule.filter_type or shape.element_types.domain)
    products, filters = _products(
        shape, schedule.product, per_channel, register_blocks, (parts, channel_blocks), workers, filter_bytes
    )
    tap_rows = prod(shape.decomposition.kernel_size[:-1])
    sums = schedule.register_pixels * schedule.register_vectors
    stores = register_blocks * channel_blocks * (sums * STORE_CYCLES + tap_rows * TAP_ROW_CYCLES)
    if shape.output_channels_first:
        row_pixels = schedule.row_block * schedule.pixel_block * channel_blocks
        stores += row_pixels * transposed_pixel_cycles(schedule.channel_block, target.vector_width)
    staged = 0.0
    distance = shape.strides[-1] * shape.input_channels
    if not skips and copies_input(shape, distance, parts, channel_blocks):
        elements = staged_elements(shape, schedule.row_block, schedule.pixel_block)
        staged = shape.element_types.input_bytes * elements * (cycle / STAGED_BYTES_PER_CYCLE)
        if shape.input_channels_first:
            staged += elements * interleaved_element_cycles(shape.input_channels, target.vector_width) * cycle
            staged += batch * shape.image_bytes / workers.shared_bandwidth(batch * shape.image_bytes) / tasks
        if workers.count > 1 and prod(shape.kernel_size) == 1:
            # What other threads have written comes from the cache that they share, once for each part.
            size = batch * shape.image_bytes
            staged += shape.element_types.input_bytes * elements / workers.shared_bandwidth(size)
    stages = {
        "staging": workers.load * staged,
        "products": products,
        "filters": filters,
        "output": workers.load * stores * cycle,
    }
    return complete(stages, workers)


def depthwise_seconds(
    shape: ConvolutionShape,
    schedule: DepthwiseSchedule,
    target: CpuTarget,
    machine: CpuMachine,
    threads: int,
) -> Mapping[str, float]:
    """Seconds of `DepthwiseKernel`: one multiply-add and its load per output and tap, or moving the data.

    Lanes of one group share elements, and their products with padding aren't counted.
    """
    from iree.winograd.pipelines.cpu.kernels.depthwise import DepthwiseKernel

    batch = shape.images
    vectors = ceil_div(shape.output_channels, schedule.vector_width)
    passes = ceil_div(vectors, schedule.vectors_per_pass)
    own_passes = ceil_div(passes, schedule.channel_splits)
    row_blocks = ceil_div(shape.output_rows, schedule.row_block)
    workers = Workers(machine, threads, batch * row_blocks * ceil_div(passes, own_passes))
    own_vectors = min(vectors, own_passes * schedule.vectors_per_pass)
    row = shape.output_size[-1]
    if shape.unknown_sizes:
        # Its last register block overlaps the one before: of rows that are known, blocks are equal.
        row = ceil_div(row, schedule.register_pixels) * schedule.register_pixels
    outputs = schedule.row_block * row * own_vectors
    taps = prod(shape.decomposition.kernel_size) * shape.group_inputs
    cycle = 1 / machine.clock
    size = batch * (shape.image_bytes + shape.result_bytes)
    moved = size / workers.count / workers.shared_bandwidth(size)
    per_product = max(cycle, multiply_add_seconds(target, machine))
    if shape.groups == 1:
        per_product = prod(shape.read_shares) * _shared_product_seconds(shape, schedule, target, machine)
    elif not DepthwiseKernel(shape, schedule, target).rereads_in_l1(machine.caches[0].size):
        vector_bytes = shape.element_types.input_bytes * schedule.vector_width
        per_product = max(per_product, vector_bytes / machine.caches[1].bandwidth)
    products = workers.load * outputs * taps * per_product
    copied = 0.0
    if schedule.copied_rows is not None:
        copies = own_vectors * ceil_div(schedule.row_block, schedule.copied_rows)
        size_of_copy = depthwise_workgroup_bytes(shape, schedule)
        copied = workers.load * copies * size_of_copy * (cycle / STAGED_BYTES_PER_CYCLE)
    stages = {
        "staging": copied,
        "products": max(products, moved),
        "output": workers.load * outputs * STORE_CYCLES * cycle,
    }
    return complete(stages, workers)


def _shared_product_seconds(
    shape: ConvolutionShape, schedule: DepthwiseSchedule, target: CpuTarget, machine: CpuMachine
) -> float:
    """Of a product whose element all lanes share: a row of taps reads columns once, filters if they fit."""
    pixels, taps = schedule.register_pixels, shape.kernel_size[-1]
    columns = {
        pixel * shape.strides[-1] + tap * shape.dilations[-1]
        for pixel, tap in itertools.product(range(pixels), range(taps))
    }
    in_registers = pixels + taps < target.vector_registers
    loads = (len(columns) + (taps if in_registers else pixels * taps)) / (pixels * taps)
    waiting = max(loads / machine.loads_per_cycle, machine.multiply_add_latency / pixels)
    return max(multiply_add_seconds(target, machine), waiting / machine.clock) / PRODUCT_EFFICIENCY


def _products(
    shape: ConvolutionShape,
    product: Product,
    per_channel: float,
    row_blocks: int,
    parts: tuple[int, int],
    workers: Workers,
    filter_bytes: int,
) -> tuple[float, float]:
    """Seconds of a thread's products, and of reading filters, of `filter_bytes` each, where not hidden.

    A workgroup has `row_blocks` blocks of rows, each of which takes `per_channel` seconds for a channel;
    `parts` is of the output channels. Of the register blocks that share filters only the first waits for
    them, and can hide their reading.
    """
    number, channel_blocks = parts
    panels = shape.tile_products * channel_blocks
    products = workers.load * panels * row_blocks * per_channel
    size = filter_bytes * panels * product.channels
    filters = filter_seconds(size, number, workers)
    return products, filters - (1 - UNHIDDEN_FRACTION) * min(products / row_blocks, filters)


def _channel_parts(shape: ConvolutionShape, channel_block: int, splits: int) -> tuple[int, int]:
    """The parts of the output channels that have some, and the blocks of channels of each."""
    return _divided(ChannelBlocks(shape.output_channels, shape.groups, channel_block), splits)


def _divided(blocks: ChannelBlocks, splits: int) -> tuple[int, int]:
    own = ceil_div(blocks.count, splits)
    return ceil_div(blocks.count, own), own


def _input_cycles(shape: ConvolutionShape) -> float:
    """Of transforming a tile of a vector of input channels."""
    tile, part = shape.decomposition.output_tile, shape.decomposition.part_size
    return INPUT_OPERATION_CYCLES * _input_operations(tile, part) + ELEMENT_CYCLES * 2 * shape.transform_size


def _output_cycles(shape: ConvolutionShape) -> float:
    """The same of output channels."""
    tile, part = shape.decomposition.output_tile, shape.decomposition.part_size
    elements = shape.transform_size + prod(tile)
    return OUTPUT_OPERATION_CYCLES * _output_operations(tile, part) + OUTPUT_ELEMENT_CYCLES * elements


@cache
def _input_operations(output_tile: tuple[int, ...], part_size: tuple[int, ...]) -> int:
    """Operations on one tile of one channel: each dimension in turn transforms all lines of the tile."""
    alphas = [m + p - 1 for m, p in zip(output_tile, part_size, strict=True)]
    return sum(
        len(transforms(m, p).input.operations) * prod(alphas) // alpha
        for m, p, alpha in zip(output_tile, part_size, alphas, strict=True)
    )


@cache
def _output_operations(output_tile: tuple[int, ...], part_size: tuple[int, ...]) -> int:
    """As `_input_operations`; the dimensions transformed before have shrunk from alpha to m elements."""
    sizes = [m + p - 1 for m, p in zip(output_tile, part_size, strict=True)]
    operations = 0
    for dimension, (m, p) in enumerate(zip(output_tile, part_size, strict=True)):
        operations += len(transforms(m, p).output.operations) * prod(sizes) // sizes[dimension]
        sizes[dimension] = m
    return operations
