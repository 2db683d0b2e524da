"""Pointwise convolutions, which take the pixels of an image, or of small ones together, as one row."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import iree.winograd
import numpy as np
import pytest
from checked_programs import check_together, compile_rewritten
from convolution_program import Program
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.kernels.kernel_of import kernel_for
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.direct import in_lines
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from wide import wide

SMALL = Program((5, 5), 20, 50, (1, 1), (1, 1), (1, 1), batch=3)
LARGE = Program((12, 13), 20, 50, (1, 1), (1, 1), (1, 1), batch=2)
PROGRAMS = [
    SMALL,
    LARGE,
    replace(SMALL, channels=512, outputs=96),
    replace(SMALL, groups=2),
    replace(SMALL, constant_filter=False),
    replace(LARGE, constant_filter=False),
    replace(SMALL, dynamic_batch=True),
    replace(LARGE, dynamic_batch=True),
    SMALL.channels_first,
    LARGE.channels_first,
    Program((3, 4, 5), 8, 16, (1, 1, 1), (1, 1, 1), (1, 1, 1), batch=2),
    Program((9,), 8, 16, (1,), (1,), (1,), batch=4),
]


@pytest.mark.parametrize("threads", [16, *wide([1])])
def test_agrees_with_float64(threads: int) -> None:
    check_together(PROGRAMS, threads=threads)


@pytest.mark.parametrize("size", [(4, 5), (11, 12)], ids=["joined images", "joined rows"])
def test_epilogue_operands_of_some_dimensions(size: tuple[int, int]) -> None:
    """Sums are multiplied by an element per image and channel, and added to one per pixel and one per row."""
    height, width = size
    image, result = f"tensor<3x{height}x{width}x16xf32>", f"tensor<3x{height}x{width}x40xf32>"
    operands = {"(n, k)": (3, 40), "(n, h, w, k)": (3, height, width, 40), "(h)": (height,), "(n, h, w)": ()}
    operands["(n, h, w)"] = (3, height, width)
    types = ["tensor<" + "x".join(map(str, shape)) + "xf32>" for shape in operands.values()]
    maps = [f"affine_map<(n, h, w, k) -> {read}>" for read in operands]
    identity = "affine_map<(n, h, w, k) -> (n, h, w, k)>"
    generator = np.random.default_rng(0)
    arrays = [generator.uniform(-1, 1, shape).astype(np.float32) for shape in operands.values()]
    filters = generator.uniform(-1, 1, (16, 40)).astype(np.float32)
    pixels = generator.uniform(-1, 1, (3, height, width, 16)).astype(np.float32)
    source = f"""
    func.func @main(%image: {image}, %filter: tensor<1x1x16x40xf32>,
                    {", ".join(f"%a{number}: {type_}" for number, type_ in enumerate(types))}) -> {result} {{
      %zero = arith.constant 0.0 : f32
      %empty = tensor.empty() : {result}
      %zeros = linalg.fill ins(%zero : f32) outs(%empty : {result}) -> {result}
      %sums = linalg.conv_2d_nhwc_hwcf {{winograd.algorithm = {{
          output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>}}}}
        ins(%image, %filter : {image}, tensor<1x1x16x40xf32>) outs(%zeros : {result}) -> {result}
      %result = linalg.generic {{
        indexing_maps = [{", ".join([identity, *maps, identity])}],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]
      }} ins(%sums, %a0, %a1, %a2, %a3 : {", ".join([result, *types])}) outs(%empty : {result}) {{
      ^bb0(%sum: f32, %gate: f32, %skip: f32, %row: f32, %pixel: f32, %unused: f32):
        %0 = arith.mulf %sum, %gate : f32
        %1 = arith.addf %0, %skip : f32
        %2 = arith.addf %1, %row : f32
        %3 = arith.addf %2, %pixel : f32
        linalg.yield %3 : f32
      }} -> {result}
      return %result : {result}
    }}"""
    program = iree.winograd.load(compile_rewritten(source, "cpu", []))
    actual = np.asarray(program(pixels, filters.reshape(1, 1, 16, 40), *arrays))
    gate, skip, row, pixel = (array.astype(np.float64) for array in arrays)
    expected = (pixels.astype(np.float64) @ filters) * gate[:, None, None] + skip
    expected += row[:, None, None] + pixel[..., None]
    # Sums of 16 products and four operations, of numbers up to 1.
    bound = (16 + 4) * 2.0**-24 * (16 + 3)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=bound)


def test_padding_is_seen_whatever_the_layout_of_the_filter() -> None:
    """A schedule of all pixels as one row doesn't fit once padding is read as a part of the convolution."""
    source = """
    func.func @main(%image: tensor<2x5x6x16xf32>, %filter: tensor<24x1x1x16xf32>) -> tensor<2x7x9x24xf32> {
      %zero = arith.constant 0.0 : f32
      %padded = tensor.pad %image low[0, 1, 2, 0] high[0, 1, 1, 0] {
      ^bb0(%n: index, %h: index, %w: index, %c: index):
        tensor.yield %zero : f32
      } : tensor<2x5x6x16xf32> to tensor<2x7x9x16xf32>
      %empty = tensor.empty() : tensor<2x7x9x24xf32>
      %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x7x9x24xf32>) -> tensor<2x7x9x24xf32>
      %result = linalg.conv_2d_nhwc_fhwc
        ins(%padded, %filter : tensor<2x7x9x16xf32>, tensor<24x1x1x16xf32>)
        outs(%zeros : tensor<2x7x9x24xf32>) -> tensor<2x7x9x24xf32>
      return %result : tensor<2x7x9x24xf32>
    }"""
    program = iree.winograd.load(compile_rewritten(source, "cpu", []))
    generator = np.random.default_rng(0)
    image = generator.uniform(-1, 1, (2, 5, 6, 16)).astype(np.float32)
    filters = generator.uniform(-1, 1, (24, 1, 1, 16)).astype(np.float32)
    actual = np.asarray(program(image, filters))
    padded = np.pad(image.astype(np.float64), ((0, 0), (1, 1), (2, 1), (0, 0)))
    np.testing.assert_allclose(actual, padded @ filters[:, 0, 0].T, rtol=0, atol=16 * 16 * 2.0**-24)


