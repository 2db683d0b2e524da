"""What the gradient of a filter takes on a GPU by its schedule."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod, sqrt

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.packing.weight_gradient import WeightGradientPacking
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES
from iree.winograd.pipelines.gpu.schedules.weight_gradient import GpuWeightGradientSchedule
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import WeightGradientShape

from .cost_model import (
    GATHER_RATE,
    INPUT_ELEMENT_LATENCY,
    INPUT_LATENCY,
    OUTPUT_ELEMENT_LATENCY,
    OUTPUT_LATENCY,
    PRODUCT_LATENCY,
    full_threads,
    launch_seconds,
    moved_seconds,
)
from .rates import product_rate
from .representative import representative


def weight_gradient_seconds(
    shape: WeightGradientShape, schedule: GpuWeightGradientSchedule, machine: GpuMachine
) -> Mapping[str, float]:
    """Seconds of each stage, and of their launches.

        images, gradients = latency + bytes read and written / bandwidth
        products          = latency + operations on the fullest multiprocessor / (rate * sqrt(occupancy))
        total             = latency + bytes of the products of all blocks of tiles / bandwidth
        weights           = latency + bytes of products and of taps / bandwidth; without `total` of all blocks

    with the padding to whole blocks. Products take no less than their bytes, and transforms no less than it
    takes to gather channels that are no whole quads.
    """
    packing = WeightGradientPacking(shape, schedule)
    size, batch = shape.element_types.accumulator_bytes, representative(shape).images
    blocks = _tile_blocks(packing)
    images, gradients = (
        blocks * size * prod(each) for each in (packing.image_extents, packing.gradient_extents)
    )
    products = size * prod(packing.product_extents)
    workgroups = packing.row_blocks * packing.column_blocks * packing.products * blocks
    most = ceil_div(workgroups, machine.multiprocessors)
    occupancy = sqrt(min(1.0, most * schedule.threads / full_threads(machine)))
    rate = product_rate(schedule, machine) * occupancy
    operations = 2 * schedule.block_rows * schedule.block_columns * schedule.tile_block
    computed = most * operations * machine.multiprocessors / rate
    if schedule.reads_in_place:
        moved = _gathered_seconds(packing, machine) + blocks * products / machine.memory_bandwidth
    else:
        moved = (images + gradients + blocks * products) / machine.memory_bandwidth
    added = blocks if packing.adds_blocks_last else 1
    element_latency = OUTPUT_ELEMENT_LATENCY * shape.transform_size
    stages = {}
    if not packing.images_are_packed:
        source = batch * shape.image_bytes
        stages["images"] = _transform_seconds(packing, source, images, packing.image_by_quads, machine)
    if not packing.gradients_are_packed:
        source = batch * shape.result_bytes
        stages["gradients"] = _transform_seconds(packing, source, gradients, packing.output_by_quads, machine)
    stages |= {
        "products": max(PRODUCT_LATENCY + computed, moved),
        "weights": OUTPUT_LATENCY
        + element_latency
        + moved_seconds(_taps_bytes(shape), added * products, machine),
    }
    if blocks > 1 and not packing.adds_blocks_last:
        stages["total"] = OUTPUT_LATENCY + moved_seconds(0, (blocks + 1) * products, machine)
    return stages | {"launch": len(stages) * launch_seconds(machine)}


def _tile_blocks(packing: WeightGradientPacking) -> int:
    """Of the images that are expected."""
    tiles = representative(packing.shape).tiles
    assert tiles is not None
    return ceil_div(tiles, packing.schedule.tile_block)


def _gathered_seconds(packing: WeightGradientPacking, machine: GpuMachine) -> float:
    """To read operands of half precision for each block of rows, and of columns."""
    channels = packing.padded_rows * packing.column_blocks + packing.padded_filters * packing.row_blocks
    tiles = _tile_blocks(packing) * packing.schedule.tile_block
    return HALF_BYTES * tiles * channels / machine.cache_bandwidth


def _transform_seconds(
    packing: WeightGradientPacking, source: int, transformed: int, by_quads: bool, machine: GpuMachine
) -> float:
    latency = INPUT_LATENCY + INPUT_ELEMENT_LATENCY * packing.shape.transform_size
    gathering = 0.0 if by_quads else transformed / QUAD / (GATHER_RATE * machine.multiprocessors)
    return latency + max(moved_seconds(source, transformed, machine), gathering)


def _taps_bytes(shape: WeightGradientShape) -> int:
    taps = prod(shape.kernel_size) * shape.group_inputs * shape.output_channels
    return shape.element_types.accumulator_bytes * taps
