"""What a CPU kernel takes by its schedule, from counts of operations and bytes.

Multiply-adds take what the machine's rate of operations says, all else cycles of its clock: processors differ
in how many multiply-adds of their widest vectors a cycle starts. What the kernels reach is in `rates.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import prod

from iree.winograd.dialect.algebra.transforms import transforms
from iree.winograd.pipelines.machines.model import CpuMachine
from iree.winograd.pipelines.specification.shape import ConvolutionShape

from .channel_blocks import ChannelBlocks
from .rates import (
    ACCUMULATE_CYCLES,
    CACHED_FILTERS,
    ELEMENT_CYCLES,
    INPUT_OPERATION_CYCLES,
    MEMORY_FILTERS,
    OUTPUT_OPERATION_CYCLES,
    PRODUCT_EFFICIENCY,
    STAGED_BYTES_PER_CYCLE,
    STORE_CYCLES,
    TAP_ROW_CYCLES,
    UNHIDDEN,
)
from .schedules import DepthwiseSchedule, DirectSchedule, WinogradSchedule, staged_elements
from .target import CpuTarget


def winograd_seconds(
    shape: ConvolutionShape,
    schedule: WinogradSchedule,
    target: CpuTarget,
    machine: CpuMachine,
    threads: int,
) -> Mapping[str, float]:
    """Seconds of the stages of `WinogradKernel`.

        products = register blocks * (reduction * channel / efficiency + reduction blocks * sums * 3.8 cycles)
        filters  = first reading / (0.9 * memory bandwidth)
                   + other readings / (0.54 * bandwidth of where they fit),
                   less what the first of the register blocks that share them hides
        input    = tiles * V*C/lanes * (1.3 * operations + 2*A) cycles
        output   = tiles * K/lanes * (2.3 * operations + A + M) cycles

    in the symbols of docs/architecture.md, with M outputs and the recipes' nested operations per tile, tiles
    past the last of a block included. A channel takes the multiply-adds of a register block, its loads at two
    a cycle, or the latency of its sums, whichever is longest. A batch known only at run time counts as 1;
    filters are transformed beforehand.
    """
    tiles = prod(shape.tiles_per_image) * (shape.batch or 1)
    tile_blocks = -(-tiles // schedule.tile_block)
    padded_tiles = tile_blocks * schedule.tile_block
    channel_blocks = _channel_blocks(shape, schedule)
    workgroups = tile_blocks * min(schedule.channel_splits, channel_blocks)
    cycle = 1 / machine.clock
    products, filters = _products(
        shape,
        schedule,
        padded_tiles // schedule.register_tiles,
        tile_blocks,
        target,
        machine,
    )
    register_blocks = padded_tiles // schedule.register_tiles * shape.transform_size * channel_blocks
    sums = schedule.register_tiles * schedule.register_vectors
    reduction_blocks = -(-shape.reduction // schedule.reduction_block)
    products += register_blocks * reduction_blocks * sums * ACCUMULATE_CYCLES * cycle
    decomposition = shape.decomposition
    elements, outputs = shape.transform_size, prod(decomposition.output_tile)
    lanes = min(target.vector_width, schedule.vector_width)
    input_vectors = decomposition.view_count * shape.groups * -(-shape.group_inputs // lanes)
    per_input = (
        INPUT_OPERATION_CYCLES * _input_operations(decomposition.output_tile, decomposition.part_size)
        + ELEMENT_CYCLES * 2 * elements
    )
    output_vectors = channel_blocks * schedule.register_vectors
    per_output = (
        OUTPUT_OPERATION_CYCLES * _output_operations(decomposition.output_tile, decomposition.part_size)
        + elements
        + outputs
    )
    input_seconds = padded_tiles * input_vectors * per_input * cycle
    dispatches = 1
    if schedule.input_block is None:
        input_seconds *= _share(workgroups, threads, machine)
    else:
        dispatches = 2
        input_seconds *= _share(-(-padded_tiles // schedule.input_block), threads, machine)
        transformed = (
            shape.element_types.input_bytes * elements * padded_tiles * shape.groups * shape.reduction
        )
        input_seconds += transformed / machine.bandwidth(transformed)
    share = _share(workgroups, threads, machine)
    return {
        "input": input_seconds,
        "products": products * share,
        "filters": filters * share,
        "output": padded_tiles * output_vectors * per_output * cycle * share,
        "dispatch": dispatches * _dispatch_seconds(workgroups, threads, machine),
    }


def direct_seconds(
    shape: ConvolutionShape, schedule: DirectSchedule, target: CpuTarget, machine: CpuMachine, threads: int
) -> Mapping[str, float]:
    """Seconds of the stages of `DirectKernel`: products, the reading of filters, staging and stores."""
    batch, rows, pixels = shape.batch or 1, shape.output_rows, shape.output_size[-1]
    row_blocks, pixel_blocks = -(-rows // schedule.row_block), -(-pixels // schedule.pixel_block)
    channel_blocks = _channel_blocks(shape, schedule)
    tasks = batch * row_blocks * pixel_blocks
    splits = min(schedule.channel_splits, channel_blocks)
    cycle = 1 / machine.clock
    blocks = tasks * schedule.row_block * -(-schedule.pixel_block // schedule.register_pixels)
    products, filters = _products(shape, schedule, blocks, tasks, target, machine)
    tap_rows = prod(shape.decomposition.kernel_size[:-1])
    sums = schedule.register_pixels * schedule.register_vectors
    stores = blocks * channel_blocks * (sums * STORE_CYCLES + tap_rows * TAP_ROW_CYCLES) * cycle
    staged = 0.0
    if shape.pads:
        elements = staged_elements(shape, schedule.row_block, schedule.pixel_block)
        staged_bytes = shape.element_types.input_bytes * elements
        staged = tasks * splits * staged_bytes / STAGED_BYTES_PER_CYCLE * cycle
    share = _share(tasks * splits, threads, machine)
    return {
        "staging": staged * share,
        "products": products * share,
        "filters": filters * share,
        "output": stores * share,
        "dispatch": _dispatch_seconds(tasks * splits, threads, machine),
    }


def depthwise_seconds(
    shape: ConvolutionShape,
    schedule: DepthwiseSchedule,
    target: CpuTarget,
    machine: CpuMachine,
    threads: int,
) -> Mapping[str, float]:
    """Seconds of `DepthwiseKernel`: one multiply-add and its load per output and tap, or moving the data."""
    batch = shape.batch or 1
    vectors = -(-shape.output_channels // schedule.vector_width)
    outputs = batch * prod(shape.output_size) * vectors
    taps = prod(shape.decomposition.kernel_size) * shape.group_inputs
    cycle = 1 / machine.clock
    size = batch * (shape.image_bytes + shape.result_bytes)
    moved = size / machine.bandwidth(size)
    passes = -(-vectors // schedule.vectors_per_pass)
    row_blocks = -(-shape.output_rows // schedule.row_block)
    workgroups = batch * row_blocks * min(schedule.channel_splits, passes)
    products = outputs * taps * max(cycle, _multiply_add_seconds(target, machine))
    share = _share(workgroups, threads, machine)
    return {
        "products": max(products, moved) * share,
        "output": outputs * STORE_CYCLES * cycle * share,
        "dispatch": _dispatch_seconds(workgroups, threads, machine),
    }


def _products(
    shape: ConvolutionShape,
    schedule: WinogradSchedule | DirectSchedule,
    row_blocks: int,
    filter_readings: int,
    target: CpuTarget,
    machine: CpuMachine,
) -> tuple[float, float]:
    """Seconds of the products of `row_blocks` blocks of rows, and of reading filters where not hidden.

    The first reading is from memory: the filters of a whole network don't stay in any cache from one run to
    the next.
    """
    work = schedule.product.channel_work
    per_channel = max(
        work.multiply_adds * _multiply_add_seconds(target, machine),
        max(work.loads / machine.loads_per_cycle, machine.multiply_add_latency / work.independent_sums)
        / machine.clock,
    )
    channel_blocks = _channel_blocks(shape, schedule)
    products = shape.transform_size * row_blocks * channel_blocks * shape.reduction * per_channel
    products /= PRODUCT_EFFICIENCY
    size = shape.element_types.filter_bytes * shape.transform_size * shape.reduction
    size *= channel_blocks * schedule.channel_block
    again = machine.bandwidth(size)
    again *= MEMORY_FILTERS if again == machine.memory_bandwidth else CACHED_FILTERS
    first = MEMORY_FILTERS * machine.memory_bandwidth
    filters = size / first + (filter_readings - 1) * size / again
    # Only the first of the register blocks that share filters waits for them, and can hide their reading.
    hidden = (1 - UNHIDDEN) * min(products * filter_readings / row_blocks, filters)
    return products, filters - hidden


def _channel_blocks(shape: ConvolutionShape, schedule: WinogradSchedule | DirectSchedule) -> int:
    return ChannelBlocks(shape.output_channels, shape.groups, schedule.channel_block).count


def _multiply_add_seconds(target: CpuTarget, machine: CpuMachine) -> float:
    """From the start of one multiply-add of whole vectors to that of the next."""
    return 2 * target.vector_width / machine.flops


def _share(workgroups: int, threads: int, machine: CpuMachine) -> float:
    """The part of a dispatch's work that the thread with most of it does."""
    threads = min(threads, machine.cores)
    return -(-workgroups // threads) / workgroups


def _dispatch_seconds(workgroups: int, threads: int, machine: CpuMachine) -> float:
    wakes = threads > 1 and workgroups > 1
    return machine.dispatch_seconds + (machine.wake_seconds if wakes else 0)


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
