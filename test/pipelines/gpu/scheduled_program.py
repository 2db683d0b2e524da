"""A convolution that is computed by a given schedule."""

from __future__ import annotations

from dataclasses import dataclass

from convolution_program import Program
from iree.winograd.pipelines.gpu.schedules.fit import GpuSchedule
from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule

F2X2 = FusedSchedule(16, 8, 8, 4, thread_products=1, thread_tiles=4, thread_columns=4)


@dataclass(frozen=True)
class ScheduledProgram(Program):
    """A program whose convolution is computed by the kernels of this schedule."""

    schedule: GpuSchedule = F2X2
