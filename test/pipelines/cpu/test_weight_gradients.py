"""CPU kernels of weight gradients against float64, within the a-priori error bound of their algorithm."""

from __future__ import annotations

from dataclasses import replace

import iree.winograd
import numpy as np
import pytest
from checked_programs import check_together
from iree.winograd.pipelines.cpu.schedules.weight_gradient import WeightGradientSchedule
from weight_gradient_program import WeightGradientProgram
from wide import batches, wide

TILES = [WeightGradientProgram((14, 13), (3, 3), (m, m), (3, 3), 20, 24, padding=(1, 1)) for m in (2, 4, 6)]
CHANNELS = [
    WeightGradientProgram((10, 10), (3, 3), (4, 4), (3, 3), channels, outputs, padding=(1, 1))
    for channels, outputs in [(1, 1), (3, 10), (17, 33), (100, 7)]
]
VIEWS = [
    WeightGradientProgram((12, 12), (5, 5), (4, 4), (3, 3), padding=(2, 2)),
    WeightGradientProgram((15, 14), (3, 3), (4, 4), (2, 2), strides=(2, 2), padding=(1, 1)),
    WeightGradientProgram((15, 17), (3, 3), (4, 4), (3, 3), dilations=(2, 2), padding=(2, 2)),
    WeightGradientProgram(
        (19, 17), (3, 3), (2, 2), (2, 3), 8, 16, strides=(2, 1), dilations=(3, 2), padding=(3, 2)
    ),
    WeightGradientProgram((17, 9), (7, 1), (4, 1), (7, 1), padding=(3, 0)),
]
DIRECT = [
    WeightGradientProgram((14, 14), (1, 1), (1, 1), (1, 1), 32, 40, strides=(2, 2)),
    WeightGradientProgram((21, 21), (7, 7), (1, 1), (1, 1), 3, 64, strides=(2, 2), padding=(3, 3)),
    WeightGradientProgram((13, 11), (5, 3), (1, 1), (1, 1), 5, 10, dilations=(2, 2), padding=(2, 1)),
]
OTHERS = [
    WeightGradientProgram((12, 11), (3, 3), (4, 4), (3, 3), 8, 16, padding=(1, 1), groups=2),
    WeightGradientProgram((12, 11), (3, 3), (4, 4), (3, 3), 8, 16, padding=(1, 1), channels_last=False),
    WeightGradientProgram(
        (12, 11), (3, 3), (1, 1), (1, 1), 6, 9, strides=(2, 1), groups=2, channels_last=False
    ),
    WeightGradientProgram((33,), (5,), (4,), (5,), 16, 24, padding=(2,)),
    WeightGradientProgram((6, 7, 8), (3, 3, 3), (2, 2, 2), (3, 3, 3), 8, 16, padding=(1, 1, 1)),
]
SLICED = WeightGradientSchedule(
    vector_width=4,
    tile_block=6,
    row_block=4,
    channel_block=8,
    register_rows=2,
    register_vectors=1,
    tile_slices=3,
)
"""Of which blocks of tiles, of rows and of channels don't divide what there is; for all targets."""
SLICES = [
    WeightGradientProgram((14, 13), (3, 3), (4, 4), (3, 3), 6, 12, batch=3, padding=(1, 1), schedule=SLICED),
    WeightGradientProgram(
        (14, 13), (3, 3), (4, 4), (3, 3), 6, 12, padding=(1, 1), schedule=replace(SLICED, tile_slices=1)
    ),
    WeightGradientProgram(
        (17, 16), (5, 5), (2, 2), (2, 2), 5, 9, strides=(2, 2), padding=(2, 2), groups=2, schedule=SLICED
    ),
    WeightGradientProgram(
        (12, 11), (3, 3), (4, 4), (3, 3), 6, 12, padding=(1, 1), channels_last=False, schedule=SLICED
    ),
]
DYNAMIC = [
    WeightGradientProgram((14, 13), (3, 3), (4, 4), (3, 3), 20, 24, padding=(1, 1), dynamic_batch=True),
    WeightGradientProgram((10, 9), (1, 1), (1, 1), (1, 1), 32, 40, 5, strides=(2, 2), dynamic_batch=True),
    WeightGradientProgram(
        (14, 13), (3, 3), (4, 4), (3, 3), 6, 12, 3, padding=(1, 1), dynamic_batch=True, schedule=SLICED
    ),
    WeightGradientProgram(
        (12, 11), (3, 3), (4, 4), (3, 3), 8, 16, 3, padding=(1, 1), channels_last=False, dynamic_batch=True
    ),
    WeightGradientProgram((33,), (5,), (1,), (1,), 16, 24, 7, padding=(2,), groups=2, dynamic_batch=True),
]
OPEN = WeightGradientProgram((28, 28), (3, 3), (4, 4), (3, 3), 20, 24, padding=(1, 1), dynamic_size=True)
OPEN_SIZES = [
    replace(OPEN, strides=(2, 2), p=(2, 2), groups=2, channels_last=False, dynamic_batch=True),
    *wide(
        [
            OPEN,
            replace(OPEN, m=(6, 6), channels_last=False),
            replace(OPEN, static_width=True, dynamic_batch=True),
            replace(OPEN, dilations=(2, 2), padding=(2, 2), dynamic_batch=True),
            replace(OPEN, schedule=replace(SLICED, row_block=6), dynamic_batch=True),
            replace(OPEN, m=(1, 1), p=(1, 1), strides=(2, 3), channels=5, outputs=7),
            replace(OPEN, kernel=(1, 1), m=(1, 1), p=(1, 1), padding=(0, 0), strides=(2, 2)),
            replace(OPEN, size=(40,), kernel=(5,), m=(4,), p=(5,), padding=(2,)),
            replace(OPEN, size=(6, 7, 8), kernel=(3,) * 3, m=(2,) * 3, p=(3,) * 3, padding=(1,) * 3),
        ]
    ),
]
"""Programs for images of any size; rows and columns are left of strides."""
ALL = [*TILES, *CHANNELS, *VIEWS, *DIRECT, *OTHERS, *SLICES, *DYNAMIC]
SAMPLE = [
    TILES[1],
    CHANNELS[0],
    CHANNELS[2],
    VIEWS[1],
    DIRECT[1],
    OTHERS[1],
    SLICES[2],
    DYNAMIC[2],
]


