"""What the matrix unit's kernel takes by its schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from iree.winograd.pipelines.cpu.processor.matrix_unit import TILE_ROWS
from iree.winograd.pipelines.cpu.schedules.direct import in_lines
from iree.winograd.pipelines.cpu.schedules.matrix_unit import (
    F16MatrixUnitSchedule,
    HalfMatrixUnitSchedule,
    MatrixUnitSchedule,
)
from iree.winograd.pipelines.cpu.schedules.tiled import TileSchedule, split_chunks
from iree.winograd.pipelines.machines.model import CpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .product_cost import filter_seconds
from .rates import (
    COPIED_PIXEL_CYCLES,
    F16_TILE_EFFICIENCY,
    GRANITE_TILE_EFFICIENCY,
    HIDDEN_OUTPUT,
    PERMISSION_SECONDS,
    SPLIT_FILTER_CYCLES,
    SPLIT_PIXEL_CYCLES,
    STORE_CYCLES,
    TILE_EFFICIENCY,
    TILE_ROW_CYCLES,
)
from .tiled_work import TiledWork
from .workers import Workers, complete


def matrix_unit_seconds(
    shape: ConvolutionShape, schedule: TileSchedule, machine: CpuMachine, threads: int
) -> Mapping[str, float]:
    """Seconds of the stages of `MatrixUnitKernel`, and of `HalfMatrixUnitKernel`.

        products = register blocks * tiles of the reduction * max(6 * tiles of sums * tile_pixels,
                   1.3 * rows of tiles that are loaded) cycles / efficiency
        staging  = elements * chunks of channels * 33 + rows of filters * 9 cycles
        output   = outputs / 16 * 2 * 2.9 cycles

    where a tile of the reduction, or a chunk, is 32 channels of a tap. Sums go through memory, hence twice.
    Fetching filters ahead is no gain: it keeps tiles waiting. Of bf16 there is one product in place of six,
    of f16 three, filters are packed beforehand, and a chunk is copied in 12 cycles. Outputs are made while
    the next products are computed, which hides 0.4 of them.
    """
    shape = in_lines(shape)
    work = TiledWork(shape, schedule)
    workers = Workers(machine, threads, work.workgroups)
    channel_blocks, register_blocks, elements = work.channel_blocks, work.register_blocks, work.elements
    cycle = 1 / machine.clock
    chunks, steps = split_chunks(shape), schedule.reduction_tiles(shape)
    block, part_products = schedule.block, schedule.part_products
    multiplied = len(part_products) * block.row_tiles * block.channel_tiles * work.tile_rows
    row_loads, filter_loads = (_changes(parts) for parts in zip(*part_products, strict=True))
    loaded = row_loads * block.row_tiles * work.tile_rows
    loaded += filter_loads * block.channel_tiles * TILE_ROWS
    efficiency = F16_TILE_EFFICIENCY if isinstance(schedule, F16MatrixUnitSchedule) else TILE_EFFICIENCY
    efficiency = GRANITE_TILE_EFFICIENCY if machine.name == "graniterapids" else efficiency
    per_step = max(multiplied, TILE_ROW_CYCLES * loaded) / efficiency
    products = workers.load * channel_blocks * register_blocks * steps * per_step * cycle
    filter_rows = channel_blocks * steps * TILE_ROWS * schedule.channel_tiles
    split_cycles = COPIED_PIXEL_CYCLES * elements * chunks
    if isinstance(schedule, MatrixUnitSchedule):
        split_cycles = SPLIT_PIXEL_CYCLES * elements * chunks + SPLIT_FILTER_CYCLES * filter_rows
    outputs = channel_blocks * register_blocks * block.row_tiles * work.tile_rows * schedule.channel_tiles
    output = workers.load * outputs * 2 * STORE_CYCLES * cycle
    if isinstance(schedule, HalfMatrixUnitSchedule):
        output -= min(HIDDEN_OUTPUT * output, products)
    stages = {
        "staging": workers.load * (split_cycles * cycle + PERMISSION_SECONDS),
        "products": products,
        "filters": filter_seconds(work.filter_bytes, work.parts, workers),
        "output": output,
    }
    return complete(stages, workers)


def _changes(parts: Sequence[int]) -> int:
    """How often the part of an operand is loaded, where another one is multiplied than before."""
    return 1 + sum(before != part for before, part in pairwise(parts))
