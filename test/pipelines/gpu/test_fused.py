"""The fused kernel on Vulkan against float64, within the a-priori error bound of its algorithm."""

from __future__ import annotations

from dataclasses import replace

import pytest
from checked_programs import check_together
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.fit import fits
from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule
from scheduled_program import F2X2, ScheduledProgram
from wide import batches, wide

LEAST = GpuTarget(128, 16384)
SMALL = ScheduledProgram((8, 10), 12, 20, (3, 3), (2, 2), (3, 3), low=(1, 1), high=(1, 1))
SCHEDULES = [
    # Several products per thread, rows and columns of threads that differ.
    replace(SMALL, schedule=FusedSchedule(16, 8, 16, 4, 2, 4, 8, 2)),
    # Products of tiles of another size.
    replace(SMALL, m=(4, 4), schedule=replace(F2X2, products=36, thread_products=2)),
]
EDGES = [
    # Tiles that overhang, asymmetric padding, two buffers; images smaller than a tile.
    ScheduledProgram(
        (13, 11), 16, 32, (3, 3), (2, 2), (3, 3), low=(0, 2), high=(3, 1), schedule=replace(F2X2, buffers=2)
    ),
    ScheduledProgram((1, 1), 8, 8, (3, 3), (2, 2), (3, 3), low=(1, 1), high=(1, 1)),
]
CHANNELS = [ScheduledProgram((6, 6), 17, 36, (3, 3), (2, 2), (3, 3), low=(1, 1), high=(1, 1))]
VIEWS = [
    ScheduledProgram((14, 14), 6, 16, (3, 3), (3, 3), (2, 2), strides=(2, 2), low=(1, 1), high=(1, 1)),
    ScheduledProgram((19, 17), 3, 10, (3, 3), (2, 2), (3, 3), dilations=(3, 2), low=(3, 2), high=(3, 2)),
]
DYNAMIC = [
    ScheduledProgram(
        (9, 9), 18, 18, (3, 3), (2, 2), (3, 3), batch=3, low=(1, 1), high=(1, 1), dynamic_batch=True
    ),
]


ALL = [*SCHEDULES, *EDGES, *CHANNELS, *VIEWS, *DYNAMIC]
SAMPLE = DYNAMIC


@pytest.mark.parametrize("programs", batches(ALL, SAMPLE))
def test_agrees_with_float64(programs: list[ScheduledProgram], gpu_target: str, gpu_device: str) -> None:
    check_together(programs, target=gpu_target, devices=[gpu_device])


@pytest.mark.parametrize("program", wide([VIEWS[0]]), ids=str)
def test_transforms_filters_known_only_at_run_time(
    program: ScheduledProgram, gpu_target: str, gpu_device: str
) -> None:
    replace(program, constant_filter=False).check(target=gpu_target, device=gpu_device)


def test_a_schedule_over_the_limits_is_an_error() -> None:
    large = FusedSchedule(16, 32, 64, 8, 2)
    assert not fits(large, LEAST)
    with pytest.raises(Warning, match="is no schedule for this convolution within the limits"):
        replace(SMALL, schedule=large).check(target="vulkan", device="vulkan")


def test_a_schedule_for_other_products_is_an_error() -> None:
    with pytest.raises(Warning, match="24 products doesn't suit a convolution that has 16"):
        replace(SMALL, schedule=replace(F2X2, products=24)).check(target="vulkan", device="vulkan")


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((16, 32, 32, 8, 3), "products 16 must be a multiple of thread_products 3"),
        ((16, 32, 12, 8, 2), "block_columns 12 must be a multiple of thread_columns 8"),
        ((16, 32, 32, 8, 2, 2), "thread_tiles 2 must be a multiple of 4"),
        ((16, 32, 32, 8, 2, 8, 8, 3), "buffers must be 1 or 2, not 3"),
        ((16, 32, 8, 4, 1, 4, 4), "256 threads can't share the loads"),
        ((16, 32, 64, 0, 2), "block_reduction must be at least 1, not 0"),
        ((16, 8, 24, 8, 4, 4, 4), "the 6 threads along the columns of .* must be at most 4 or a multiple"),
        ((16, 32, 8, 4, 4, 4, 4), "products of .* don't fit in the memory of its filters"),
    ],
)
def test_blocks_that_do_not_divide_are_an_error(sizes: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FusedSchedule(*sizes)
