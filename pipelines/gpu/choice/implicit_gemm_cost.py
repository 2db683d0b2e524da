"""What direct convolutions as implicit matrix products take."""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot, prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.packing.implicit_gemm import ImplicitGemmPacking
from iree.winograd.pipelines.gpu.schedules.implicit_gemm import ImplicitGemmSchedule
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .cost_model import launch_seconds

PEAK_FRACTIONS = {32: 0.57, 64: 0.85, 128: 0.85}
"""Of the rate of matrix units, by the columns of a block, while a warpgroup multiplies: with 32 they could
read 3 KiB in 16 cycles, and shared memory gives two thirds of that."""
STRIDED_FRACTION = 0.44
"""The same where outputs are strided, as it was measured of both kinds of patches."""
BEGIN_SECONDS = 1e-6
"""Of a workgroup, until its filters are there. Pointwise layers of 480 to 122880 pixels, whose code came from
memory, took an H200 0.9 to 1.1 of what is predicted."""
EDGE_SECONDS = 1e-6
"""Of a warpgroup's tile and block of channels: until its patch begins to come, and after the last product."""
EDGE_BYTES = 40e9
"""Bytes of patches and of outputs in a second, of one multiprocessor."""


def implicit_gemm_seconds(
    shape: ConvolutionShape, schedule: ImplicitGemmSchedule, machine: GpuMachine
) -> Mapping[str, float]:
    """Seconds of the one kernel of a convolution, and of its launch.

        tile   = operations / rate
        edge   = latency * blocks of channels + bytes of its patch and of its outputs / bandwidth
        direct = begin + tiles of the fullest warpgroup * (warpgroups * tile + edge)
                 + bytes of the other warpgroups' first patches and outputs / bandwidth

    beside the bytes of image, filters and result, as the root of the sum of the squares of the two.
    Warpgroups share matrix units, and each of them loads and stores while others multiply, but all of them
    load at first.
    """
    if machine.matrix_flops is None:
        raise ValueError(f"the rate of the matrix units of {machine.name} isn't known")
    packing = ImplicitGemmPacking(shape, schedule)
    batch = shape.images
    count = batch * packing.patch.expected_tiles
    warpgroups = schedule.warpgroups
    most = ceil_div(count, schedule.walking_workgroups * warpgroups)
    active = min(warpgroups, ceil_div(count, schedule.walking_workgroups))
    rows, columns = schedule.block_rows, schedule.block_columns
    operations = 2 * rows * columns * packing.reduction * schedule.products
    fraction = PEAK_FRACTIONS[columns] if set(shape.strides) == {1} else STRIDED_FRACTION
    tile = operations * machine.multiprocessors / (fraction * machine.matrix_flops)
    loaded = 4 * prod(packing.patch.extents) * packing.patch.channels + 4 * rows * columns
    edge = schedule.channel_blocks * EDGE_SECONDS + loaded / EDGE_BYTES
    rounds = ceil_div(packing.column_blocks * schedule.walking_workgroups, machine.multiprocessors)
    computed = BEGIN_SECONDS + rounds * most * (active * tile + edge) + (active - 1) * loaded / EDGE_BYTES
    moved = batch * (packing.column_blocks * shape.image_bytes + shape.result_bytes) + shape.filter_bytes
    return {
        "direct": hypot(computed, moved / machine.memory_bandwidth),
        "launch": launch_seconds(machine),
    }
