"""The schedule that a CPU's kernel gets without measurement: the fastest of a few, as predicted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from math import inf
from typing import TypeAlias

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.kernels.kernel_of import suited_schedules
from iree.winograd.pipelines.cpu.processor.product import RegisterBlock
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.depthwise import DepthwiseSchedule, can_copy
from iree.winograd.pipelines.cpu.schedules.depthwise_weight_gradient import DepthwiseWeightGradientSchedule
from iree.winograd.pipelines.cpu.schedules.direct import (
    DirectSchedule,
    direct_channel_blocks,
    direct_workgroup_bytes,
    in_lines,
)
from iree.winograd.pipelines.cpu.schedules.fit import CpuSchedule, misfit
from iree.winograd.pipelines.cpu.schedules.matrix_unit import Bf16MatrixUnitSchedule, MatrixUnitSchedule
from iree.winograd.pipelines.cpu.schedules.weight_gradient import WeightGradientSchedule
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule, images_are_far
from iree.winograd.pipelines.emission.vectors import vector_width_for
from iree.winograd.pipelines.machines.model import CpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .cost_model import stage_seconds
from .depthwise_weight_gradient_schedules import depthwise_weight_gradient_schedules
from .matrix_unit_schedules import matrix_unit_schedules
from .product_cost import register_block_seconds
from .rates import SCATTERED_BYTES_PER_CYCLE
from .representative import representative
from .tile_schedules import tile_schedules
from .weight_gradient_schedules import weight_gradient_schedules
from .workers import WORKGROUPS_AT_A_TIME
from .workgroups import channel_parts, powers_of_two, workgroup_counts

ROW_WORKGROUPS_PER_THREAD = 4
"""That dispatches may have beside where a row is divided, which costs no more than their start."""
SHORTEST_BLOCK = 32
"""Channels of a reduction block where an algorithm would exceed the error limit by longer ones."""
MAX_VECTORS = 4
"""Of channels, in a register block of the direct kernel."""
MAX_ALL_VECTORS = 6
"""The same of one that has all channels: pixels are read once, and registers hold some beside the filters."""
MAX_PIXEL_BLOCKS = (112, 224, 448)
"""Pixels of a workgroup of the direct kernel: more read filters less often, fewer leave L2 to filters."""
MAX_DEPTHWISE_PIXELS = 16
MIN_DEPTHWISE_PIXELS = 8
"""Sums of a depthwise convolution that hide the latency of multiply-adds, whatever it takes in registers."""
VECTORS_PER_PASS = 4
"""Vectors of channels of a pass over all rows: neighbouring cache lines, yet few rows of them fill L1."""
FETCHING_PROCESSORS = ("znver4",)
"""Those on which fetching images while tiles are multiplied was measured to gain, by LLVM's names: on others
the lines that are asked for may keep the tiles waiting, so that tuning has to find a gain."""
ONE_PASS_IMAGE = 2
"""Times the L2 cache, from which on an image comes from further away: line after line it comes fastest."""


@cache
def fastest_by_kernel(
    shape: ConvolutionShape, target: CpuTarget, machine: CpuMachine, threads: int
) -> tuple[CpuSchedule, ...]:
    """The schedule of each kernel for `shape`, for so many threads of `machine`, the fastest first.

    Raises ValueError where none fits: of a batch known only at run time a workgroup transforms all channels.
    """
    last = shape.channels_last

    def seconds(schedule: CpuSchedule) -> float:
        if misfit(schedule, last, target) is not None:
            return inf
        return sum(stage_seconds(shape, schedule, target, machine, threads).values())

    # Several divisions of the work may come to one schedule.
    by_kind = [
        list(dict.fromkeys(_candidates(kind, shape, target, machine, threads)))
        for kind in suited_schedules(shape, target)
        if kind is not Bf16MatrixUnitSchedule or shape.exact_type == "bf16"
    ]
    if not any(by_kind):
        raise ValueError(f"the L2 cache of {target.l2_bytes} bytes holds no tile's inputs or products")
    fastest = [min(candidates, key=seconds) for candidates in by_kind if candidates]
    if machine.name in FETCHING_PROCESSORS and images_are_far(representative(shape), target):
        fastest = [
            replace(each, image_prefetch=1)
            if isinstance(each, WinogradSchedule) and each.filter_block is None
            else each
            for each in fastest
        ]
    fitting = [schedule for schedule in fastest if misfit(schedule, last, target) is None]
    if not fitting:
        raise ValueError(misfit(fastest[0], last, target))
    return tuple(sorted(fitting, key=seconds)) if len(fitting) > 1 else tuple(fitting)


def default_schedules(
    shape: ConvolutionShape, target: CpuTarget, machine: CpuMachine, threads: int
) -> tuple[CpuSchedule, ...]:
    """The fastest of all kernels, and the same with shorter sums where these round less.

    That one takes longer: it is for algorithms that exceed an error limit by the first. Raises ValueError
    where none fits.
    """
    default = fastest_by_kernel(shape, target, machine, threads)[0]
    # Sums of filters that workgroups transform are as long as the blocks that these are transformed in allow.
    if not isinstance(default, WinogradSchedule) or default.filter_block is not None:
        return (default,)
    if default.reduction_block <= SHORTEST_BLOCK:
        return (default,)
    return default, replace(default, reduction_block=SHORTEST_BLOCK)


def _candidates(
    kind: type[CpuSchedule],
    shape: ConvolutionShape,
    target: CpuTarget,
    machine: CpuMachine,
    threads: int,
) -> Iterator[CpuSchedule]:
    """The few of a kind. There may be none."""
    if kind is WinogradSchedule:
        return iter(tile_schedules(shape, target, machine, threads))
    if kind is WeightGradientSchedule:
        return weight_gradient_schedules(shape, target, threads)
    if kind is DepthwiseWeightGradientSchedule:
        return depthwise_weight_gradient_schedules(shape, target, threads)
    if kind is MatrixUnitSchedule or kind is Bf16MatrixUnitSchedule:
        return matrix_unit_schedules(shape, target, threads, kind)
    if kind is DepthwiseSchedule:
        return _depthwise_schedules(shape, target, threads)
    return _direct_schedules(shape, target, machine, threads)


_Block: TypeAlias = tuple[int, int, int]
"""A register block: pixels, and vectors of channels of so many lanes."""


def _direct_schedules(
    shape: ConvolutionShape, target: CpuTarget, machine: CpuMachine, threads: int
) -> Iterator[DirectSchedule]:
    """Those of the register block that takes least for this shape.

    Rows, then channels, are divided among workgroups, or channels alone: then fewer read all filters. L2
    holds the input of a workgroup if it is copied.
    """
    shape = in_lines(shape)
    images, pixels, rows = representative(shape).images, shape.output_size[-1], shape.output_rows

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
    # Where there are so many that threads take several at a time, larger ones.
    blocks = [images * ceil_div(pixels, most) for most in MAX_PIXEL_BLOCKS]
    least = next((count for count in blocks if count < WORKGROUPS_AT_A_TIME * threads), blocks[0])
    several = ceil_div(least, threads) * threads
    for count in (*workgroup_counts(threads), ROW_WORKGROUPS_PER_THREAD * threads, several):
        for parts in powers_of_two(count):
            share = ceil_div(pixels, ceil_div(max(count // parts, least), images))
            most_pixels, register_vectors, width = _register_block(shape, share, target, machine)
            register_pixels = ceil_div(share, ceil_div(share, most_pixels))
            wanted_pixels = min(pixels, ceil_div(share, register_pixels) * register_pixels)
            yield schedule((register_pixels, register_vectors, width), (1, wanted_pixels), count)


def block_vectors(shape: ConvolutionShape, target: CpuTarget) -> list[tuple[int, int]]:
    """The vectors of channels that a register block of the direct kernel may have, and their lanes.

    One that has all channels may leave a part of its last vector out.
    """
    width = vector_width_for(shape.group_outputs, target.vector_width)
    found = [(vectors, width) for vectors in range(1, min(MAX_VECTORS, shape.group_outputs // width) + 1)]
    all_channels = ceil_div(shape.group_outputs, target.vector_width)
    if shape.groups > 1 or shape.output_channels_first or all_channels > MAX_ALL_VECTORS:
        return found
    return [*found, *({(all_channels, target.vector_width)} - set(found))]


def _register_block(shape: ConvolutionShape, pixels: int, target: CpuTarget, machine: CpuMachine) -> _Block:
    """That which takes least for so many neighbouring pixels."""
    written = pixels * shape.output_channels * shape.element_types.result_bytes
    filter_bytes = shape.element_types.domain_bytes

    def seconds(block: _Block) -> float:
        register_pixels, vectors, lanes = block
        channel_passes = ceil_div(shape.group_outputs, vectors * lanes)
        passes = ceil_div(pixels, register_pixels) * channel_passes
        product = RegisterBlock(register_pixels, vectors, lanes, filter_prefetch=0)
        per_channel = register_block_seconds(product, shape.reduction, filter_bytes, target, machine)
        multiplied = passes * shape.reduction * per_channel
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
    while direct_workgroup_bytes(shape, row_block, pixel_block, target) > target.workgroup_bytes:
        if row_block > 1:
            row_block -= 1
        elif pixel_block > register_pixels:
            pixel_block = max(register_pixels, pixel_block - register_pixels)
        elif register_pixels > 1:
            register_pixels = pixel_block = register_pixels - 1
        else:
            raise ValueError(f"the input of one output exceeds the L2 cache of {target.l2_bytes} bytes")
    return row_block, pixel_block, register_pixels


def _depthwise_schedules(
    shape: ConvolutionShape, target: CpuTarget, threads: int
) -> Iterator[DepthwiseSchedule]:
    """Registers full of sums and of the filters of one row of taps; rows, then channels, in parts.

    In convolutions of one group the row's taps have filters of one input channel at a time.
    """
    width = vector_width_for(shape.output_channels, target.vector_width)
    pixels, rows, batch = shape.output_size[-1], shape.output_rows, representative(shape).images
    filters = shape.decomposition.kernel_size[-1] * (1 if shape.groups == 1 else shape.group_inputs)
    most_pixels = min(MAX_DEPTHWISE_PIXELS, max(MIN_DEPTHWISE_PIXELS, target.vector_registers - filters - 2))
    vectors = ceil_div(shape.output_channels, width)
    for count in workgroup_counts(threads):
        row_block = ceil_div(rows, max(1, min(rows, count // batch)))
        tasks = batch * ceil_div(rows, row_block)
        comes_from_far = shape.image_bytes * row_block > ONE_PASS_IMAGE * target.l2_bytes * rows
        vectors_per_pass = vectors if comes_from_far else VECTORS_PER_PASS
        passes = ceil_div(vectors, vectors_per_pass)
        schedule = DepthwiseSchedule(
            vector_width=width,
            register_pixels=ceil_div(pixels, ceil_div(pixels, most_pixels)),
            row_block=row_block,
            vectors_per_pass=vectors_per_pass,
            channel_splits=max(1, min(passes, count // tasks)),
        )
        yield schedule
        if can_copy(shape):
            yield replace(schedule, copied_rows=row_block)
