"""Depthwise convolutions by Toeplitz matrices on matrix units: results, and when they are chosen.

By the interpreter of PTX; no GPU of NVIDIA takes part unless `--gpu` names one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import iree.winograd
import numpy as np
import pytest
from agreement import expect_within
from half_pointwise import choosing
from iree.winograd.compiling.assembler import installed_assembler
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.choice.candidate_schedules import schedules
from iree.winograd.pipelines.gpu.choice.default_schedule import default_schedules
from iree.winograd.pipelines.gpu.choice.stage_seconds import stage_seconds
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.kernels.grouped.depthwise_toeplitz import DepthwiseToeplitzKernel
from iree.winograd.pipelines.gpu.schedules.fit import kernel_misfit
from iree.winograd.pipelines.gpu.schedules.toeplitz import DepthwiseToeplitzSchedule, ToeplitzTiling
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from ptx_interpreter import Kernel
from ptxas import spilled_bytes
from scheduled_program import AMPERE, HOPPER, ScheduledProgram
from wide import wide

SAME = ScheduledProgram(
    (9, 10),
    16,
    16,
    (5, 5),
    (1, 1),
    (1, 1),
    low=(2, 2),
    high=(2, 2),
    groups=16,
    batch=2,
    schedule=DepthwiseToeplitzSchedule(64, units=2, images=2, rows=8),
)
WIDE = replace(SAME, kernel=(7, 7), low=(3, 3), high=(3, 3))
FEW = replace(SAME, size=(6, 8), kernel=(3, 3), low=(1, 1), high=(1, 1))
TILES = DepthwiseToeplitzSchedule(128, units=2, images=1, rows=4)
UNITS = 2.0**-22
"""Matrix units truncate each of their sums, whose numbers have 22 bits."""


def _shape(
    size: tuple[int, int], channels: int, taps: tuple[int, int], batch: int = 32, **others: str
) -> ConvolutionShape:
    low, ones = (taps[0] // 2, taps[1] // 2), (1, 1)
    problem = ConvolutionProblem(batch, size, low, low, taps, ones, ones, *(channels,) * 3)
    return replace(ConvolutionShape.decomposed(problem, decompose(taps, ones, part_size=ones)), **others)


def _run(program: ScheduledProgram, kernel: Kernel, arguments: list[np.ndarray]) -> None:
    schedule = program.schedule
    assert isinstance(schedule, DepthwiseToeplitzSchedule)
    ones = (1, 1)
    strides, low, high = (program.per_dimension(*each) for each in (("strides", 1), ("low", 0), ("high", 0)))
    problem = ConvolutionProblem(
        program.batch, program.size, low, high, program.kernel, strides, ones, *(program.channels,) * 3
    )
    decomposition = decompose(program.kernel, ones, strides=strides, part_size=ones)
    shape = ConvolutionShape.decomposed(problem, decomposition)
    (count,) = DepthwiseToeplitzKernel(shape, schedule).workgroups(Sizes.of_batch(program.batch))
    kernel.run(arguments, ((i, 0, 0) for i in range(count.known or 0)))


@pytest.mark.parametrize(
    "program",
    [
        SAME,
        # A ring that rows take the place of others in.
        replace(SAME, schedule=replace(SAME.schedule, rows=12)),
        WIDE,
        replace(FEW, adds_image=True, activation="gelu"),
        *wide(
            [
                # Images that end where tiles of blocks don't, and more of these than a warp's.
                replace(SAME, size=(5, 67), batch=1, schedule=TILES),
                replace(SAME, size=(21, 10), schedule=replace(SAME.schedule, rows=24, spare_strips=2)),
                replace(WIDE, size=(21, 10), schedule=replace(SAME.schedule, rows=24)),
                replace(SAME, kernel=(3, 5), low=(0, 3), high=(2, 1), constant_filter=False),
                replace(WIDE, kernel=(9, 6), low=(4, 0), high=(4, 5), adds_image=True),
                replace(
                    SAME,
                    channels=12,
                    outputs=12,
                    groups=12,
                    schedule=replace(SAME.schedule, threads=96, units=3),
                ),
            ]
        ),
    ],
    ids=str,
)
def test_all_outputs_are_right(program: ScheduledProgram, tmp_path: Path) -> None:
    """Of images of f32 whose numbers are f16's. Shared memory that nobody wrote to has no numbers."""
    (text,) = program.ptx("sm_80", tmp_path)
    image, filters, bias = (each.astype(np.float16).astype(np.float32) for each in program.arguments())
    result = np.full((program.batch, *program.output_size, program.channels), np.nan, np.float32)
    taps = filters if not program.constant_filter else filters.reshape(-1, program.channels)
    arguments = [image, taps, bias, result]
    _run(program, Kernel.by_stage(text)["depthwise"], arguments)
    terms = program.kernel[0] * program.kernel[1]
    slope = 1.13 if program.activation == "gelu" else 1.0
    most = (
        np.abs(image).max() * np.abs(filters).reshape(terms, -1).sum(0) + np.abs(bias) + np.abs(image).max()
    )
    expect_within(result, program.expected(image, filters, bias), slope * (terms + 4) * UNITS * most)


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[DepthwiseToeplitzSchedule], None]]:
    """Has programs computed by a schedule."""
    with choosing(monkeypatch) as choose:
        yield choose


