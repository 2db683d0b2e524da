"""Products of few rows and a matrix of half precision: by what the text of their kernels says.

`test_half_precision.py` checks their results where there is a GPU of NVIDIA.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
import torch
from agreement import expect_within
from iree.winograd.dialect.algebra.bf16 import bf16_bits, bf16_numbers
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.loading.program_context import INSTANCE
from iree.winograd.loading.program_module import program_module
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.backends.schedules import schedule_from_record, schedule_record
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.work import BATCH, Sizes
from iree.winograd.pipelines.gpu.choice.candidate_schedules import schedules
from iree.winograd.pipelines.gpu.choice.default_schedule import default_schedules
from iree.winograd.pipelines.gpu.choice.stage_seconds import stage_seconds
from iree.winograd.pipelines.gpu.kernels.matrix_products.gemv import GemvFilterKernel
from iree.winograd.pipelines.gpu.kernels.winograd.transforms import OutputTransformKernel
from iree.winograd.pipelines.gpu.packing.gemv import GemvPacking
from iree.winograd.pipelines.gpu.schedules.fit import kernel_misfit
from iree.winograd.pipelines.gpu.schedules.gemv import GemvSchedule
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.problems.launches import Launch, Place
from iree.winograd.pipelines.problems.open_launches import OPEN_LAUNCHES_KEY, OpenLaunches
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from ptx_interpreter import Kernel
from ptxas import spilled_bytes
from scheduled_program import AMPERE, HOPPER
from wide import wide_combinations

MACHINE = default_gpu_machine("sm_80")
HOPPER_MACHINE = default_gpu_machine("sm_90a")

Array = npt.NDArray[Any]


def layer(rows: int, channels: int, columns: int, types: str) -> ConvolutionShape:
    return pixels(f"1x{rows}", channels, columns, "1x1", types)


def pixels(size: str, channels: int, columns: int, strides: str, types: str) -> ConvolutionShape:
    problem = ConvolutionProblem.parse(
        f"1x{size}x{channels}->{columns} kernel 1x1 stride {strides} dilation 1x1 "
        f"padding 0x0 0x0 groups 1 {types}"
    )
    direct = decompose((1, 1), (1, 1), strides=problem.strides, part_size=(1, 1))
    return ConvolutionShape.decomposed(problem, direct)


def halves(type_: str) -> str:
    return f"f32, operands of {type_}, result of {type_}"


@pytest.mark.parametrize("type_", ["f16", "bf16"])
@pytest.mark.parametrize(("channels", "columns"), [(25088, 4096), (4096, 4096)])
def test_vgg_at_one_image_takes_little_more_than_its_matrices(
    channels: int, columns: int, type_: str
) -> None:
    of = layer(1, channels, columns, halves(type_))
    chosen = default_schedules(of, HOPPER, HOPPER_MACHINE)[0]
    assert isinstance(chosen, GemvSchedule) and chosen.product_type == type_
    assert chosen.keeps_operands(type_, are_transformed=False)
    seconds = stage_seconds(of, chosen, HOPPER_MACHINE)
    matrix = 2 * channels * columns
    assert seconds["products"] <= 3e-6 + 1.05 * matrix / HOPPER_MACHINE.bandwidth(matrix)


@pytest.mark.parametrize(
    "other",
    [
        layer(785, 64, 64, halves("f16")),
        layer(2049, 32, 16, halves("f16")),
        layer(513, 64, 64, "f32"),
        layer(9, 1024, 1024, halves("f16")),
        layer(1, 510, 512, "f32"),
    ],
    ids=[
        "785 rows",
        "2049 rows by a tiny matrix",
        "513 rows of f32",
        "nine rows by a large matrix",
        "no whole quads",
    ],
)
def test_other_layers_have_none(other: ConvolutionShape) -> None:
    assert not any(isinstance(each, GemvSchedule) for each in schedules(other, HOPPER, HOPPER_MACHINE))


@pytest.mark.parametrize(
    ("rows", "channels", "columns"), [(196, 112, 672), (196, 672, 112), (784, 40, 240), (49, 368, 368)]
)
def test_some_hundred_rows_of_half_precision_by_a_small_matrix_are_few(
    rows: int, channels: int, columns: int
) -> None:
    of = layer(rows, channels, columns, halves("f16"))
    chosen = default_schedules(of, HOPPER, HOPPER_MACHINE)[0]
    assert isinstance(chosen, GemvSchedule)


def test_thousands_of_rows_by_a_tiny_matrix_are_few() -> None:
    """As heads of detectors have, of images of any size."""
    chosen = default_schedules(layer(1920, 32, 9, halves("f16")), HOPPER, HOPPER_MACHINE)[0]
    assert isinstance(chosen, GemvSchedule)


@pytest.mark.parametrize(
    ("size", "channels", "columns"), [("14x14", 152, 368), ("28x28", 56, 152), ("56x56", 24, 56)]
)
def test_strided_layers_of_one_image_are_of_few_rows(size: str, channels: int, columns: int) -> None:
    of = pixels(size, channels, columns, "2x2", halves("f16"))
    assert isinstance(default_schedules(of, HOPPER, HOPPER_MACHINE)[0], GemvSchedule)


def test_rows_of_an_argument_are_few_wherever_they_are_stored() -> None:
    """What is multiplied is of half precision, but channels of the image come first, in f32 then."""
    model = torch.nn.Conv2d(24, 58, 1).eval().half()
    imported = iree.winograd.import_torch(model, torch.zeros(1, 24, 28, 28).half())
    compiled = bytes(iree.winograd.compile(imported, target="cuda:sm_90a", strict=True))
    assert b"winograd_direct_f1x1_1x1_28x28x58_from_24" in compiled


def test_some_hundred_rows_of_f32_by_a_small_matrix_are_few() -> None:
    """As long as others aren't known to be faster, of images of twice the expected size, too."""

    def is_by_few_rows(text: str, channels: int, columns: int) -> bool:
        of = replace(layer(1, channels, columns, "f32"), **vars_of(text))
        return isinstance(default_schedules(of, HOPPER, HOPPER_MACHINE)[0], GemvSchedule)

    def vars_of(text: str) -> dict[str, Any]:
        sizes = text.split("x")
        unknown = tuple(d for d, size in enumerate(sizes) if size.startswith("?"))
        return {"input_size": tuple(int(each.strip("?")) for each in sizes), "unknown_sizes": unknown}

    assert is_by_few_rows("22x22", 128, 64) and not is_by_few_rows("22x22", 96, 384)
    assert is_by_few_rows("?11x?11", 128, 64) and not is_by_few_rows("?22x?22", 128, 64)


