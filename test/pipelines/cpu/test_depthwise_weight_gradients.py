"""The CPU kernel of depthwise weight gradients against float64, within the a-priori bound of its sums."""

from __future__ import annotations

from dataclasses import replace

import pytest
from checked_programs import check_together
from iree.winograd.pipelines.cpu.schedules.depthwise_weight_gradient import DepthwiseWeightGradientSchedule
from weight_gradient_program import WeightGradientProgram
from wide import batches, wide


def depthwise(
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    groups: int,
    channels: int = 1,
    outputs: int = 1,
    **rest: object,
) -> WeightGradientProgram:
    """Of so many channels and outputs of each group."""
    ones = (1,) * len(size)
    return WeightGradientProgram(size, kernel, ones, ones, channels, outputs, groups=groups, **rest)


CHANNELS = [depthwise((9, 8), (3, 3), groups, padding=(1, 1)) for groups in (2, 3, 16, 17, 40, 96)]
WINDOWS = [
    depthwise((12, 13), (3, 3), 24, strides=(2, 2), padding=(1, 1)),
    depthwise((11, 14), (5, 3), 20, strides=(1, 2), dilations=(2, 3), padding=(4, 3)),
    depthwise((9, 30), (7, 7), 16, padding=(3, 3)),
    depthwise((9, 9), (1, 1), 16, strides=(2, 2)),
    depthwise((4, 5), (5, 5), 16, padding=(4, 4)),
    depthwise((3, 2), (9, 11), 16, padding=(8, 9)),
    # Blocks of a row each, of which the first ones read no row by all taps.
    depthwise((7, 100), (5, 5), 16, padding=(2, 2)),
]
LONG_ROWS = [
    depthwise((8, 20), (1, 37), 16, padding=(0, 18)),
    depthwise((31, 31), (31, 31), 5, padding=(15, 15), batch=1),
]
"""Whose taps a loop takes one after the other."""
RANKS = [
    depthwise((40,), (9,), 20, padding=(4,), strides=(2,)),
    depthwise((5, 6, 7), (3, 3, 3), 18, padding=(1, 1, 1), strides=(1, 2, 1)),
]
GROUPS = [
    depthwise((9, 8), (3, 3), 12, outputs=2, padding=(1, 1)),
    depthwise((9, 8), (3, 3), 12, channels=2, padding=(1, 1), strides=(2, 1)),
    depthwise((9, 8), (3, 3), 9, channels=4, outputs=4, padding=(1, 1)),
    depthwise((9, 8), (1, 5), 6, channels=16, outputs=8, padding=(0, 2)),
]
SLICED = DepthwiseWeightGradientSchedule(
    vector_width=4,
    register_tap_rows=3,
    register_pixels=3,
    interleaved_sums=2,
    pixel_block=24,
    slices=4,
    channel_splits=2,
)
"""Of which neither rows, blocks nor vectors divide what there is; for all targets."""
SLICES = [
    depthwise((11, 8), (3, 3), 22, padding=(1, 1), batch=3, schedule=SLICED),
    depthwise((11, 8), (3, 3), 22, padding=(1, 1), batch=1, schedule=replace(SLICED, slices=9)),
]
OTHERS = [
    depthwise((9, 8), (3, 3), 24, padding=(1, 1), channels_last=False),
    depthwise((9, 8), (3, 3), 24, padding=(1, 1), batch=5, dynamic_batch=True),
    depthwise((11, 8), (3, 3), 22, padding=(1, 1), batch=3, dynamic_batch=True, schedule=SLICED),
]
OPEN = depthwise((28, 28), (3, 3), 20, padding=(1, 1), dynamic_size=True)
OPEN_SIZES = [
    replace(OPEN, strides=(2, 2), channels_last=False, dynamic_batch=True),
    *wide(
        [
            OPEN,
            replace(OPEN, static_width=True, dynamic_batch=True),
            replace(OPEN, size=(11, 8), static_width=True, schedule=SLICED),
            replace(OPEN, size=(11, 8), schedule=SLICED, dynamic_batch=True),
            replace(OPEN, kernel=(5, 3), strides=(1, 2), dilations=(2, 3), padding=(4, 3)),
            replace(OPEN, groups=6, channels=2, outputs=4),
            replace(OPEN, kernel=(3, 37), padding=(1, 18)),
            depthwise((40,), (9,), 20, padding=(4,), strides=(2,), dynamic_size=True),
            depthwise((5, 6, 7), (3, 3, 3), 18, padding=(1, 1, 1), strides=(1, 2, 1), dynamic_size=True),
        ]
    ),
]
"""Programs for images of any size; rows and columns are left of strides."""
ALL = [*CHANNELS, *WINDOWS, *LONG_ROWS, *RANKS, *GROUPS, *SLICES, *OTHERS]
SAMPLE = [
    CHANNELS[0],
    CHANNELS[4],
    WINDOWS[1],
    LONG_ROWS[0],
    RANKS[1],
    GROUPS[1],
    SLICES[0],
    OTHERS[2],
]


@pytest.mark.parametrize("programs", batches(ALL, SAMPLE))
def test_agrees_with_float64(programs: list[WeightGradientProgram]) -> None:
    check_together(programs)


@pytest.mark.parametrize("cpu", ["x86-64", "haswell"])
@pytest.mark.wide
def test_agrees_with_float64_on_lesser_targets(cpu: str) -> None:
    check_together([SLICES[0], GROUPS[2]], target=f"cpu:{cpu}")


def test_workgroups_run_in_parallel() -> None:
    check_together(SLICES[:1], devices=["local-task"])


@pytest.mark.parametrize("program", OPEN_SIZES, ids=str)
def test_agrees_with_float64_at_sizes_known_at_run_time(program: WeightGradientProgram) -> None:
    batches = (1, 3) if program.dynamic_batch else (program.batch,)
    program.check_sizes(program.random_sizes(8), batches, threads=2 if program.dynamic_batch else 1)