@pytest.mark.parametrize("taps", [5, *wide([3, 7])])
def test_half_precision_is_copied_as_it_is(
    taps: int, chosen: Callable[[DepthwiseToeplitzSchedule], None], tmp_path: Path
) -> None:
    """Beside the computation, and stored by 16 bytes; results are rounded once."""
    program = replace(
        SAME, kernel=(taps, taps), low=(taps // 2,) * 2, high=(taps // 2,) * 2, constant_filter=False
    )
    chosen(replace(program.schedule))
    image, filters, _ = (each.astype(np.float16) for each in program.arguments())
    (text,) = (each for each in _half_ptx(image, filters, tmp_path) if "depthwise" in each)
    assert "cp.async.ca" in text and "st.global.v4" in text and "st.global.v2" not in text
    result = np.full(image.shape, np.nan, np.float16)
    weights = filters.reshape(taps**2, -1).astype(np.float32)
    _run(program, Kernel.by_stage(text)["depthwise"], [image, weights, result])
    exact = depthwise(image.astype(np.float64), filters.astype(np.float64))
    most = depthwise(np.abs(image).astype(np.float64), np.abs(filters).astype(np.float64))
    expect_within(result, exact, (taps**2 + 4) * UNITS * most + 2.0**-11 * np.abs(exact) + 2.0**-25)


def depthwise(image: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """Of images and filters that are padded so that results are as many."""
    rows, columns, pad = *image.shape[1:3], filters.shape[0] // 2
    padded = np.pad(image, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    return sum(
        padded[:, row : row + rows, column : column + columns] * filters[row, column].reshape(-1)
        for row, column in np.ndindex(filters.shape[:2])
    )


def _half_ptx(image: np.ndarray, filters: np.ndarray, folder: Path) -> list[str]:
    """The kernels of an image of f16 by filters of f16, padded so that results are as many."""
    pad = filters.shape[0] // 2
    size = f"{image.shape[0]}x{image.shape[1] + 2 * pad}x{image.shape[2] + 2 * pad}x{image.shape[3]}xf16"
    image_type = f"tensor<{'x'.join(map(str, image.shape))}xf16>"
    filters_type = f"tensor<{'x'.join(map(str, (*filters.shape[:2], image.shape[3])))}xf16>"
    source = f"""func.func @main(%x: {image_type}) -> {image_type} {{
      %zero = arith.constant 0.0 : f16
      %w = arith.constant dense<"0x{filters.tobytes().hex()}"> : {filters_type}
      %padded = tensor.pad %x low[0, {pad}, {pad}, 0] high[0, {pad}, {pad}, 0] {{
      ^bb0(%n: index, %h: index, %v: index, %c: index):
        tensor.yield %zero : f16
      }} : {image_type} to tensor<{size}>
      %e = tensor.empty() : {image_type}
      %z = linalg.fill ins(%zero : f16) outs(%e : {image_type}) -> {image_type}
      %r = linalg.depthwise_conv_2d_nhwc_hwc ins(%padded, %w : tensor<{size}>, {filters_type})
        outs(%z : {image_type}) -> {image_type}
      return %r : {image_type}
    }}"""
    flags = [f"--iree-hal-dump-executable-files-to={folder}"]
    iree.winograd.compile(source, target="cuda:sm_90a", strict=True, flags=flags)
    return [path.read_text() for path in folder.glob("*.ptx")]


@pytest.mark.parametrize(
    ("size", "channels", "taps", "element", "is_chosen"),
    [
        (28, 192, 7, "f16", True),
        (56, 96, 7, "f16", True),
        (28, 240, 5, "f16", True),
        (28, 240, 5, "bf16", True),
        (112, 16, 3, "f16", True),
        (112, 32, 3, "f16", True),
        (56, 144, 3, "f16", False),
        (14, 384, 7, "f16", True),
        (7, 768, 7, "f16", True),
        (14, 672, 5, "f16", True),
        (14, 960, 5, "f16", False),
        (7, 1152, 5, "f16", False),
        (28, 120, 5, "f16", True),
        (28, 192, 7, None, False),
    ],
)
def test_are_chosen_where_an_h200_took_less_time(
    size: int, channels: int, taps: int, element: str | None, is_chosen: bool
) -> None:
    """For 32 images, of half precision."""
    shape = replace(_shape((size, size), channels, (taps, taps)), exact_type=element)
    machine = default_gpu_machine("sm_90a")
    offered = default_schedules(shape, HOPPER, machine)
    seconds = {each: sum(stage_seconds(shape, each, machine).values()) for each in offered}
    chosen = min(offered, key=seconds.__getitem__)
    assert isinstance(chosen, DepthwiseToeplitzSchedule) == is_chosen
    assert is_chosen == (element is not None and chosen.keeps_operands(element, are_transformed=False)) or (
        not is_chosen and chosen.matrix_products == 0
    )


@pytest.mark.parametrize(("channels", "taps", "spare"), [(480, 5, 4), (672, 5, 1), (384, 7, 4), (768, 7, 1)])
def test_rows_of_small_images_are_held_where_they_fit_and_workgroups_are_even(
    channels: int, taps: int, spare: int
) -> None:
    """For 32 images, which an H200 took less time for; four spare strips are all rows of 14."""
    shape = replace(_shape((14, 14), channels, (taps, taps)), exact_type="f16")
    machine = default_gpu_machine("sm_90a")
    offered = [
        each for each in schedules(shape, HOPPER, machine) if isinstance(each, DepthwiseToeplitzSchedule)
    ]
    best = min(offered, key=lambda each: sum(stage_seconds(shape, each, machine).values()))
    assert best.spare_strips == spare


def test_one_image_and_other_targets_have_other_kernels() -> None:
    machine = default_gpu_machine("sm_90a")
    one = _shape((28, 28), 192, (7, 7), 1, exact_type="f16")
    many = replace(one, batch=32)
    without_units = replace(HOPPER, matrix_unit=None, has_warpgroup_products=False)
    for shape, target in ((one, HOPPER), (many, without_units)):
        offered = schedules(shape, target, machine)
        assert not any(isinstance(each, DepthwiseToeplitzSchedule) for each in offered)


@pytest.mark.parametrize(
    ("shape", "target", "reason"),
    [
        (replace(_shape((28, 28), 16, (5, 5)), batch=None), AMPERE, "known sizes"),
        (_shape((28, 28), 16, (5, 8)), AMPERE, "taps"),
        (_shape((28, 28), 20, (5, 5)), AMPERE, "20 channels"),
        (_shape((28, 28), 16, (5, 5), 3), AMPERE, "3 images"),
        (_shape((28, 28), 16, (5, 5)), replace(AMPERE, matrix_unit=None), "no matrix units"),
        (_shape((28, 28), 16, (5, 5)), replace(AMPERE, shared_memory_bytes=40000), "shared memory"),
        (_shape((56, 56), 16, (5, 5)), AMPERE, "other warps"),
    ],
)
def test_says_what_it_is_not_for(shape: ConvolutionShape, target: GpuTarget, reason: str) -> None:
    schedule = DepthwiseToeplitzSchedule(128, units=4, images=2, rows=28)
    assert reason in str(kernel_misfit(shape, target, schedule))


def test_fits_whatever_its_results_are_stored_as() -> None:
    """Which isn't known yet where it is chosen: what is to be rounded may be stored in f32."""
    chosen_for = _shape((28, 28), 16, (5, 5), 32, exact_type="f16", rounded_type="f16")
    types = replace(chosen_for.element_types, input="f16")
    lowered = [chosen_for.with_element_types(replace(types, result=each)) for each in ("f32", "f16")]
    schedule = DepthwiseToeplitzSchedule(128, units=4, images=2, rows=28)
    in_f32 = ToeplitzTiling(chosen_for, schedule).bytes(4)
    least, less = (replace(AMPERE, shared_memory_bytes=each) for each in (in_f32, in_f32 - 1))
    assert all(kernel_misfit(each, least, schedule) is None for each in (chosen_for, *lowered))
    reasons = [kernel_misfit(each, less, schedule) for each in (chosen_for, *lowered)]
    assert [reason is None for reason in reasons] == [False, False, True]
    assert "shared memory" in str(reasons[0])


@pytest.mark.skipif(installed_assembler() is None, reason="there is no assembler of NVIDIA's")
def test_the_code_spills_nothing(tmp_path: Path) -> None:
    schedule = DepthwiseToeplitzSchedule(384, units=12, images=1, rows=28, resident=384)
    program = replace(
        WIDE, size=(28, 28), channels=48, outputs=48, groups=48, schedule=schedule, activation="gelu"
    )
    program.ptx("sm_90a", tmp_path)
    assert not any(spilled_bytes(tmp_path, "sm_90a").values())