def pointwise(batch: int | None, size: tuple[int, ...], channels: int, outputs: int) -> ConvolutionShape:
    zeros, ones = (0,) * len(size), (1,) * len(size)
    problem = ConvolutionProblem(batch, size, zeros, zeros, ones, ones, ones, 1, channels, outputs)
    return ConvolutionShape.decomposed(problem, decompose(ones, ones))


@pytest.mark.parametrize(
    ("shape", "batch", "pixels"),
    [
        (pointwise(8, (7, 7), 32, 64), 1, 392),
        (pointwise(8, (14, 14), 32, 64), 8, 196),
        (pointwise(None, (7, 7), 32, 64), None, 49),
        (replace(pointwise(8, (7, 7), 32, 64), output_channels_first=True), 8, 49),
        (pointwise(8, (1,), 32, 64), 1, 8),
    ],
)
def test_what_is_joined(shape: ConvolutionShape, batch: int | None, pixels: int) -> None:
    joined = in_lines(shape)
    assert (joined.batch, joined.input_size[-1], joined.output_rows) == (batch, pixels, 1)
    assert in_lines(joined) == joined


def test_other_convolutions_keep_their_rows() -> None:
    problem = ConvolutionProblem(8, (7, 7), (0, 0), (0, 0), (1, 1), (2, 2), (1, 1), 1, 32, 64)
    strided = ConvolutionShape.decomposed(problem, decompose((1, 1), (1, 1), strides=(2, 2)))
    assert in_lines(strided) == strided


@pytest.mark.parametrize("threads", [2, 16])
@pytest.mark.parametrize(
    "shape",
    [
        pointwise(8, (28, 28), 128, 512),
        pointwise(8, (14, 14), 1024, 256),
        pointwise(8, (14, 14), 256, 1024),
        pointwise(8, (7, 7), 512, 2048),
        pointwise(1, (56, 56), 64, 256),
    ],
    ids=str,
)
def test_threads_have_equal_shares(shape: ConvolutionShape, threads: int) -> None:
    """Of the pixels that there are no thread computes more than a sixteenth above the average."""
    target = CpuTarget.of("emeraldrapids", "+avx2,+fma,+avx512f")
    schedule = CpuBackend(target).search_space(None, threads).default_schedule(shape)
    kernel = kernel_for(shape, target, schedule)
    blocks, parts = (each.known or 0 for each in kernel.workgroups(Sizes.of_batch(kernel.shape.batch or 1)))
    assert shape.batch is not None
    rounds = ceil(blocks * parts / threads)
    pixels = shape.batch * shape.output_rows * shape.output_size[-1]
    work = rounds * threads * schedule.pixel_block * ceil(kernel.blocks.count / parts)
    assert work <= 17 / 16 * pixels * kernel.blocks.count
