"""GPU kernels of images whose sizes are known only at run time, at several sizes of one program."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import iree.winograd
import numpy as np
import pytest
from convolution_program import Program
from iree.winograd.loading.program_context import INSTANCE
from iree.winograd.loading.program_module import program_module
from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.pipelines.gpu.schedules.columns import GpuDepthwiseSchedule
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from iree.winograd.pipelines.problems.launches import Launch
from iree.winograd.pipelines.problems.open_launches import OPEN_LAUNCHES_KEY, OpenLaunches
from iree.winograd.pipelines.problems.schedule_range import ScheduleRange
from scheduled_program import F2X2
from wide import sampled, wide

ONE, SAME = (1, 1), {"low": (1, 1), "high": (1, 1)}
TILED = Program((28, 28), 20, 24, (3, 3), (4, 4), (3, 3), dynamic_size=True, **SAME)
DIRECT = replace(TILED, m=ONE, p=ONE)
DEPTHWISE = Program((28, 28), 20, 20, (3, 3), ONE, ONE, groups=20, dynamic_size=True, **SAME)
POINTWISE = replace(DIRECT, kernel=ONE, low=None, high=None)
PROGRAMS = [
    replace(POINTWISE, outputs=20, adds_image=True, dynamic_batch=True),
    replace(POINTWISE, strides=(2, 1), activation="swish"),
    replace(POINTWISE, input_channels_first=True, output_channels_first=True),
    TILED.channels_first,
    replace(DEPTHWISE, strides=(2, 1), dynamic_batch=True),
    replace(DEPTHWISE, schedule=GpuDepthwiseSchedule(64, 4, columns=2, rows_ahead=2)),
    replace(DEPTHWISE, strides=(1, 2), schedule=GpuDepthwiseSchedule(64, 4, columns=3)),
    replace(DIRECT, channels=3, outputs=16, schedule=GemmSchedule(32, 32, 16, 4, 4)),
    replace(DIRECT, channels=3, outputs=6, groups=3, schedule=GemmSchedule(32, 32, 16, 4, 4)),
    replace(DIRECT, strides=(2, 3), dilations=(2, 1), low=(3, 2), high=(1, 2)),
    replace(TILED, low=(2, 0), high=(1, 3), activation="swish", channels=7, outputs=10),
    replace(TILED, groups=2, constant_filter=False),
    replace(TILED, m=(2, 2), schedule=F2X2),
    Program((6, 8, 9), 8, 16, (3,) * 3, (2,) * 3, (3,) * 3, dynamic_size=True, low=(1,) * 3, high=(1,) * 3),
]
SIZES = [(1, 7, 5), (5, 1, 3), (28, 28, 9), (3, 37, 10), (17, 40, 2)]
"""Below a tile, a row and a column, what is expected, and larger; of fewer dimensions the first."""


@pytest.mark.parametrize("program", sampled(PROGRAMS, PROGRAMS[:1]), ids=str)
def test_agrees_with_float64_at_all_sizes(program: Program, gpu_target: str, gpu_device: str) -> None:
    batches = (1, 3) if program.dynamic_batch else (1,)
    sizes = [size[: program.rank] for size in SIZES]
    program.check_sizes(sizes, batches, target=gpu_target, device=gpu_device)


BLOCKS_OF_32, BLOCKS_OF_64 = GemmSchedule(32, 32, 16, 4, 4), GemmSchedule(64, 32, 16, 8, 4)
TWO = (ScheduleRange(BLOCKS_OF_32, 0.5, 40), ScheduleRange(BLOCKS_OF_64, 1.0, None))
IN_PARTS = ScheduleRange(replace(BLOCKS_OF_32, reduction_parts=3), 0.5, 40)
COLUMNS = tuple(GpuDepthwiseSchedule(64, 4, columns=columns) for columns in (1, 4))
SEVERAL = replace(
    TILED,
    schedule=BLOCKS_OF_64,
    ranges=(
        ScheduleRange(BLOCKS_OF_32, 0.5, 2, Algorithm(ONE, ONE)),
        ScheduleRange(F2X2, 0.75, 8, Algorithm((2, 2), (3, 3))),
        ScheduleRange(BLOCKS_OF_64, 1.0, None),
    ),
)
RANGED = [
    replace(TILED, m=(2, 2), schedule=BLOCKS_OF_64, ranges=(ScheduleRange(F2X2, 0.5, 8), *TWO)),
    replace(POINTWISE, schedule=BLOCKS_OF_64, ranges=TWO, adds_image=True, outputs=20, dynamic_batch=True),
    replace(
        DEPTHWISE,
        strides=(2, 1),
        schedule=COLUMNS[0],
        ranges=(ScheduleRange(COLUMNS[0], 1.0, 20), ScheduleRange(COLUMNS[1], 2.0, None)),
    ),
    replace(DIRECT, schedule=BLOCKS_OF_64, ranges=(IN_PARTS, TWO[1])),
    SEVERAL,
    replace(SEVERAL, input_channels_first=True, output_channels_first=True, activation="swish"),
]
"""Of two or three schedules, each for images of so many tiles, also of several algorithms."""
RANGED_SIZES = [(1, 1), (3, 13), (8, 5), (7, 7), (28, 28)]
"""Of one tile less than a range begins with, of as many, and others."""


@pytest.mark.parametrize("program", wide(RANGED), ids=str)
def test_the_schedules_of_all_ranges_agree_with_float64(
    program: Program, gpu_target: str, gpu_device: str
) -> None:
    batches = (1, 3) if program.dynamic_batch else (1,)
    program.check_sizes(RANGED_SIZES, batches, target=gpu_target, device=gpu_device)


def test_the_kernels_of_one_range_are_launched() -> None:
    """Those of others are left out of the list of a call, and have no memory between them."""
    program = RANGED[0]
    compiled = iree.winograd.compile(
        program.function("main"), target="cuda:sm_90a", strict=True, size_hint=program.size
    )
    module = program_module(INSTANCE, compiled)
    reflection = module.lookup_function("main").reflection
    launches = OpenLaunches.from_json(reflection[OPEN_LAUNCHES_KEY])
    by_size = {}
    for size in ((1, 1), (3, 13), (8, 5), (28, 28)):
        call = launches.at([(1, *size, program.channels), (program.outputs,)])
        by_size[size] = [each.kernel for stage in call.stages for each in stage if isinstance(each, Launch)]
        allocated = 4 * prod(size) * program.outputs
        assert (sum(call.allocations) > allocated) == (size != (1, 1)), "tiles lie between three kernels"
    assert [kernel.split("_")[1] for kernel in by_size[1, 1]] == ["fused"]
    assert [kernel.split("_")[1] for kernel in by_size[28, 28]] == ["input", "products", "output"]
    assert by_size[3, 13] == by_size[8, 5]
    assert set(by_size[8, 5]).isdisjoint(by_size[28, 28])


IMAGES = """
func.func @main(%x: tensor<1x?x?x8xf32>, %w: tensor<1x1x8x16xf32>) -> tensor<1x?x?x16xf32> {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %h = tensor.dim %x, %c1 : tensor<1x?x?x8xf32>
  %v = tensor.dim %x, %c2 : tensor<1x?x?x8xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%h, %v) : tensor<1x?x?x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x?x?x16xf32>) -> tensor<1x?x?x16xf32>
  %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x?x?x8xf32>, tensor<1x1x8x16xf32>)
    outs(%z : tensor<1x?x?x16xf32>) -> tensor<1x?x?x16xf32>
  return %r : tensor<1x?x?x16xf32>
}
"""


def test_sizes_that_kernels_are_not_told_are_refused(gpu_target: str, gpu_device: str) -> None:
    """By the program itself: such an image without elements takes no memory."""
    program = iree.winograd.load(iree.winograd.compile(IMAGES, target=gpu_target, strict=True), gpu_device)
    weights = np.ones((1, 1, 8, 16), np.float32)
    with pytest.raises(iree.winograd.CallError, match="a size of more than 2147483647"):
        program(np.zeros((1, 0, 2**31, 8), np.float32), weights)


def test_images_without_elements(gpu_target: str, gpu_device: str) -> None:
    """Their kernels have no workgroups: nothing is launched, and memory isn't looked at."""
    program = iree.winograd.load(iree.winograd.compile(IMAGES, target=gpu_target, strict=True), gpu_device)
    weights = np.ones((1, 1, 8, 16), np.float32)
    for height, width in ((0, 7), (7, 0)):
        result = np.array(program(np.zeros((1, height, width, 8), np.float32), weights))
        assert result.shape == (1, height, width, 16)
    assert (np.array(program(np.ones((1, 2, 3, 8), np.float32), weights)) == 8).all()