def test_schedules_are_for_few_rows_of_nvidias_gpus() -> None:
    schedule = GemvSchedule(1, 64, multiplied_type="bf16", reduction_parts=3)
    for each in (schedule, GemvSchedule(1, 8)):
        assert schedule_from_record(schedule_record(each)) == each
    of = layer(1, 512, 512, halves("bf16"))
    assert kernel_misfit(of, AMPERE, schedule) is None
    assert "no matrix units" in (kernel_misfit(of, replace(AMPERE, matrix_unit=None), schedule) or "")
    assert "at most 8 rows" in (kernel_misfit(layer(9, 1024, 1024, "f32"), AMPERE, schedule) or "")
    for sizes, type_, message in (
        ((9, 64), "f16", "block_rows must be at most 8, not 9"),
        ((1, 8), "f16", "block_columns must be one of 16, 32, 64, not 8"),
        ((1, 256), None, "block_columns must be one of 4, 8, 16, 32, 64, 128, not 256"),
        ((1, 64), "f32", "multiplied_type must be f16, bf16 or None, not f32"),
    ):
        with pytest.raises(ValueError, match=message):
            GemvSchedule(*sizes, multiplied_type=type_)


def program(type_: str, rows: int, channels: int, columns: int) -> str:
    image, weights = f"tensor<1x1x{rows}x{channels}x{type_}>", f"tensor<1x1x{channels}x{columns}x{type_}>"
    out = f"tensor<1x1x{rows}x{columns}x{type_}>"
    return f"""func.func @main(%x: {image}, %w: {weights}) -> {out} {{
      %zero = arith.constant 0.0 : {type_}
      %e = tensor.empty() : {out}
      %z = linalg.fill ins(%zero : {type_}) outs(%e : {out}) -> {out}
      %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : {image}, {weights}) outs(%z : {out}) -> {out}
      return %r : {out}
    }}"""


