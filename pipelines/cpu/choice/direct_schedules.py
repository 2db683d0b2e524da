"""The schedules of the direct kernel from which the default one is taken."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TypeAlias

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.processor.product import CACHE_LINE_FLOATS, RegisterBlock
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.direct import (
    DirectSchedule,
    direct_channel_blocks,
    direct_workgroup_bytes,
    in_lines,
    row_parts,
)
from iree.winograd.pipelines.emission.numbers.bf16 import BF16
from iree.winograd.pipelines.emission.numbers.known import NUMBERS
from iree.winograd.pipelines.emission.vectors import vector_width_for
from iree.winograd.pipelines.machines.model import MAX_WORKGROUPS_AT_A_TIME, CpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .product_cost import register_block_seconds
from .rates import SCATTERED_BYTES_PER_CYCLE
from .representative import representative
from .workgroups import channel_parts, powers_of_two, workgroup_counts

ROW_WORKGROUPS_PER_THREAD = 4
"""That dispatches may have beside where a row is divided, which costs no more than their start."""
MAX_VECTORS = 4
"""Of channels, in a register block of the direct kernel."""
LEAST_TILED_LANES = 4
"""Of vectors of a channels-first result with which tiles take less than pixels by a part of a whole vector.

Of 5 to 7 channels they take two thirds, on Zen 3; 3 channels by a whole vector 0.6 of those by two lanes."""
MAX_ALL_VECTORS = 6
"""The same of one that has all channels: pixels are read once, and registers hold some beside the filters."""
MOST_WAITING = 16
"""Outputs of a layer that take less to multiply by filters than these take to come from memory.

