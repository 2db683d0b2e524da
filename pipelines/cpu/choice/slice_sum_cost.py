"""What adding up the gradients of a filter takes that were computed of slices of the images."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from iree.winograd.pipelines.machines.model import CpuMachine
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .workers import Workers, complete


def slice_sum_seconds(
    shape: ConvolutionShape, slices: int, machine: CpuMachine, threads: int
) -> Mapping[str, float]:
    """Seconds of `SliceSum`: it reads those of all slices, and writes their sums."""
    workers = Workers(machine, threads, prod(shape.kernel_size))
    taps = shape.element_types.result_bytes * (
        prod(shape.kernel_size) * shape.group_inputs * shape.output_channels
    )
    read = (slices + 1) * taps / workers.count / workers.shared_bandwidth(slices * taps)
    return complete({"total": read}, workers)
