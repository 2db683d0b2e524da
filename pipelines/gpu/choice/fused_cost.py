"""What the fused kernel takes, and when it pays: counts after Yan et al., PPoPP 2020, section 8.1."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod, sqrt

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .cost_model import launch_seconds
from .rates import fused_rates

FULL_SUMS = 8192
"""Sums in the registers of a multiprocessor that hide each other's latency."""


def fused_seconds(
    shape: ConvolutionShape, schedule: FusedSchedule, machine: GpuMachine
) -> Mapping[str, float]:
    """Seconds of the one kernel of a convolution, and of its launch.

        fused = workgroups on the fullest multiprocessor * operations / (its rate * sqrt(occupancy))
                + rounds * edge

    where `rounds` counts the workgroups that one takes one after another, and `edge` is what each takes
    before and after its products; no less than the bytes of image, filters and result take. Nothing that is
    transformed goes through memory: that is gained, for the tiles are smaller, and so need more products,
    than those of separate kernels.
    """
    batch = shape.images
    tiles, columns = batch * prod(shape.tiles_per_image), shape.group_outputs
    channels = shape.group_inputs
    workgroups = (
        ceil_div(tiles, schedule.block_tiles) * ceil_div(columns, schedule.block_columns) * shape.groups
    )
    resident = max(1, schedule.resident_threads // schedule.threads)
    most = ceil_div(workgroups, machine.multiprocessors)
    occupancy = min(1.0, most * schedule.threads * schedule.sums / FULL_SUMS)
    blocks = len(shape.decomposition.views) * ceil_div(channels, schedule.block_reduction)
    operations = 2 * blocks * schedule.block_reduction * schedule.block_tiles * schedule.block_columns
    reached = fused_rates(machine)[schedule]
    rate = reached.peak_fraction * machine.flops / machine.multiprocessors
    computed = most * operations * schedule.products / (rate * sqrt(occupancy))
    computed += ceil_div(most, resident) * reached.edge_seconds
    size = batch * (shape.image_bytes + shape.result_bytes) + shape.filter_bytes
    moved = size / machine.memory_bandwidth
    return {"fused": max(computed, moved), "launch": launch_seconds(machine)}
