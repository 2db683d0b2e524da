"""Register blocks that have more channels than there are: nothing past the last one is touched."""

from __future__ import annotations

from dataclasses import replace

import iree.winograd
import numpy as np
import pytest
from agreement import expect_within
from checked_programs import check_together
from convolution_program import Program
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.kernels.kernel_of import misfit
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from wide import batches, wide

AVX512 = CpuTarget.of("znver5", "+avx2,+fma,+avx512f")


def direct(size: tuple[int, int], channels: int, outputs: int, kernel: int = 1, **rest: object) -> Program:
    taps = (kernel, kernel)
    pad = (kernel // 2, kernel // 2)
    return Program(size, channels, outputs, taps, (1, 1), (1, 1), low=pad, high=pad, **rest)


PROGRAMS = [
    direct((9, 9), 20, 6),
    direct((9, 9), 17, 12, 3),
    direct((6, 7), 24, 24, batch=2),
    direct((8, 9), 20, 72),
    direct((5, 5), 16, 40, 3, strides=(2, 2)),
    direct((8, 8), 20, 50, activation="swish"),
    direct((8, 8), 20, 6, 3, activation="swish"),
    direct((9, 9), 12, 10, constant_filter=False),
    direct((9, 9), 12, 37, 3, constant_filter=False),
    direct((7, 7), 12, 21, dynamic_batch=True, batch=2),
    direct((9, 11), 20, 3, 3).channels_first,
    direct((9, 19), 20, 1, 3, activation="swish").channels_first,
    direct((9, 11), 12, 13, batch=2).channels_first,
]
RETURNED = [
    each.channels_first
    for each in (direct((9, 9), 12, 21), direct((9, 11), 12, 3, 3, batch=2), PROGRAMS[6], PROGRAMS[9])
]
"""What is returned channels first is transposed without the channels that there aren't."""


def shape_of(program: Program, groups: int = 1) -> ConvolutionShape:
    decomposition = decompose(program.kernel, program.m, strides=program.strides, part_size=program.p)
    problem = ConvolutionProblem(
        program.batch,
        program.size,
        program.per_dimension("low", 0),
        program.per_dimension("high", 0),
        program.kernel,
        program.per_dimension("strides", 1),
        (1, 1),
        groups,
        program.channels,
        program.outputs,
    )
    return ConvolutionShape.decomposed(problem, decomposition)


@pytest.mark.parametrize("programs", batches([*PROGRAMS, *RETURNED], [*PROGRAMS[1::2], *RETURNED[1::2]]))
def test_agrees_with_float64(programs: list[Program]) -> None:
    check_together(programs)


@pytest.mark.parametrize("cpu", ["haswell", *wide(["x86-64"])])
def test_agrees_with_float64_on_lesser_targets(cpu: str) -> None:
    check_together([PROGRAMS[0], PROGRAMS[3], PROGRAMS[6]], flags=[f"--iree-llvmcpu-target-cpu={cpu}"])


def test_filters_are_packed_when_loading() -> None:
    program = direct((9, 9), 12, 21)
    generator = np.random.default_rng(0)
    image = generator.uniform(-1, 1, (1, 9, 9, 12)).astype(np.float32)
    filters = generator.uniform(-1, 1, program.filter_shape).astype(np.float32)
    bias = generator.uniform(-1, 1, 21).astype(np.float32)
    compiled = iree.winograd.compile(program.text(filters), target="cpu", fold_filters="load", strict=True)
    result = np.asarray(iree.winograd.load(compiled, device="local-sync")(image, bias))
    expect_within(result, program.expected(image, filters, bias), program.bound())


def test_few_channels_take_one_block() -> None:
    space = CpuBackend(AVX512).search_space()
    for outputs, vectors in ((6, 1), (12, 1), (24, 2), (40, 3)):
        schedule = space.default_schedule(shape_of(direct((28, 28), 64, outputs)))
        assert isinstance(schedule, DirectSchedule)
        assert (schedule.vector_width, schedule.register_vectors) == (16, vectors)
    colours = replace(shape_of(direct((28, 28), 64, 3)), output_channels_first=True)
    assert space.default_schedule(colours).vector_width == 16


def test_blocks_that_have_a_vector_too_many_or_cross_groups_are_refused() -> None:
    schedule = DirectSchedule(16, register_pixels=4, register_vectors=2, row_block=1, pixel_block=28)
    assert misfit(schedule, shape_of(direct((28, 28), 64, 24)), AVX512) is None
    assert misfit(schedule, shape_of(direct((28, 28), 64, 16)), AVX512) is not None
    assert misfit(schedule, shape_of(direct((28, 28), 96, 72), groups=3), AVX512) is not None
    channels_first = replace(shape_of(direct((28, 28), 64, 24)), output_channels_first=True)
    assert misfit(schedule, channels_first, AVX512) is None


def test_a_slice_of_a_concatenation_is_all_that_is_written() -> None:
    text = """
func.func @main(%x: tensor<1x5x5x8xf32>, %f: tensor<1x1x8x6xf32>, %g: tensor<1x1x8x6xf32>)
    -> tensor<1x5x5x20xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x5x5x6xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x5x5x6xf32>) -> tensor<1x5x5x6xf32>
  %a = linalg.conv_2d_nhwc_hwcf ins(%x, %f : tensor<1x5x5x8xf32>, tensor<1x1x8x6xf32>)
    outs(%z : tensor<1x5x5x6xf32>) -> tensor<1x5x5x6xf32>
  %b = linalg.conv_2d_nhwc_hwcf ins(%x, %g : tensor<1x5x5x8xf32>, tensor<1x1x8x6xf32>)
    outs(%z : tensor<1x5x5x6xf32>) -> tensor<1x5x5x6xf32>
  %c = tensor.concat dim(3) %b, %x, %a
    : (tensor<1x5x5x6xf32>, tensor<1x5x5x8xf32>, tensor<1x5x5x6xf32>) -> tensor<1x5x5x20xf32>
  return %c : tensor<1x5x5x20xf32>
}
"""
    generator = np.random.default_rng(0)
    # Small integers: every sum is exact.
    x, f, g = (
        generator.integers(-4, 5, shape).astype(np.float32)
        for shape in ((1, 5, 5, 8), (1, 1, 8, 6), (1, 1, 8, 6))
    )
    program = iree.winograd.load(
        iree.winograd.compile(text, target="cpu", strict=True, threads=1), device="local-sync"
    )
    np.testing.assert_array_equal(program(x, f, g), np.concatenate([x @ g[0, 0], x, x @ f[0, 0]], axis=-1))