@pytest.mark.parametrize("programs", batches(ALL, SAMPLE))
def test_agrees_with_float64(programs: list[WeightGradientProgram]) -> None:
    check_together(programs)


@pytest.mark.this_machine
@pytest.mark.parametrize("cpu", ["x86-64", "haswell"])
@pytest.mark.wide
def test_agrees_with_float64_on_lesser_targets(cpu: str) -> None:
    check_together([TILES[1], SLICES[0], DIRECT[1]], target=f"cpu:{cpu}")


def test_workgroups_run_in_parallel() -> None:
    check_together([CHANNELS[2], SLICES[0]], devices=["local-task"])


@pytest.mark.parametrize("program", OPEN_SIZES, ids=str)
def test_agrees_with_float64_at_sizes_known_at_run_time(program: WeightGradientProgram) -> None:
    batches = (1, 3) if program.dynamic_batch else (program.batch,)
    program.check_sizes(program.random_sizes(8), batches, threads=2 if program.dynamic_batch else 1)


def test_a_gradient_of_no_outputs_is_zero() -> None:
    program = replace(OPEN, dynamic_batch=True)
    compiled = iree.winograd.compile(program.function("main"), threads=1, size_hint=(28, 28))
    run = iree.winograd.load(compiled, device="local-sync")
    for batch, size in ((2, (0, 5)), (2, (5, 0)), (0, (4, 4))):
        operands = replace(program, size=size, batch=batch).source.operands()
        assert not np.asarray(run(*operands)).any()