def of_type(numbers: Array, type_: str) -> tuple[Array, Array]:
    """Rounded to a type as they are in memory, and as float64."""
    if type_ != "bf16":
        stored = numbers.astype(np.float16 if type_ == "f16" else np.float32)
        return stored, stored.astype(np.float64)
    bits = np.asarray(bf16_bits(numbers.astype(np.float32)))
    return bits, read(bits, type_)


def read(stored: Array, type_: str) -> Array:
    if type_ != "bf16":
        return stored.view(np.float16 if type_ == "f16" else np.float32).astype(np.float64)
    return np.asarray(bf16_numbers(stored), np.float64)


def kernels_of(text: str, folder: Path) -> tuple[dict[str, Kernel], Schedule]:
    """By the stage that their names say, and the schedule that was chosen."""
    report, flags = folder / "report.json", [f"--iree-hal-dump-executable-files-to={folder}"]
    iree.winograd.compile(text, target="cuda:sm_80", strict=True, flags=flags, report=report)
    (told,) = json.loads(report.read_text())["layers"]
    assert set(spilled_bytes(folder, "sm_80").values()) == {0}
    (ptx,) = (path.read_text() for path in folder.glob("*.ptx"))
    return Kernel.by_stage(ptx), schedule_from_record(told["candidates"][told["chosen"]]["schedule"])


def grid(*extents: Index) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(each.known or 0) for each in extents))


@pytest.mark.parametrize(
    ("type_", "rows", "channels", "columns"),
    [
        # Blocks of rows, the last of which has fewer.
        ("f16", 20, 72, 48),
        # Rows of no whole quads.
        ("f16", 20, 58, 58),
        *wide_combinations(
            [
                ("bf16", 3, 72, 260),
                # Parts of the sums by workgroups.
                ("f16", 1, 12288, 16),
                ("f32", 3, 72, 260),
                ("f16", 8, 72, 260),
                ("f32", 8, 520, 24),
                ("f32", 1, 12288, 16),
                ("f32", 19, 96, 16),
                ("f16", 101, 72, 48),
            ]
        ),
    ],
)
def test_sums_are_those_of_f32(type_: str, rows: int, channels: int, columns: int, tmp_path: Path) -> None:
    """Whatever the matrix's padding holds, and lies behind the rows."""
    generator = np.random.default_rng(0)
    image, exact_rows = of_type(generator.standard_normal((rows, channels)), type_)
    of = layer(rows, channels, columns, "f32" if type_ == "f32" else halves(type_))
    expect_sums(program(type_, rows, channels, columns), of, image, exact_rows, type_, tmp_path)


def test_strided_pixels_are_rows_where_they_are(tmp_path: Path) -> None:
    """As those of a shortcut around a block of ResNet's, or RegNet's, that makes images smaller."""
    generator = np.random.default_rng(0)
    image, exact = of_type(generator.standard_normal((9, 7, 72)), "f16")
    rows = exact[::2, ::2].reshape(-1, 72)
    text = program("f16", 20, 72, 48).replace("tensor<1x1x20x72x", "tensor<1x9x7x72x")
    text = text.replace("tensor<1x1x20x48x", "tensor<1x5x4x48x").replace(
        "conv_2d_nhwc_hwcf ins", "conv_2d_nhwc_hwcf {strides = dense<2> : vector<2xi64>} ins"
    )
    of = pixels("9x7", 72, 48, "2x2", halves("f16"))
    expect_sums(text, of, image, rows, "f16", tmp_path)


