"""A convolution, two implementations of it, and what they took."""

from __future__ import annotations

from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from iree.winograd.pipelines.selection.implementation import Implementation
from iree.winograd.pipelines.selection.tuning_database import Measurement

PROBLEM = ConvolutionProblem.parse(
    "1x56x56x64->64 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32"
)
KEY = "x86-64 znver4, threads 1"
DIRECT = Implementation(Algorithm((1, 1), (1, 1)), DirectSchedule(16, 6, 4, 2, 28))
TILED = Implementation(Algorithm((4, 4), (3, 3)), WinogradSchedule(16, 28, 7, 2, 64, input_block=8))
TIMES = (Measurement(TILED, 1e-3, 0.01, 100), Measurement(DIRECT, 2e-3, 0.02, 50))


def never(message: str) -> None:
    raise AssertionError(message)
