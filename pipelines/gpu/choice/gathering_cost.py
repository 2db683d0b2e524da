"""What products take that gather their rows from the image: fitted to 72 kernels of 28 layers on an H200.

They are pointwise layers of 2 to 100352 rows, by two to five blocks each, and 3 x 3 ones of VGG-16 and
ResNet-18. Predictions are off by 7% in the mean. `benchmarks.gpu_layers` times what is chosen.
"""

from __future__ import annotations

from math import hypot, prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES, STAGE_ROW_BYTES
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

PEAK_FRACTION = 0.86
"""Of the rate of matrix units, while stages are there."""
GATHERED_BYTES = 58e9
"""Of rows that come to a multiprocessor in a second, chunk by chunk."""
COPIED_BYTES = 51e9
"""Of filters, which come by the stage beside them: to all multiprocessors what the second cache gives."""
STAGE_LATENCY = 1.2e-6
"""Seconds from the begin of a stage's copies to their end: stages that are under way share them."""
EDGE_SECONDS = 1.95e-6 / (128 * 128)
"""Of a sum of a multiprocessor, after the last stage of a block."""
COPIED_EDGE_SECONDS = 1.1e-6 / (128 * 128)
"""The same where results leave by copies, of blocks of 128 x 160 that took 20.5 us in place of 22.6."""
BEGIN_SECONDS = 1.6e-6
"""Until the first block begins."""


def gathered_seconds(packing: SplitPacking, schedule: WarpgroupSchedule, machine: GpuMachine) -> float:
    """Seconds of the kernel that multiplies.

        stage    = max(resident * operations / rate, resident * bytes / bandwidth, latency / stages under way)
        products = begin + rounds of the fullest multiprocessor * (stages * stage + resident * edge)

    with the bytes of the operand that takes longer to come, beside those of image, filters and sums, as the
    root of the sum of the squares of the two. In the last round fewer workgroups may be resident, which then
    don't share the multiprocessor.
    """
    if machine.matrix_flops is None:
        raise ValueError(f"the rate of the matrix units of {machine.name} isn't known")
    shape, rows, columns = packing.shape, schedule.block_rows, schedule.block_columns
    tiles, parts = shape.images * prod(shape.tiles_per_image), schedule.reduction_parts
    blocks = ceil_div(tiles, rows) * packing.column_blocks * packing.products * parts
    most = ceil_div(blocks, machine.multiprocessors)
    resident = min(schedule.resident_workgroups, most)
    operations = 2 * rows * columns * schedule.block_reduction
    multiplied = operations * machine.multiprocessors / (PEAK_FRACTION * machine.matrix_flops)
    copied = STAGE_ROW_BYTES * max(rows / GATHERED_BYTES, columns / COPIED_BYTES)
    edge = (COPIED_EDGE_SECONDS if _copies_results(shape, schedule) else EDGE_SECONDS) * rows * columns

    def round_seconds(together: int) -> float:
        stage = max(together * multiplied, together * copied, STAGE_LATENCY / schedule.stages)
        return packing.part_stages * stage + together * edge

    whole, rest = divmod(most, resident)
    computed = BEGIN_SECONDS + whole * round_seconds(resident) + (round_seconds(rest) if rest else 0.0)
    written = shape.images * shape.result_bytes
    if parts > 1:
        written = shape.element_types.accumulator_bytes * parts * tiles * packing.padded_filters
    filters = packing.operand_bytes * packing.products * packing.padded_reduction * packing.padded_filters
    moved = shape.images * shape.image_bytes + filters + written
    return hypot(computed, moved / machine.memory_bandwidth)


def _copies_results(shape: ConvolutionShape, schedule: WarpgroupSchedule) -> bool:
    """Whether results are as narrow as those that leave by copies, which sums of parts are not."""
    if schedule.result_bytes is None or schedule.reduction_parts > 1:
        return False
    width = shape.element_types.result_bytes if shape.rounded_type is None else HALF_BYTES
    return width <= schedule.result_bytes
