"""Weight gradients of half precision on NVIDIA's matrix units, by what the text of their kernels says."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from agreement import expect_within
from checked_programs import compile_rewritten
from iree.winograd.dialect.algebra.bf16 import bf16_bits, bf16_numbers
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.algebra.numerics import predicted_gradient_error
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.gpu.choice.candidate_schedules import schedules
from iree.winograd.pipelines.gpu.choice.weight_gradient_schedules import HALF_GRADIENT_BLOCKS
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.weight_gradient import (
    STAGE_TILES,
    HalfWeightGradientSchedule,
    MatrixWeightGradientSchedule,
)
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.problems.shape import WeightGradientShape
from iree.winograd.pipelines.selection.prediction import algorithm_error
from ptx_interpreter import Kernel
from ptxas import spilled_bytes
from scheduled_program import AMPERE
from weight_gradient_program import WeightGradientProgram
from wide import sampled, wide

Array = npt.NDArray[Any]

SMALL = HalfWeightGradientSchedule(32, 32, 2 * STAGE_TILES, 16, 16)
CASES = [
    # Taps share a block of rows, outputs are no whole stage, columns no whole block.
    WeightGradientProgram((6, 5), (3, 3), (1, 1), (1, 1), 8, 40, 3, padding=(1, 1), element_type="f16"),
    *wide(
        [
            WeightGradientProgram(
                (9, 8), (1, 1), (1, 1), (1, 1), 32, 32, 4, strides=(2, 2), element_type="f16"
            ),
            WeightGradientProgram(
                (9, 7), (2, 3), (1, 1), (1, 1), 16, 8, 3, dilations=(2, 1), padding=(1, 2), element_type="f16"
            ),
            WeightGradientProgram(
                (9, 8), (3, 3), (1, 1), (1, 1), 24, 32, strides=(2, 1), padding=(1, 1), element_type="bf16"
            ),
        ]
    ),
]


def kernels_of(program: WeightGradientProgram, architecture: str, folder: Path) -> dict[str, Kernel]:
    """By the stage that their names say; there are no others."""
    flags = [f"--iree-hal-dump-executable-files-to={folder}"]
    compile_rewritten(program.function("main"), f"cuda:{architecture}", flags)
    (text,) = (path.read_text() for path in folder.glob("*.ptx"))
    assert text.count(".visible .entry") == text.count(".visible .entry winograd_")
    return Kernel.by_stage(text)


def halves(numbers: Array, element_type: str) -> tuple[Array, Array]:
    """Numbers in half precision, as they lie in memory and in float64."""
    if element_type == "bf16":
        bits = np.asarray(bf16_bits(numbers))
        return bits, bf16_numbers(bits).astype(np.float64)
    rounded = numbers.astype(np.float16)
    return rounded, rounded.astype(np.float64)


@pytest.mark.parametrize("program", CASES, ids=str)
def test_sums_are_those_of_exact_products(program: WeightGradientProgram, tmp_path: Path) -> None:
    """Images and gradients are read where they are, and filters are rounded once."""
    kind = program.element_type
    program = replace(program, schedule=replace(SMALL, multiplied_type=kind))
    kernels = kernels_of(program, "sm_80", tmp_path)
    source = program.source
    (image, exact_image), (gradient, exact_gradient) = (halves(each, kind) for each in source.operands())
    outputs = program.batch * int(np.prod(source.output_size))
    blocks = ceil_div(outputs, SMALL.tile_block)
    assert blocks > 1 and set(kernels) == {"products", "weights"}
    taps = int(np.prod(program.kernel))
    rows, columns = (
        ceil_div(size, block) * block
        for size, block in (
            (taps * program.channels, SMALL.block_rows),
            (program.outputs, SMALL.block_columns),
        )
    )
    products = np.full((blocks, 1, rows, columns), np.nan, np.float32)
    grid = itertools.product(
        range(rows // SMALL.block_rows), range(columns // SMALL.block_columns), range(blocks)
    )
    kernels["products"].run([image, gradient, products], grid)
    result = np.zeros(source.filter_shape, image.dtype)
    per_workgroup = kernels["weights"].threads // (program.outputs // 4)
    kernels["weights"].run(
        [products, result],
        itertools.product(range(ceil_div(program.channels, per_workgroup)), range(1), range(taps)),
    )
    exact = source.exact(exact_image, exact_gradient)
    magnitudes = source.exact(np.abs(exact_image), np.abs(exact_gradient))
    # Of each step of 16 products units lose at most 17 parts of 2^-24 of the largest. One rounding follows.
    steps = STAGE_TILES // 16 + blocks
    roundoff = 2.0**-8 if kind == "bf16" else 2.0**-11
    found = halves(result, kind)[1] if kind == "f16" else bf16_numbers(result).astype(np.float64)
    expect_within(found, exact, roundoff * np.abs(exact) + 18 * steps * 2.0**-24 * magnitudes)


@pytest.mark.parametrize("architecture", ["sm_90a", *wide(["sm_80"])])
@pytest.mark.parametrize("block", sampled(HALF_GRADIENT_BLOCKS, HALF_GRADIENT_BLOCKS[:1]), ids=str)
def test_sums_are_kept_in_registers(block: tuple[int, ...], architecture: str, tmp_path: Path) -> None:
    *sizes, resident = block
    schedule = HalfWeightGradientSchedule(
        *sizes[:2], 8 * STAGE_TILES, *sizes[2:], resident_workgroups=resident, multiplied_type="f16"
    )
    program = WeightGradientProgram(
        (28, 28), (3, 3), (1, 1), (1, 1), 128, 128, 4, padding=(1, 1), element_type="f16", schedule=schedule
    )
    kernels_of(program, architecture, tmp_path)
    assert not any(spilled_bytes(tmp_path, architecture).values())


def problem(types: str) -> ConvolutionProblem:
    return ConvolutionProblem.parse(
        "weight gradient of 32x56x56x64->64 kernel 3x3 stride 1x1 dilation 1x1 "
        f"padding 1x1 1x1 groups 1 {types}"
    )


def of_operands(types: str) -> WeightGradientShape:
    return WeightGradientShape.decomposed(problem(types), decompose((3, 3), (1, 1), part_size=(1, 1)))


@pytest.mark.parametrize(
    ("types", "multiplied"),
    [("f32", set()), ("f32, operands of f16", {"f16"}), ("f32, operands of bf16", {"bf16"})],
)
def test_only_what_is_of_half_precision_is_multiplied_in_it(types: str, multiplied: set[str]) -> None:
    offered = schedules(of_operands(types), AMPERE, default_gpu_machine("sm_80"))
    found = [each for each in offered if isinstance(each, HalfWeightGradientSchedule)]
    assert {each.multiplied_type for each in found} == multiplied
    assert not any(
        isinstance(each, HalfWeightGradientSchedule)
        for each in schedules(of_operands(types), GpuTarget(1024, 65536), default_gpu_machine("sm_80"))
    )


def test_only_products_of_half_precision_are_exact() -> None:
    """Others are of numbers that are split, whose low parts are rounded, whatever is known of them."""
    of_halves, direct = problem("f32, operands of f16"), Algorithm((1, 1), (1, 1))
    split = MatrixWeightGradientSchedule(64, 64, 8 * STAGE_TILES)
    half = HalfWeightGradientSchedule(64, 64, 8 * STAGE_TILES)
    tiles = 32 * 56 * 56
    assert algorithm_error(of_halves, direct, split) == predicted_gradient_error(
        (1, 1), (1, 1), tiles, tile_block=STAGE_TILES, matrix_products=3
    )
    assert algorithm_error(of_halves, direct, half) < algorithm_error(of_halves, direct, split)
    # Of others they would be rounded.
    assert algorithm_error(problem("f32"), direct, half) > 2.0**-13
