"""What products take whose rows are copied from the image by a map: fitted to 69 kernels on an H200.

They are those of 17 pointwise layers of 1568 to 100352 rows, by one to seven blocks each, whose threads store
eight neighbours. Predictions are off by 7% in the mean square, and the blocks that they choose take 1.002 of
the fastest ones' time in the mean. `benchmarks.gpu_layers` times what is chosen.
"""

from __future__ import annotations

from math import hypot, prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.machines.model import GpuMachine

PEAK_FRACTION = 1.02
"""Of the rate of matrix units, while stages are there: they run at more than the clock it is told for."""
COPIED_BYTES = 260e9
"""Of both operands that come to a multiprocessor in a second, where products don't wait for each other."""
STAGE_LATENCY = 0.5e-6
"""Seconds from the begin of a stage's copies to their end: stages that are under way share them."""
EDGE_SECONDS, COPIED_EDGE_SECONDS = 1.35e-6 / (128 * 128), 1.85e-6 / (128 * 128)
"""Of a sum of a multiprocessor, after the last stage of a block: by stores, and where results are copied."""
ALTERNATING_EDGE_SECONDS = 0.785e-6 / (128 * 128)
"""The same while another warpgroup multiplies."""
BEGIN_SECONDS = 2.25e-6
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