EVERY_SECOND = """
func.func @main(%x: tensor<1x?x8xf32>, %w: tensor<3x8x16xf32>) -> tensor<1x?x16xf32> {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %size = tensor.dim %x, %c1 : tensor<1x?x8xf32>
  %more = arith.addi %size, %c1 : index
  %half = arith.floordivsi %more, %c2 : index
  %outputs = arith.subi %half, %c2 : index
  %part = tensor.extract_slice %x[0, 0, 0] [1, %half, 8] [1, 2, 1] : tensor<1x?x8xf32> to tensor<1x?x8xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%outputs) : tensor<1x?x16xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x?x16xf32>) -> tensor<1x?x16xf32>
  %r = linalg.conv_1d_nwc_wcf ins(%part, %w : tensor<1x?x8xf32>, tensor<3x8x16xf32>)
    outs(%z : tensor<1x?x16xf32>) -> tensor<1x?x16xf32>
  return %r : tensor<1x?x16xf32>
}
"""


def test_every_second_pixel_is_copied_by_a_kernel(gpu_target: str, gpu_device: str) -> None:
    """As networks on sound read them, which halve it so."""
    compiled = iree.winograd.compile(EVERY_SECOND, target=gpu_target, strict=True)
    assert b"winograd_window_max_1_anyx8" in compiled
    program = iree.winograd.load(compiled, gpu_device)
    weights = np.arange(3 * 8 * 16, dtype=np.float32).reshape(3, 8, 16) % 7
    for size in (5, 6, 301):
        image = np.arange(size * 8, dtype=np.float32).reshape(1, size, 8) % 11
        # Sums of small integers are exact.
        taken = image[:, ::2].astype(np.float64)
        expected = sum(taken[:, tap : taken.shape[1] - 2 + tap] @ weights[tap] for tap in range(3))
        assert np.array_equal(np.array(program(image, weights)), expected)
