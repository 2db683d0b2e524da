"""What convolutions take whose pixels matrix units have from a ring of rows in shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import hypot

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.schedules.grouped_ring import GroupedRingSchedule, GroupedRingTiling
from iree.winograd.pipelines.gpu.schedules.image_ring import ImageRingTiling
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES
from iree.winograd.pipelines.gpu.schedules.toeplitz import DepthwiseToeplitzSchedule, ToeplitzTiling
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .cost_model import clock_rate, launch_seconds

BEGIN_SECONDS, BEGIN_STRIPS = 0.5e-6, 1
"""Until code is there, and strips as long as which a workgroup waits for the first one of a ring."""
FEW_ROWS = 3
"""Of taps: there are few of them to wait for."""
ACCESS_BYTES = 64
"""Of a line, that a first cache takes a cycle for, as it does for fewer."""
SHARED_BYTES = 128
"""Of shared memory, in a cycle."""
PIXEL_CYCLES = 16
"""Of a multiprocessor, for what a warp loads of a step: eight bytes of each thread, eight times."""
RESULT_CYCLES = 8
"""For what it leaves of a product."""
TILE_STEP_CYCLES, TILE_CYCLES = 4, 6
"""For 16 outputs of a group, by step, and for their results."""


@dataclass(frozen=True)
class _Waits:
    """Seconds of workgroups that are resident at once, beside what the first cache takes."""

    round: float
    """Until their taps and first rows are there."""
    strip: float
    cycles: float
    """What those of the first cache are multiplied by."""


_OF_MANY_TAPS, _OF_FEW_TAPS = _Waits(1.6e-6, 0.3e-6, 0.8), _Waits(0.5e-6, 0.1e-6, 0.8)
_OF_GROUPS = _Waits(0.0, 0.1e-6, 1.8)


def toeplitz_seconds(
    shape: ConvolutionShape, schedule: DepthwiseToeplitzSchedule, machine: GpuMachine
) -> Mapping[str, float]:
    """Seconds of the one kernel, and of its launch.

        seconds = begin + root of the sum of squares of bytes / bandwidth of memory
                  and of rounds * waits and cycles of the fullest first cache / clock rate

    What is copied of a pixel, of an image or of results, takes a cycle for each 64 bytes of a line. Waits of
    many taps are fitted to 27 kernels of six depthwise layers on an H200, by 7% in the mean of squares, those
    of groups to 45 kernels of four layers, by 13%, those of few taps to earlier ones, by about 20%.
    """
    tiling = ToeplitzTiling(shape, schedule)
    cycles: float = (tiling.block_steps - tiling.kept_steps) * PIXEL_CYCLES
    cycles += tiling.products_below * RESULT_CYCLES
    waits = _OF_FEW_TAPS if shape.kernel_size[0] <= FEW_ROWS else _OF_MANY_TAPS
    return _seconds(tiling, schedule.warps * cycles, waits, machine)


def grouped_ring_seconds(
    shape: ConvolutionShape, schedule: GroupedRingSchedule, machine: GpuMachine
) -> Mapping[str, float]:
    """The same of groups of eight channels."""
    tiling = GroupedRingTiling(shape, schedule)
    tiles = ceil_div(tiling.tiles, schedule.unit_warps) * schedule.warps
    cycles = tiles * (tiling.steps * TILE_STEP_CYCLES + TILE_CYCLES)
    return _seconds(tiling, cycles, _OF_GROUPS, machine)


def _seconds(
    tiling: ImageRingTiling, cycles: float, waits: _Waits, machine: GpuMachine
) -> Mapping[str, float]:
    """By the cycles of what a workgroup multiplies and finishes a strip with."""
    shape, schedule = tiling.shape, tiling.schedule
    pixel_bytes = schedule.channels * HALF_BYTES
    lines = pixel_bytes / ACCESS_BYTES
    if tiling.groups > 1:
        lines = max(1.0, lines)
    loaded = tiling.strip_step * schedule.images * tiling.loaded_columns
    stored = schedule.strip_rows * schedule.images * shape.output_size[1]
    cycles += (loaded + stored) * lines + stored * pixel_bytes / SHARED_BYTES
    strips = tiling.section_strips
    workgroups = shape.images // schedule.images * tiling.sections * tiling.groups
    most = ceil_div(workgroups, machine.multiprocessors)
    clock = clock_rate(machine)
    begin = 0 if tiling.holds_section else BEGIN_STRIPS
    computed = most * (strips + begin) * cycles * waits.cycles / clock
    rounds = ceil_div(most, max(1, schedule.resident // schedule.threads))
    computed += rounds * (waits.round + strips * waits.strip)
    # Rows that sections share come out of a cache.
    moved = shape.images * (shape.image_bytes + shape.result_bytes) + shape.filter_bytes
    seconds = BEGIN_SECONDS + hypot(moved / machine.memory_bandwidth, computed)
    return {schedule.stage: seconds, "launch": launch_seconds(machine)}