Of 28 outputs widening takes AVX2 longer than reading: 2048 to 2048 channels took 1.14 of the time."""
MAX_PIXEL_BLOCKS = (112, 224, 448)
"""Pixels of a workgroup of the direct kernel: more read filters less often, fewer leave L2 to filters."""

_Block: TypeAlias = tuple[int, int, int]
"""A register block: pixels, and vectors of channels of so many lanes."""


def direct_defaults(
    shape: ConvolutionShape, target: CpuTarget, machine: CpuMachine, threads: int
) -> Iterator[DirectSchedule]:
    """Those of the register block that takes least for this shape.

    Rows, then channels, are divided among workgroups, or channels alone: then fewer read all filters. L2
    holds the input of a workgroup if it is copied. Where vectors are parts of a cache line only filters are
    fetched ahead.
    """
    shape = in_lines(shape)
    images, pixels, rows = representative(shape).images, shape.output_size[-1], shape.output_rows
    # A register block then has so few products for each channel that fetching takes a tenth of its time.
    in_parts = target.vector_width < CACHE_LINE_FLOATS
    half = filter_type(shape, images * rows * pixels, target)

    def schedule(register_block: _Block, block: tuple[int, int], count: int) -> DirectSchedule:
        register_pixels, register_vectors, width = register_block
        row_block, pixel_block, register_pixels = _within_l2(shape, target, *block, register_pixels)
        tasks = images * ceil_div(rows, row_block) * ceil_div(pixels, pixel_block)
        channel_blocks = direct_channel_blocks(shape, width * register_vectors).count
        return DirectSchedule(
            vector_width=width,
            register_pixels=register_pixels,
            register_vectors=register_vectors,
            row_block=row_block,
            pixel_block=pixel_block,
            channel_splits=channel_parts(count, tasks, channel_blocks),
            image_prefetch=None if in_parts else 1,
            filter_type=half,
        )

    fitting = _register_block(shape, pixels, target, machine)
    for count, divided, most in product(workgroup_counts(threads), (True, False), MAX_PIXEL_BLOCKS):
        share = max(1, images * rows * pixels // count) if divided else most
        wanted_pixels = _pixel_block(pixels, fitting[0], most if rows > 1 else min(most, share))
        wanted_rows = min(rows, max(1, min(most, share) // wanted_pixels))
        yield schedule(fitting, (wanted_rows, wanted_pixels), count)
    if rows > 1 or threads == 1:
        return
    # Blocks of a row are equally many for each thread, and register blocks of a block equal.
    # Where there are so many that threads take several at a time, larger ones, which are fewer to take.
    blocks = [images * ceil_div(pixels, most) for most in MAX_PIXEL_BLOCKS]
    most_taken = dict.fromkeys((machine.workgroups_at_a_time, MAX_WORKGROUPS_AT_A_TIME))
    for taken in most_taken:
        least = next((count for count in blocks if count < taken * threads), blocks[0])
        several = ceil_div(least, threads) * threads
        for count in (*workgroup_counts(threads), ROW_WORKGROUPS_PER_THREAD * threads, several):
            for parts in powers_of_two(count):
                share = ceil_div(pixels, ceil_div(max(count // parts, least), images))
                most_pixels, register_vectors, width = _register_block(shape, share, target, machine)
                register_pixels = ceil_div(share, ceil_div(share, most_pixels))
                wanted_pixels = min(pixels, ceil_div(share, register_pixels) * register_pixels)
                yield schedule((register_pixels, register_vectors, width), (1, wanted_pixels), count)


def filter_type(shape: ConvolutionShape, outputs: int, target: CpuTarget) -> str | None:
    """The type of half precision that filters are stored in where a layer has so many outputs.

    They are where outputs are so few that they wait for filters from beyond L2. None where numbers need more,
    and where units multiply bf16, whose kernels read filters of bf16 as they are.
    """
    half = shape.exact_type
    if (
        half is None
        or shape.runtime_filter
        or outputs > MOST_WAITING
        or shape.filter_bytes <= target.l2_bytes
    ):
        return None
    if half == BF16.name and (target.has_matrix_unit or target.multiplies_bf16):
        return None
    return None if NUMBERS[half].needs_instructions and not target.converts_half else half


def block_vectors(shape: ConvolutionShape, target: CpuTarget) -> list[tuple[int, int]]:
    """The vectors of channels that a register block of the direct kernel may have, and their lanes.

    One that has all channels may leave a part of its last vector out.
    """
    width = vector_width_for(shape.group_outputs, target.vector_width)
    found = [(vectors, width) for vectors in range(1, min(MAX_VECTORS, shape.group_outputs // width) + 1)]
    all_channels = ceil_div(shape.group_outputs, target.vector_width)
    if shape.output_channels_first and width >= LEAST_TILED_LANES:
        return found
    if shape.groups > 1 or all_channels > MAX_ALL_VECTORS:
        return found
    return [*found, *({(all_channels, target.vector_width)} - set(found))]


def _register_block(shape: ConvolutionShape, pixels: int, target: CpuTarget, machine: CpuMachine) -> _Block:
    """That which takes least for so many neighbouring pixels."""
    written = pixels * shape.output_channels * shape.element_types.result_bytes
    filter_bytes = shape.element_types.domain_bytes
    parts, taps = row_parts(shape, pixels), shape.decomposition.kernel_size[-1]

    def seconds(block: _Block) -> float:
        register_pixels, vectors, lanes = block
        channel_passes = ceil_div(shape.group_outputs, vectors * lanes)
        multiplied = 0.0
        for part in parts:
            rows = min(register_pixels, part.pixels)
            products = ceil_div(part.pixels, rows) * channel_passes * shape.reduction * len(part.taps) / taps
            product = RegisterBlock(rows, vectors, lanes, filter_prefetch=0)
            per_channel = register_block_seconds(product, shape.reduction, filter_bytes, target, machine)
            multiplied += products * per_channel
        if channel_passes == 1 or written <= target.l2_bytes:
            return multiplied
        return multiplied + written / SCATTERED_BYTES_PER_CYCLE / machine.clock

    blocks = [
        (register_pixels, vectors, lanes)
        for vectors, lanes in block_vectors(shape, target)
        for register_pixels in range(1, min(pixels, RegisterBlock.most_rows(vectors, target)) + 1)
    ]
    return min(blocks, key=seconds)


def _pixel_block(pixels: int, register_pixels: int, most: int) -> int:
    """About `most` of a row's pixels: the whole register blocks of which a row takes the fewest."""
    fewest = ceil_div(pixels, max(most, register_pixels))

    def block(count: int) -> int:
        return min(pixels, ceil_div(ceil_div(pixels, count), register_pixels) * register_pixels)

    return min(map(block, range(fewest, fewest + 4)), key=lambda size: ceil_div(pixels, size) * size)


def _within_l2(
    shape: ConvolutionShape, target: CpuTarget, row_block: int, pixel_block: int, register_pixels: int
) -> tuple[int, int, int]:
    """Rows and pixels of a workgroup and pixels of a register block, whose input L2 holds if it is copied.

    Raises ValueError when it doesn't hold the input of a single output.
    """
    wanted = pixel_block
    while direct_workgroup_bytes(shape, row_block, pixel_block, target) > target.workgroup_bytes:
        if row_block > 1:
            row_block -= 1
        elif pixel_block > register_pixels:
            pixel_block = max(register_pixels, pixel_block - register_pixels)
        elif register_pixels > 1:
            register_pixels = pixel_block = register_pixels - 1
        else:
            raise ValueError(f"the input of one output exceeds the L2 cache of {target.l2_bytes} bytes")
    if pixel_block < wanted:
        # The last block of a row overlaps the one before, which would multiply what both have twice.
        whole_blocks = pixel_block - pixel_block % register_pixels
        pixel_block = _pixel_block(shape.output_size[-1], register_pixels, whole_blocks)
    return row_block, pixel_block, register_pixels
