"""What the kernel on vectors of pairs of bf16 takes by its schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.processor.matrix_unit import PAIR_BYTES, TILE_CHANNELS
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.bf16_vectors import Bf16VectorSchedule
from iree.winograd.pipelines.cpu.schedules.direct import in_lines
from iree.winograd.pipelines.cpu.schedules.tiled import merged_taps, split_chunks
from iree.winograd.pipelines.emission.numbers.bf16 import BF16
from iree.winograd.pipelines.machines.model import CpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .product_cost import filter_seconds, register_block_seconds
from .rates import COPIED_PIXEL_CYCLES, FINISHED_SUM_CYCLES, FINISHED_VECTOR_CYCLES, LONE_VECTOR_CYCLES
from .tiled_work import TiledWork
from .workers import Workers, complete


def bf16_vectors_seconds(
    shape: ConvolutionShape,
    schedule: Bf16VectorSchedule,
    target: CpuTarget,
    machine: CpuMachine,
    threads: int,
) -> Mapping[str, float]:
    """Seconds of the stages of `Bf16VectorKernel`, infinite where the machine's rate isn't known.

        products = register blocks * pairs of the reduction * what a channel of f32 takes, at their rate
        staging  = elements * chunks of channels, or those of rows of merged taps, * 12 cycles
        output   = outputs / 16 * (0.6 + 0.055 * vectors of sums of a register block) cycles

    and 0.8 cycles for each vector that isn't rounded together with its neighbour. Of fewer sums more products
    of the next register block are beside what becomes of them.

    Images of bf16 without padding, as far as the program has them so, are multiplied where they are.
    """
    if machine.bf16_flops is None:
        return {"products": inf}
    shape = in_lines(shape)
    work = TiledWork(shape, schedule)
    workers = Workers(machine, threads, work.workgroups)
    channel_blocks, register_blocks = work.channel_blocks, work.register_blocks
    pairs = schedule.pairs(shape)
    is_in_place = shape.exact_type == BF16.name and not shape.pads and schedule.takes_channels(shape)
    copied = 0 if is_in_place else _copied_chunks(shape, schedule, work)
    # An instruction has two products for each lane.
    of_pairs = replace(machine, flops=machine.bf16_flops / 2)
    per_pair = register_block_seconds(schedule.product, pairs, PAIR_BYTES, target, of_pairs)
    outputs = channel_blocks * register_blocks * schedule.tile_pixels * schedule.channel_tiles
    stages = {
        "staging": workers.load * copied * COPIED_PIXEL_CYCLES / machine.clock,
        "products": workers.load * channel_blocks * register_blocks * pairs * per_pair,
        "filters": filter_seconds(work.filter_bytes, work.parts, workers),
        "output": workers.load * outputs * _output_cycles(schedule) / machine.clock,
    }
    return complete(stages, workers)


def _output_cycles(schedule: Bf16VectorSchedule) -> float:
    """Of the epilogue and the store of a vector of outputs, beside products of the next register block."""
    vectors = schedule.channel_tiles
    waiting = FINISHED_SUM_CYCLES * schedule.tile_pixels * vectors
    return FINISHED_VECTOR_CYCLES + waiting + LONE_VECTOR_CYCLES * (vectors % 2) / vectors


def _copied_chunks(shape: ConvolutionShape, schedule: Bf16VectorSchedule, work: TiledWork) -> int:
    """Times 32 numbers that a workgroup copies. Of merged taps the elements of a row lie side by side."""
    if merged_taps(shape) == 1:
        return work.elements * split_chunks(shape)
    row = schedule.merged_row(shape, schedule.pixel_block)
    return schedule.staged_rows(shape) * ceil_div(row, TILE_CHANNELS)
