"""Long sums are added in blocks: their errors are those predicted of blocks, not those of a running sum."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from convolution_program import Program
from iree.winograd.dialect.algebra.numerics import (
    FRAME_SUM_BLOCK,
    LONGEST_RUNNING_SUM,
    SUM_BLOCK,
    predicted_error,
)
from iree.winograd.pipelines.cpu.schedules.depthwise import DepthwiseSchedule
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from wide import wide, wide_combinations

SPREAD = 1.5
"""Of a mean error over a few hundred outputs around the one that is expected."""
DIRECT = DirectSchedule(vector_width=4, register_pixels=2, register_vectors=2, row_block=2, pixel_block=3)
DEPTHWISE = DepthwiseSchedule(vector_width=8, register_pixels=4, row_block=2, vectors_per_pass=1)
ONE = {rank: ((1,) * rank, (1,) * rank) for rank in (1, 2, 3)}
ON_CPU = [
    # Channels side by side, rows of taps, taps of groups, rows of a few products each.
    Program((6, 6), 20011, 8, (1, 1), *ONE[2], schedule=replace(DIRECT, row_block=1)),
    Program((8, 9), 608, 8, (5, 5), *ONE[2], schedule=DIRECT),
    Program((8, 9), 608, 8, (5, 5), *ONE[2], low=(2, 2), high=(2, 2), schedule=DIRECT),
    Program((200,), 96, 16, (160,), *ONE[1], groups=2, schedule=replace(DIRECT, row_block=1)),
    Program((75, 75, 7), 3, 8, (73, 73, 2), *ONE[3], schedule=DIRECT),
    # Groups of one channel, row by row and tap by tap, and a single vector of output channels.
    Program((136, 136), 8, 8, (130, 130), *ONE[2], groups=8, schedule=DEPTHWISE),
    Program((16430,), 8, 8, (16384,), *ONE[1], groups=8, schedule=replace(DEPTHWISE, row_block=1)),
    Program((9, 9), 1700, 8, (3, 3), *ONE[2], schedule=DEPTHWISE),
]
GEMM = GemmSchedule(32, 32, 16, 4, 4)
ON_GPU = [
    Program((6, 6), 20000, 8, (1, 1), *ONE[2], schedule=GEMM),
    Program((6, 6), 1700, 8, (3, 3), *ONE[2], schedule=GEMM),
]


SIGNAL = [
    Program((2000,), 1, 40, (1024,), *ONE[1], strides=(64,)),
    Program((2000,), 1, 40, (1000,), *ONE[1], strides=(64,), low=(500,), high=(500,)),
]
"""Frames, of sums that are not long."""


def check(program: Program, target: str, device: str) -> None:
    inputs, views = program.channels // program.groups, prod(program.kernel)
    assert inputs * views > LONGEST_RUNNING_SUM

    def error_of(block: int) -> float:
        return predicted_error(program.m, program.p, inputs, views=views, reduction_block=block)

    result, expected = program.run(target=target, device=device)
    error = np.abs(result - expected).mean() / np.abs(expected).mean()
    in_blocks = SPREAD * error_of(SUM_BLOCK)
    assert in_blocks < error_of(inputs * views), "a running sum would be as good"
    assert error <= in_blocks


@pytest.mark.parametrize(
    ("program", "target"),
    [
        (ON_CPU[0], "cpu"),
        *wide_combinations([*((program, "cpu") for program in ON_CPU[1:]), (ON_CPU[0], "cpu:haswell")]),
    ],
    ids=str,
)
def test_on_cpus(program: Program, target: str) -> None:
    check(program, target, "local-sync")


@pytest.mark.parametrize("program", wide(ON_GPU), ids=str)
def test_on_gpus(program: Program, gpu_target: str, gpu_device: str) -> None:
    check(program, gpu_target, gpu_device)


@pytest.mark.parametrize("program", [SIGNAL[1], *wide(SIGNAL[:1])], ids=str)
def test_frames_of_signals(program: Program) -> None:
    (taps,) = program.kernel
    result, expected = program.run()
    error = np.abs(result - expected).mean() / np.abs(expected).mean()
    in_blocks = SPREAD * predicted_error((1,), (1,), 1, views=taps, reduction_block=FRAME_SUM_BLOCK)
    assert in_blocks < predicted_error((1,), (1,), 1, views=taps), "a running sum would be as good"
    assert error <= in_blocks
