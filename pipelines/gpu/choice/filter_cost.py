"""What the transform of filters takes on a GPU that are known only at run time."""

from __future__ import annotations

from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from iree.winograd.pipelines.gpu.schedules.gemv import GemvSchedule
from iree.winograd.pipelines.gpu.schedules.matrix import MatrixSchedule
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .cost_model import launch_seconds, moved_seconds

FILTER_LATENCY = 1.5e-6
"""Seconds of a kernel that transforms filters, beside those of their bytes."""
SPLIT_FILTER_LATENCY = 2.5e-6
"""The same of one that finds their scales before, until it has them."""
ROUND_LATENCY, TAP_LATENCY, ELEMENT_LATENCY = 0.2e-6, 0.19e-6, 0.07e-6
"""Of one of its workgroups for so many positions along the reduction dimension as it has threads, for each
tap that it loads there, and for each element that it writes."""
FILTER_THREADS = 128
"""Of such a workgroup, which has a quad of output channels."""


def filter_seconds(
    shape: ConvolutionShape, schedule: GemmSchedule | GemvSchedule | FusedSchedule, machine: GpuMachine
) -> float:
    """Seconds of the kernel that transforms and packs filters in each call, and of its launch.

    filter = latency + bytes of taps and of what is packed / bandwidth
    """
    del schedule
    return FILTER_LATENCY + _moved_seconds(shape, machine) + launch_seconds(machine)


def split_filter_seconds(shape: ConvolutionShape, schedule: MatrixSchedule, machine: GpuMachine) -> float:
    """The same of one that splits them, too, or rounds them.

        filter = latency + rounds * workgroups on the fullest multiprocessor
                           * (latency of a round + taps * 0.19 us + A * 0.07 us)

    as measured on an H200 for 64 to 512 channels, and no less than its bytes take.
    """
    packing = SplitPacking(shape, schedule)
    workgroups = packing.padded_filters // QUAD * shape.groups
    rounds = ceil_div(packing.padded_reduction, FILTER_THREADS) * ceil_div(
        workgroups, machine.multiprocessors
    )
    elements = shape.transform_size
    latency = ROUND_LATENCY + TAP_LATENCY * prod(shape.decomposition.part_size) + ELEMENT_LATENCY * elements
    seconds = max(_moved_seconds(shape, machine), rounds * latency)
    return SPLIT_FILTER_LATENCY + seconds + launch_seconds(machine)


def _moved_seconds(shape: ConvolutionShape, machine: GpuMachine) -> float:
    taps = shape.element_types.filter_bytes * prod(shape.kernel_size)
    return moved_seconds(taps * shape.group_inputs * shape.output_channels, shape.filter_bytes, machine)
