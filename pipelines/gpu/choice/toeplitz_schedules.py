"""Schedules of depthwise convolutions on matrix units, among which one is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS, WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.fit import has_toeplitz_products, kernel_misfit
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_TYPES
from iree.winograd.pipelines.gpu.schedules.toeplitz import (
    FEW_COLUMNS,
    STRIP_ROWS,
    DepthwiseToeplitzSchedule,
    ToeplitzTiling,
)
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .image_ring_cost import FEW_ROWS

QUADS = (12, 8, 4)
"""Of a workgroup: whole sectors of each pixel. An H200 took 19 us by two quads, and 11 by four, for
32 x 28 x 28 x 240 and 5 x 5 taps."""
UNEVEN_QUADS, UNEVEN_ROWS = 15, 8
"""Of a workgroup, and of its rows, where no pixel is whole sectors: 28 x 28 x 120 and 5 x 5 taps took 6.5 us,
6.8 by blocks, 6.7 by 16 rows of one image."""
IMAGES = (1, 2, 4, 8)
LEAST_FILLED = 0.8
"""Of the blocks of outputs that tiles have room for."""
SECTION_ROWS = (28, 56)
RESIDENT_THREADS = (384, 512)
"""Of a multiprocessor, of which the first are taken that a workgroup has no more than."""
MIN_OUTPUTS, MIN_OUTPUTS_OF_MANY_COLUMNS = 14 * 14, 7 * 7
"""Of an image, and of one of more columns of taps than four neighbouring outputs have. An H200 took 8.8 us
for 32 x 7 x 7 x 1152 and 5 x 5 taps, by columns 4.2, but 4.5 for 7 x 7 x 768 and 7 x 7, by columns 7.6."""
SPARE_STRIPS, SPARE_STRIPS_OF_FEW_ROWS, HELD_STRIPS = 1, 2, 4
"""Of rings, of those for few rows of taps, which read two strips, and where all rows of small images lie in
shared memory, if they fit."""
MAX_HELD_ROWS = 16
"""Of outputs of such an image, of which no multiprocessor has a second workgroup. 14 x 14 x 480 took 5.5 us
so, by strips 6.1, by a ring with one spare strip 5.9, 14 x 14 x 384 of 7 x 7 taps 5.8 and 6.1; 28 x 28 x 240
9.5 with two spare strips, 9.1 with one. 14 x 14 x 672 took 7.6 us by 112 workgroups with one spare strip, by
168 or more 8.0 to 11.6, by strips 7.9."""
MAX_CHANNELS_OF_FEW_ROWS = 32
"""Of layers of up to three rows of taps: 56 x 56 x 144 took 21.2 us, by blocks 19.2, but 112 x 112 x 16 7.6
and 9.1."""
MIN_WARPS = 4
"""Of a multiprocessor: fewer were not measured."""


def toeplitz_schedules(
    shape: ConvolutionShape, target: GpuTarget, machine: GpuMachine
) -> Iterator[DepthwiseToeplitzSchedule]:
    """Those for images of half precision, by quads and rows of a workgroup."""
    if shape.exact_type not in HALF_TYPES or not has_toeplitz_products(shape):
        return
    is_few = shape.kernel_size[0] <= FEW_ROWS
    least = MIN_OUTPUTS if shape.kernel_size[1] <= FEW_COLUMNS else MIN_OUTPUTS_OF_MANY_COLUMNS
    if prod(shape.output_size) < least or (is_few and shape.output_channels > MAX_CHANNELS_OF_FEW_ROWS):
        return
    height = ceil_div(shape.output_size[0], STRIP_ROWS) * STRIP_ROWS
    heights = list(dict.fromkeys(min(each, height) for each in SECTION_ROWS))
    sections = list(product(QUADS[-1:] if is_few else QUADS, heights[:1] if is_few else heights))
    if not is_few and shape.kernel_size[1] <= FEW_COLUMNS and height > MAX_HELD_ROWS:
        is_even = shape.output_channels % (QUADS[-1] * QUAD) == 0
        sections += [] if is_even else [(UNEVEN_QUADS, UNEVEN_ROWS)]
    for quads, rows in sections:
        schedule = _schedule(shape, quads, rows)
        if schedule is None or kernel_misfit(shape, target, schedule) is not None:
            continue
        tiling = ToeplitzTiling(shape, schedule)
        workgroups = shape.images // schedule.images * tiling.sections * tiling.groups
        is_busy = workgroups * schedule.warps >= MIN_WARPS * machine.multiprocessors
        if schedule.threads > max(RESIDENT_THREADS) or not is_busy:
            continue
        if shape.output_size[0] > MAX_HELD_ROWS:
            yield schedule
        elif workgroups <= machine.multiprocessors:
            held = replace(schedule, spare_strips=HELD_STRIPS)
            yield held if kernel_misfit(shape, target, held) is None else schedule
        elif shape.kernel_size[1] > FEW_COLUMNS:
            yield schedule


def _schedule(shape: ConvolutionShape, quads: int, rows: int) -> DepthwiseToeplitzSchedule | None:
    """That of the fewest images whose blocks fill tiles, or that fill most of them."""
    if shape.output_channels % (quads * QUAD):
        return None
    filled = {}
    for images in IMAGES:
        if shape.images % images == 0:
            tiling = ToeplitzTiling(shape, _of(shape, quads, rows, images, 1))
            filled[images] = tiling.blocks / (tiling.tiles * MATRIX_ROWS)
    enough = (images for images, part in filled.items() if part >= LEAST_FILLED)
    images = next(enough, max(filled, key=lambda images: filled[images]))
    tiles = ToeplitzTiling(shape, _of(shape, quads, rows, images, 1)).tiles
    return _of(shape, quads, rows, images, tiles)


def _of(shape: ConvolutionShape, quads: int, rows: int, images: int, tiles: int) -> DepthwiseToeplitzSchedule:
    assert shape.exact_type is not None
    threads = quads * tiles * WARP_THREADS
    resident = next((each for each in RESIDENT_THREADS if threads <= each), threads)
    spare = SPARE_STRIPS_OF_FEW_ROWS if shape.kernel_size[0] <= FEW_ROWS else SPARE_STRIPS
    type_ = shape.exact_type
    return DepthwiseToeplitzSchedule(threads, quads, images, rows, resident, spare, multiplied_type=type_)
