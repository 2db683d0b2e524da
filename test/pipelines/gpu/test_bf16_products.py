"""Products of bf16 on NVIDIA's matrix units, by what the text of kernels says, and which schedules have them.

`test_half_precision.py` checks their results where there is such a GPU.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
from agreement import expect_within
from iree.winograd.dialect.algebra.bf16 import bf16_bits, bf16_numbers
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.backends.schedules import schedule_from_record, schedule_record
from iree.winograd.pipelines.gpu.choice.candidate_schedules import schedules
from iree.winograd.pipelines.gpu.choice.default_schedule import default_schedules
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.schedules.fit import GpuSchedule
from iree.winograd.pipelines.gpu.schedules.split import CooperativeSchedule, SplitSchedule
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from ptx_interpreter import Kernel
from scheduled_program import AMPERE

MACHINE = default_gpu_machine("sm_80")
BATCH, SIZE, CHANNELS, OUTPUTS = 2, 5, 24, 40

Array = npt.NDArray[Any]


def shape(types: str, m: int = 1) -> ConvolutionShape:
    problem = ConvolutionProblem.parse(
        f"{BATCH}x{SIZE}x{SIZE}x{CHANNELS}->{OUTPUTS} kernel 3x3 stride 1x1 dilation 1x1 "
        f"padding 0x0 0x0 groups 1 {types}"
    )
    return ConvolutionShape.decomposed(
        problem, decompose((3, 3), (m, m), part_size=(min(3, m + 2), 3) if m > 1 else (1, 1))
    )


BF16_IMAGES = shape("f32, operands of bf16, result of bf16")


def rounding(of: ConvolutionShape) -> list[GpuSchedule]:
    """Those that are offered of rounded numbers."""
    return [each for each in schedules(of, AMPERE, MACHINE) if each.matrix_products == 1]


def test_bf16_is_multiplied_as_it_is() -> None:
    offered = rounding(BF16_IMAGES)
    assert offered and {each.product_type for each in offered} == {"bf16"}
    assert all(each.keeps_operands("bf16", are_transformed=False) for each in offered)
    assert not any(
        each.keeps_operands(other, are_transformed=False) for each in offered for other in ("f16", None)
    )


@pytest.mark.parametrize(
    "other",
    [
        shape("f32"),
        shape("f32, operands of f16, result of f16"),
        shape("f32, operands of bf16, result of bf16", 4),
    ],
    ids=["f32", "f16", "transformed"],
)
def test_others_are_not_rounded_to_it(other: ConvolutionShape) -> None:
    offered = rounding(other)
    assert offered and {each.product_type for each in offered} == {"f16"}


def test_a_schedule_says_what_it_multiplies() -> None:
    schedule = SplitSchedule(64, 64, 32, 32, stages=2, products=1, multiplied_type="bf16")
    assert schedule_from_record(schedule_record(schedule)) == schedule
    assert "multiplied_type" not in schedule_record(replace(schedule, multiplied_type=None))
    with pytest.raises(ValueError, match="multiplied_type of a split schedule must be a string, not 1"):
        schedule_from_record(schedule_record(schedule) | {"multiplied_type": 1})


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (SplitSchedule, {"multiplied_type": "bf16", "products": 3}),
        (SplitSchedule, {"multiplied_type": "f32", "products": 1}),
        (CooperativeSchedule, {"multiplied_type": "bf16", "products": 1}),
    ],
)
def test_other_products_are_an_error(
    kind: type[SplitSchedule | CooperativeSchedule], fields: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="no product of"):
        kind(64, 64, 32, 32, stages=2, **fields)


def of_range(generator: np.random.Generator, extents: tuple[int, ...]) -> Array:
    """Numbers across more than fp16 has exponents for."""
    numbers = generator.standard_normal(extents) * np.exp2(generator.integers(-40, 40, extents))
    return np.asarray(bf16_bits(numbers.astype(np.float32)))


def program(filters: Array) -> str:
    image, out = f"{BATCH}x{SIZE}x{SIZE}x{CHANNELS}", f"{BATCH}x{SIZE - 2}x{SIZE - 2}x{OUTPUTS}"
    weights = "x".join(map(str, filters.shape))
    return f"""func.func @main(%x: tensor<{image}xbf16>) -> tensor<{out}xbf16> {{
      %zero = arith.constant 0.0 : bf16
      %w = arith.constant dense<"0x{filters.tobytes().hex()}"> : tensor<{weights}xbf16>
      %e = tensor.empty() : tensor<{out}xbf16>
      %z = linalg.fill ins(%zero : bf16) outs(%e : tensor<{out}xbf16>) -> tensor<{out}xbf16>
      %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<{image}xbf16>, tensor<{weights}xbf16>)
        outs(%z : tensor<{out}xbf16>) -> tensor<{out}xbf16>
      return %r : tensor<{out}xbf16>
    }}"""


def kernels_of(text: str, folder: Path) -> dict[str, Kernel]:
    """By the stage that their names say."""
    flags = [f"--iree-hal-dump-executable-files-to={folder}"]
    iree.winograd.compile(text, target="cuda:sm_80", strict=True, flags=flags)
    (ptx,) = (path.read_text() for path in folder.glob("*.ptx"))
    assert "f16.f16" not in re.sub(r"bf16", "", ptx)
    return Kernel.by_stage(ptx)


def grid(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    return itertools.product(range(rows), range(columns))


def test_sums_are_those_of_exact_products(tmp_path: Path) -> None:
    """Nothing is scaled: each output is what its own products round to, whatever lies beside them."""
    generator = np.random.default_rng(0)
    image = of_range(generator, (BATCH, SIZE, SIZE, CHANNELS))
    filters = of_range(generator, (3, 3, CHANNELS, OUTPUTS))
    kernels = kernels_of(program(filters), tmp_path)
    assert set(kernels) == {"input", "direct"}
    schedule = next(
        each for each in default_schedules(BF16_IMAGES, AMPERE, MACHINE) if each.matrix_products == 1
    )
    assert isinstance(schedule, SplitSchedule)
    packing = SplitPacking(BF16_IMAGES, schedule)
    taps = bf16_numbers(filters).reshape(9, CHANNELS, OUTPUTS)
    by_view = np.empty_like(taps)
    by_view[BF16_IMAGES.views_by_tap] = taps
    weights = packing.pack_filters(by_view.reshape(1, 9 * CHANNELS, OUTPUTS))
    tiles = BATCH * (SIZE - 2) ** 2
    blocks = -(-tiles // schedule.block_rows)
    packed = np.full((blocks, *packing.input_extents()), np.nan, np.float32)
    result = np.zeros((BATCH, SIZE - 2, SIZE - 2, OUTPUTS), np.uint16)
    per_workgroup = kernels["input"].threads // packing.tile_threads
    kernels["input"].run([image, packed], grid(-(-tiles // per_workgroup), 1))
    kernels["direct"].run([packed, weights, result], grid(blocks, packing.column_blocks))
    exact, magnitudes = (
        sum(
            np.einsum(
                "nhwc,ck->nhwk",
                f(bf16_numbers(image).astype(np.float64))[:, i : i + SIZE - 2, j : j + SIZE - 2],
                f(bf16_numbers(filters).astype(np.float64))[i, j],
            )
            for i, j in itertools.product(range(3), repeat=2)
        )
        for f in (lambda x: x, np.abs)
    )
    # Of each step of 16 products units lose at most 17 parts of 2^-24 of the largest. One rounding follows.
    steps = 9 * CHANNELS / 16 + 1
    expect_within(
        bf16_numbers(result).astype(np.float64),
        exact,
        2.0**-8 * np.abs(exact) + 18 * steps * 2.0**-24 * magnitudes,
    )