def expect_sums(
    text: str, of: ConvolutionShape, image: Array, exact_rows: Array, type_: str, tmp_path: Path
) -> None:
    """Of a program's kernels, whose matrix has random numbers: products of `exact_rows`."""
    (rows, channels), columns = exact_rows.shape, of.output_channels
    generator = np.random.default_rng(1)
    _, exact_matrix = of_type(generator.standard_normal((channels, columns)), type_)
    kernels, schedule = kernels_of(text, tmp_path)
    assert isinstance(schedule, GemvSchedule)
    packing = GemvPacking(of, schedule)
    # What kernels pass to each other lies in one array, at places that IREE chose.
    between = np.full(1 << 20, np.nan, np.float32)
    result = np.zeros((rows, columns), np.float32 if type_ == "f32" else np.uint16)
    # IREE widened it.
    matrix = exact_matrix.astype(np.float32)
    of_filter = grid(
        *GemvFilterKernel(packing, FilterLayout((0, 1, 2, 3), False)).workgroups(Sizes({BATCH: Index(1)}))
    )
    kernels["filter"].run([matrix, between], of_filter)
    assert packing.pack_filters(matrix[None]).tobytes() in between.tobytes()
    blocks = packing.padded_filters // schedule.block_columns
    row_blocks = ceil_div(rows, schedule.block_rows)
    of_products = grid(Index(row_blocks), Index(blocks), Index(schedule.reduction_parts))
    if schedule.reduction_parts > 1:
        of_output = grid(*OutputTransformKernel(packing).workgroups(Sizes({BATCH: Index(1)})))
        kernels["products"].run([image, between, between], of_products)
        kernels["output"].run([between, result], of_output)
    else:
        kernels["direct"].run([image, between, result], of_products)
    exact, magnitudes = exact_rows @ exact_matrix, np.abs(exact_rows) @ np.abs(exact_matrix)
    # One rounding of f32 for each product, and one to half precision.
    bits = {"f16": 11, "bf16": 8, "f32": 24}[type_]
    bound = 2.0**-bits * np.abs(exact) + channels * 2.0**-24 * magnitudes
    expect_within(read(result, type_), exact, bound)


OPEN = """func.func @main(%x: tensor<1x?x?x64xf32>, %w: tensor<1x1x64x40xf32>) -> tensor<1x?x?x40xf32> {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %height = tensor.dim %x, %c1 : tensor<1x?x?x64xf32>
  %width = tensor.dim %x, %c2 : tensor<1x?x?x64xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%height, %width) : tensor<1x?x?x40xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x?x?x40xf32>) -> tensor<1x?x?x40xf32>
  %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x?x?x64xf32>, tensor<1x1x64x40xf32>)
    outs(%z : tensor<1x?x?x40xf32>) -> tensor<1x?x?x40xf32>
  return %r : tensor<1x?x?x40xf32>
}"""


def test_images_of_any_size_are_rows_of_few_pixels(tmp_path: Path) -> None:
    """Those that are expected to be; of larger ones there are more blocks of rows."""
    report, flags = tmp_path / "report.json", [f"--iree-hal-dump-executable-files-to={tmp_path}"]
    compiled = iree.winograd.compile(
        OPEN, target="cuda:sm_80", strict=True, flags=flags, size_hint=(3, 4), report=report
    )
    (told,) = json.loads(report.read_text())["layers"]
    assert told["candidates"][told["chosen"]]["schedule"]["kind"] == GemvSchedule.kind
    module = program_module(INSTANCE, compiled)
    reflection = module.lookup_function("main").reflection
    open_launches = OpenLaunches.from_json(reflection[OPEN_LAUNCHES_KEY])
    (ptx,) = (path.read_text() for path in tmp_path.glob("*.ptx"))
    kernels = Kernel.by_stage(ptx)
    generator = np.random.default_rng(0)
    weights = generator.standard_normal((1, 1, 64, 40), np.float32)
    for size in ((1, 3), (3, 4), (7, 5)):
        image = generator.standard_normal((1, *size, 64), np.float32)
        launches = open_launches.at([image.shape, weights.shape])
        memory = {
            "argument": [each.view(np.uint8).reshape(-1) for each in (image, weights)],
            "allocation": [np.full(each, 0xFF, np.uint8) for each in launches.allocations],
        }

        def at(place: Place, memory: dict[str, list[Array]] = memory) -> Array:
            return memory[place.memory.kind][place.memory.number][place.offset :]

        commands = [command for stage in launches.stages for command in stage]
        for command in commands:
            assert isinstance(command, Launch)
            stage = command.kernel.split("_")[1]
            numbers = [np.array(number, np.uint32) for number in command.numbers]
            workgroups = grid(*map(Index, command.workgroups))
            kernels[stage].run([*map(at, command.tensors), *numbers], workgroups)
        (result,) = launches.results
        exact = image.astype(np.float64) @ weights[0, 0].astype(np.float64)
        got = at(result.place)[: 4 * exact.size].view(np.float32).reshape(exact.shape)
        magnitudes = np.abs(image).astype(np.float64) @ np.abs(weights[0, 0]).astype(np.float64)
        expect_within(got.astype(np.float64), exact, 64 * 2.0**-24 * magnitudes)
