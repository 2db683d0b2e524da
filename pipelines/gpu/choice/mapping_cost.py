"""What products take whose rows are copied from the image by a map: fitted to 65 kernels on an H200.

They are those of 22 pointwise layers of 1568 to 100352 rows, by one to ten blocks each. Predictions are off
by 9% in the mean square. `benchmarks.gpu_layers` times what is chosen.
"""

from __future__ import annotations

from math import hypot, prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.machines.model import GpuMachine

PEAK_FRACTION = 1.03
"""Of the rate of matrix units, while stages are there: they run at more than the clock it is told for."""
COPIED_BYTES = 230e9
"""Of both operands that come to a multiprocessor in a second, where products don't wait for each other."""
STAGE_LATENCY = 0.6e-6
"""Seconds from the begin of a stage's copies to their end: stages that are under way share them."""
EDGE_SECONDS, COPIED_EDGE_SECONDS = 1.86e-6 / (128 * 128), 1.8e-6 / (128 * 128)
"""Of a sum of a multiprocessor, after the last stage of a block: by stores, and where results are copied. The
latter is 1.66 by the fit, by which 25088 x 768 by 192 has 16.7 us chosen where another block takes 14.0."""
ALTERNATING_EDGE_SECONDS = 1.2e-6 / (128 * 128)
"""The same while another warpgroup multiplies."""
BEGIN_SECONDS = 3.15e-6
"""Until the first block begins."""
_TOGETHER = 4
"""The larger of both times counts more by this power."""


def mapped_seconds(packing: SplitPacking, schedule: WarpgroupSchedule, machine: GpuMachine) -> float:
    """Seconds of the kernel that multiplies.

        stage    = max(hypot(operations / rate, bytes / bandwidth), latency / stages under way)
        products = begin + blocks of the fullest multiprocessor * (stages * stage + edge)

    beside the bytes of image, filters and results. Of warpgroups that alternate only the last block has an
    edge with nothing beside.
    """
    if machine.matrix_flops is None:
        raise ValueError(f"the rate of the matrix units of {machine.name} isn't known")
    shape, rows, columns = packing.shape, schedule.block_rows, schedule.block_columns
    tiles = shape.images * prod(shape.tiles_per_image)
    blocks = ceil_div(tiles, rows) * packing.column_blocks * packing.products
    most = ceil_div(blocks, machine.multiprocessors)
    operations = 2 * rows * columns * schedule.block_reduction
    multiplied = operations * machine.multiprocessors / (PEAK_FRACTION * machine.matrix_flops)
    copied = schedule.stage_bytes / COPIED_BYTES
    stage = max(hypot(multiplied, copied), STAGE_LATENCY / schedule.stages)
    edge = EDGE_SECONDS if schedule.result_bytes is None else COPIED_EDGE_SECONDS
    edges = most * edge
    if schedule.alternating_warpgroups is not None:
        edges = edge + (most - 1) * ALTERNATING_EDGE_SECONDS
    computed = BEGIN_SECONDS + most * packing.stages * stage + edges * rows * columns
    filters = packing.operand_bytes * packing.products * packing.padded_reduction * packing.padded_filters
    moved = shape.images * (shape.image_bytes + shape.result_bytes) + filters
    memory = moved / machine.memory_bandwidth
    return float((computed**_TOGETHER + memory**_TOGETHER) ** (1 / _TOGETHER))
