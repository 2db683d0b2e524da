"""The kernel of half precision on the matrix unit: right on it, and on vectors where it may not be used."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import replace
from itertools import pairwise
from math import prod
from pathlib import Path

import iree.winograd
import numpy as np
import pytest
import torch
from agreement import expect_within
from checked_programs import check_together, compile_rewritten
from host import flags_of_host_with
from iree.winograd.compiling.compilation import Compilation, Stages
from iree.winograd.compiling.program import open_session, open_source
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.cpu.choice.search_space import CpuSearchSpace
from iree.winograd.pipelines.cpu.kernels.half_matrix_unit import HalfMatrixUnitKernel
from iree.winograd.pipelines.cpu.kernels.kernel_of import kernel_for, kernel_misfit
from iree.winograd.pipelines.cpu.processor.instruction_set import ProcessorFacts
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.processor.x86 import X86
from iree.winograd.pipelines.cpu.schedules.matrix_unit import (
    Bf16MatrixUnitSchedule,
    F16MatrixUnitSchedule,
)
from iree.winograd.pipelines.cpu.schedules.tiled import split_rows
from iree.winograd.pipelines.machines.defaults import default_cpu_machine
from iree.winograd.pipelines.selection.candidates import convolution_shape, direct_algorithm
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.pipelines.selection.prediction import algorithm_error, error_limit
from iree.winograd.report.schema import LayerReport, types_text
from iree.winograd.targets import target_flags
from iree.winograd.tuning.measuring.constant_filter_program import ConstantFilterProgram
from iree.winograd.tuning.measuring.program_of_problem import layer_program
from rounded_program import RoundedProgram
from wide import sampled, wide

pytestmark = pytest.mark.this_machine

UNIT = "+amx-tile,+amx-bf16"
TARGET = CpuTarget.of("sapphirerapids", f"+avx2,+fma,+avx512f,{UNIT}")
FLAGS = flags_of_host_with(UNIT)


@pytest.fixture(autouse=True)
def unit_of_any_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has processors that lack AVX-512 have the unit: their programs find that they may not use it."""
    known = X86.facts

    def facts(self: X86, cpu: str, features: set[str]) -> ProcessorFacts:
        found = known(self, cpu, features)
        return found._replace(has_matrix_unit=features >= {"amx-tile", "amx-bf16"})

    monkeypatch.setattr(X86, "facts", facts)


def direct(
    size: tuple[int, ...],
    channels: int,
    outputs: int,
    blocks: tuple[int, int, int, int, int, int],
    kernel: int = 1,
    parts: int = 2,
    **rest: object,
) -> RoundedProgram:
    """`blocks` are the numbers of a schedule, from `tile_pixels` to `pixel_block`, `parts` its splits of
    channels."""
    ones, taps = (1,) * len(size), (kernel,) * len(size)
    rest.setdefault("low", (kernel // 2,) * len(size))
    rest.setdefault("high", (kernel // 2,) * len(size))
    schedule = Bf16MatrixUnitSchedule(*blocks, channel_splits=parts)
    return RoundedProgram(size, channels, outputs, taps, ones, ones, schedule=schedule, **rest)


PROGRAMS = [
    # Blocks of a line of pixels that overlap, and channels that fill no tile.
    direct((9, 9), 40, 72, (14, 2, 1, 2, 1, 81)),
    direct((10, 10), 64, 48, (13, 1, 1, 3, 1, 50), activation="swish"),
    direct((7, 7), 17, 6, (9, 2, 1, 1, 1, 49)),
    # Few channels, of which those of a row of taps are one.
    direct((23, 20), 3, 40, (10, 1, 1, 2, 4, 10), 7, strides=(2, 2), low=(3, 3), high=(2, 2)),
    direct((9, 30), 11, 16, (14, 2, 1, 1, 3, 28), 3, low=(1, 0), high=(1, 0)),
    # Tiles of two rows, of which the last ones overlap, between zeros.
    direct((9, 13), 35, 40, (13, 1, 2, 2, 4, 13), 3),
    direct((15, 12), 20, 33, (6, 1, 1, 1, 5, 6), 3, strides=(2, 2), batch=2),
    direct((16, 16), 32, 16, (4, 2, 1, 1, 3, 8), 1, strides=(2, 2)),
    direct((12, 12), 16, 32, (8, 1, 1, 2, 2, 8), 5, low=(0, 0), high=(0, 0), dynamic_batch=True),
    direct((14, 14), 33, 32, (10, 1, 2, 2, 10, 10), 3, dilations=(2, 2), low=(0, 0), high=(0, 0)),
    direct((40,), 24, 20, (10, 2, 1, 1, 1, 20), 3, strides=(2,)),
    # All channels of some pixels before the next pixels.
    direct((9, 9), 64, 72, (14, 2, 1, 2, 1, 81), parts=1),
    # Rows that are joined: tiles of rows that take turns in registers, and end behind what is copied.
    direct((7, 7), 40, 40, (16, 4, 1, 1, 7, 7), 3, batch=2),
    direct((4, 4), 64, 40, (11, 2, 1, 2, 4, 4), 3, activation="swish"),
    direct((9, 5), 33, 17, (10, 3, 1, 1, 5, 4), 3, dilations=(2, 1), low=(2, 1), high=(2, 0)),
]


def test_agrees_with_float64() -> None:
    check_together(PROGRAMS, FLAGS)


def of_f16(program: RoundedProgram) -> RoundedProgram:
    """The same of the schedule for f16, which takes 16 bits of numbers of f32."""
    assert isinstance(program.schedule, Bf16MatrixUnitSchedule)
    schedule = F16MatrixUnitSchedule(**vars(program.schedule))
    return replace(program, schedule=schedule, rounded_type=torch.float32, left_out=2.0**-15)


@pytest.mark.parametrize("first", [1, *wide([0])])
def test_f16_agrees_with_float64(first: int) -> None:
    """Numbers up to 1: an image's rest is up to 2^-9, cut off at 2^-16, a filter's rounded at 2^-17, and the
    product of both, 2^-18, is left out."""
    check_together([of_f16(program) for program in PROGRAMS[first::2]], FLAGS)


OPEN_PROGRAMS = [
    direct((14, 14), 64, 72, (14, 2, 1, 2, 1, 196), dynamic_size=True),
    direct((9, 9), 40, 33, (14, 2, 1, 1, 1, 81), dynamic_size=True, dynamic_batch=True),
    direct((13, 17), 35, 40, (9, 1, 2, 2, 4, 17), 3, dynamic_size=True, activation="swish"),
    direct(
        (23, 20), 3, 40, (10, 1, 1, 2, 4, 10), 7, strides=(2, 2), low=(3, 3), high=(2, 2), dynamic_size=True
    ),
    direct((16, 16), 32, 16, (4, 2, 1, 1, 3, 8), 1, strides=(2, 2), dynamic_size=True),
    direct(
        (14, 14),
        33,
        32,
        (10, 1, 3, 1, 10, 10),
        3,
        dilations=(2, 2),
        low=(1, 1),
        high=(1, 1),
        dynamic_size=True,
    ),
    direct((40,), 24, 20, (10, 2, 1, 1, 1, 20), 3, strides=(2,), dynamic_size=True),
    # All tiles of a small image are held at once, where it has the size that is expected.
    direct((7, 7), 40, 40, (16, 4, 1, 1, 7, 7), 3, dynamic_size=True, dynamic_batch=True),
    direct((9, 12), 64, 24, (12, 1, 2, 2, 5, 12), 1, low=(1, 1), high=(1, 1), dynamic_size=True),
]
OPEN_SIZES = [(1, 1), (2, 3), (3, 40), (40, 3), (14, 14), (13, 31), (37, 41)]


# A line of pixels, tiles of rows that overlap, and joined rows; the others are sizes of these.
@pytest.mark.parametrize(
    "program",
    sampled(OPEN_PROGRAMS, [OPEN_PROGRAMS[2], OPEN_PROGRAMS[7]]),
    ids=str,
)
def test_images_may_have_any_size(program: RoundedProgram) -> None:
    """Fewer outputs than a tile has rows, and than rows of a register block, among others."""
    sizes = [size[-program.rank :] for size in OPEN_SIZES]
    allowed = [size for size in sizes if min(replace(program, size=size).output_size) > 0]
    batches = (1, 3) if program.dynamic_batch else (1,)
    program.check_sizes(allowed, batches, threads=1, flags=FLAGS)


def chain(image: torch.Tensor, filters: list[torch.Tensor], stride: int) -> torch.Tensor:
    """Convolutions whose results are rounded: the first image is an argument, others lie between kernels."""
    for weights in filters:
        image = torch.nn.functional.conv2d(image, weights, stride=stride)
    return image


@pytest.mark.parametrize(
    ("kernel", "stride"),
    [(1, 1), pytest.param(1, 2, marks=pytest.mark.wide), pytest.param(3, 1, marks=pytest.mark.wide)],
)
def test_images_of_bf16_are_read_where_they_are(kernel: int, stride: int, tmp_path) -> None:
    """In memory, where they have no padding, and channels that fill tiles. NaN stays with its pixel."""

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = (20, 64, 32, 48)
            shapes = [(outputs, inputs, kernel, kernel) for inputs, outputs in pairwise(sizes)]
            self.filters = torch.nn.ParameterList(
                [torch.randn(shape) / prod(shape[1:]) ** 0.5 for shape in shapes]
            )

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return chain(image, list(self.filters), stride)

    torch.manual_seed(0)
    network, size = Network().bfloat16(), 17
    image = torch.randn(1, 20, size, size).bfloat16()
    image[0, 1, 8, 8] = torch.nan
    program = compile_rewritten(iree.winograd.import_torch(network, image), "cpu", FLAGS, 1)
    result = torch.as_tensor(iree.winograd.load(program)(image))
    with torch.no_grad():
        exact = chain(image.double(), [each.double() for each in network.filters], stride)
        expected = network.float()(image.float())
    assert torch.equal(result.isnan(), expected.isnan())
    kept = ~expected.isnan()
    # Three roundings to bf16, each relative to the sum of what it rounds.
    bound = 3 * 2.0**-8 * float(exact[kept].abs().max())
    expect_within(result[kept].float().numpy(), exact[kept].numpy(), bound)


class Sums(torch.nn.Module):
    """Four sums of a pointwise layer and what its input is made of: the second and last are returned."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(64, 64, 1)
        self.inner = torch.nn.ModuleList(torch.nn.Conv2d(64, 64, 1) for _ in range(4))
        self.outer = torch.nn.ModuleList(torch.nn.Conv2d(64, 64, 1) for _ in range(4))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sums = [torch.relu(self.first(image))]
        for inner, outer in zip(self.inner, self.outer, strict=True):
            sums.append(torch.relu(sums[-1] + outer(torch.relu(inner(sums[-1])))))
        return sums[2], sums[-1]


@pytest.mark.parametrize(("size", "count"), [(16, 2), pytest.param(15, 0, marks=pytest.mark.wide)])
def test_sums_lie_where_their_shortcuts_did(size: int, count: int) -> None:
    """All but what is returned as well, where no blocks overlap: by two kernels of one library."""
    torch.manual_seed(0)
    network, image = Sums(), torch.randn(1, 64, size, size).bfloat16()
    with torch.no_grad():
        exact = copy.deepcopy(network).bfloat16().double()(image.double())
    imported = iree.winograd.import_torch(network.bfloat16(), image)
    flags = [*target_flags("cpu"), *FLAGS]
    options = WinogradOptions(threads=1, strict=True)
    with Compilation(
        open_session(flags, options), options, Stages(compile_to="flow"), report=print
    ) as compilation:
        rewritten = compilation.compile(open_source(compilation, imported))
        assert rewritten is not None
        overwriting = re.findall(r"flow\.dispatch @\w+_over_3::", str(rewritten.export_module()))
    assert len(overwriting) == count
    program = iree.winograd.load(
        iree.winograd.compile(imported, flags=FLAGS, threads=1, strict=True), threads=1
    )
    for _ in range(2):
        for result, expected in zip(program(image), exact, strict=True):
            # Nine roundings to bf16, each relative to the sum of what it rounds.
            bound = 9 * 2.0**-8 * float(expected.abs().max())
            expect_within(torch.as_tensor(result).float().numpy(), expected.numpy(), bound)


def test_models_of_f32_multiply_bf16_if_asked(tmp_path: Path) -> None:
    """What each layer becomes is in the report. Sums and the last result stay in f32."""
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(64, 64, 1), torch.nn.ReLU(), torch.nn.Conv2d(64, 48, 1)]
    network, image = torch.nn.Sequential(*layers).eval(), torch.randn(1, 64, 24, 24)
    with torch.no_grad():
        exact = network.double()(image.double()).numpy()
    imported = iree.winograd.import_torch(network.float(), image)

    def error(*multiplies_bf16: bool, **options: object) -> float:
        program, layers = compiled(imported, tmp_path, **options)
        result = np.asarray(iree.winograd.load(program, threads=1)(image))
        assert [kind(each) == "bf16-matrix-unit" for each in layers] == list(multiplies_bf16)
        return float(np.abs(result - exact).sum() / np.abs(exact).sum())

    assert error(False, False) < 1e-6
    # Two layers, the second of which sees the error of the first.
    assert error(True, True, precision="bf16") == pytest.approx(2**0.5 * 2.2e-3, rel=0.25)
    assert 1e-3 < error(True, False, precision="fastest", layer_precisions=("1=f32",)) < 4e-3
    assert 1e-3 < error(False, True, layer_precisions=("1=bf16", "0-1=f32")) < 4e-3


def test_the_error_budget_says_what_stays_in_f32(tmp_path: Path) -> None:
    network, image = torch.nn.Conv2d(64, 64, 1), torch.randn(1, 64, 24, 24)
    _, (layer,) = compiled(
        iree.winograd.import_torch(network, image), tmp_path, precision="bf16", max_relative_error=1e-5
    )
    assert kind(layer) != "bf16-matrix-unit"
    assert (
        "those of bf16 have a predicted relative error of 2.2e-03, which exceeds 1.0e-05" in layer["reason"]
    )


@pytest.mark.wide
def test_models_of_bf16_multiply_f32_if_asked(tmp_path: Path) -> None:
    network, image = torch.nn.Conv2d(64, 64, 1).bfloat16(), torch.randn(1, 64, 24, 24).bfloat16()
    imported = iree.winograd.import_torch(network, image)
    (as_written,), (single,) = (
        compiled(imported, tmp_path, precision=each)[1] for each in ("as-written", "f32")
    )
    assert (kind(as_written) == "bf16-matrix-unit", kind(single) == "bf16-matrix-unit") == (True, False)
    assert types_text(as_written["types"]) == "bf16 as bf16, sums f32, result bf16"
    assert types_text(single["types"]) == "bf16 as f32, sums f32, result bf16"
    assert single["precision"] == "f32"


def compiled(model: object, folder: Path, **options: object) -> tuple[bytes, list[LayerReport]]:
    """A program, and what is reported of its layers."""
    report = folder / "report.json"
    program = iree.winograd.compile(model, flags=FLAGS, threads=1, report=report, **options)
    return program, json.loads(report.read_text())["layers"]


def kind(layer: LayerReport) -> str:
    """Of the kernel that a layer became."""
    return str(layer["candidates"][layer["chosen"]]["schedule"]["kind"])


def problem(text: str) -> ConvolutionProblem:
    return ConvolutionProblem.parse(text)


POINTWISE = "1x14x14x256->512 kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32"


def test_it_is_chosen_for_numbers_of_bf16_alone() -> None:
    machine = default_cpu_machine(TARGET.cpu, TARGET.vector_width, TARGET.fused_multiply_add, TARGET.l2_bytes)
    space = CpuSearchSpace(TARGET, machine)
    for exact, is_chosen in (("", False), (", operands of bf16", True), (", operands of f16", False)):
        stated = problem(POINTWISE + exact)
        assert str(stated) == POINTWISE + exact
        schedules = list(space.schedules(convolution_shape(stated, direct_algorithm(stated))))
        assert any(isinstance(each, Bf16MatrixUnitSchedule) for each in schedules)
        assert isinstance(schedules[0], Bf16MatrixUnitSchedule) == is_chosen


@pytest.mark.parametrize("layer", ["28x28x128->512", "14x14x256->1024", "56x56x64->256"])
def test_outputs_are_computed_once_where_that_takes_no_longer(layer: str) -> None:
    """28x28 by tiles of 14 pixels: of 16 the last would overlap others, and no sum lie in its shortcut."""
    machine = default_cpu_machine(TARGET.cpu, TARGET.vector_width, TARGET.fused_multiply_add, TARGET.l2_bytes)
    stated = problem(f"{POINTWISE}, operands of bf16".replace("14x14x256->512", layer))
    shape = convolution_shape(stated, direct_algorithm(stated))
    schedule = CpuSearchSpace(TARGET, machine).default_schedule(shape)
    assert isinstance(schedule, Bf16MatrixUnitSchedule)
    assert kernel_for(shape, TARGET, schedule).writes_once


@pytest.mark.parametrize(("size", "threads"), [(224, 1), (112, 1), (112, 16)])
def test_workgroups_of_large_images_copy_few_rows_twice(size: int, threads: int) -> None:
    """Three taps read two rows beside those of a workgroup: a quarter of what is copied at most."""
    machine = default_cpu_machine(TARGET.cpu, TARGET.vector_width, TARGET.fused_multiply_add, TARGET.l2_bytes)
    text = f"8x{size}x{size}x64->128 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32"
    stated = problem(f"{text}, operands of bf16, result of bf16")
    shape = convolution_shape(stated, direct_algorithm(stated))
    schedule = CpuSearchSpace(TARGET, machine, threads).default_schedule(shape)
    assert isinstance(schedule, Bf16MatrixUnitSchedule)
    assert schedule.row_block >= 3 / 4 * split_rows(shape, schedule.row_block)


def test_f16_is_multiplied_in_parts_where_the_result_is_rounded_as_well() -> None:
    """Three of the four products leave out more than a layer in f32 may err by, far less than f16 does."""
    machine = default_cpu_machine(TARGET.cpu, TARGET.vector_width, TARGET.fused_multiply_add, TARGET.l2_bytes)
    space = CpuSearchSpace(TARGET, machine)
    stated = problem(f"{POINTWISE}, operands of f16, result of f16")
    chosen = space.default_schedule(convolution_shape(stated, direct_algorithm(stated)))
    assert isinstance(chosen, F16MatrixUnitSchedule)
    error = algorithm_error(stated, direct_algorithm(stated), chosen)
    limits = [
        error_limit(problem(POINTWISE + text), space, None, None)
        for text in (", operands of f16", ", operands of f16, result of f16")
    ]
    assert limits[0] < error < limits[1]


@pytest.mark.parametrize("type_", ["bf16", "f16"])
def test_layers_are_measured_with_numbers_of_their_type(type_: str) -> None:
    """By others the tuner would find right results wrong."""
    program = layer_program(problem(f"{POINTWISE}, operands of {type_}"))
    assert isinstance(program, ConstantFilterProgram)
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[type_]
    for numbers in map(torch.from_numpy, (program.image, program.filters)):
        assert torch.equal(numbers.to(dtype).float(), numbers)
        assert len(numbers.unique()) > 1000


ROWS = "1x7x7x64->64 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32, operands of bf16"


@pytest.mark.parametrize(
    ("text", "blocks", "reason"),
    [
        (ROWS, (16, 4, 1, 1, 7, 7), None),
        (ROWS, (15, 4, 1, 1, 7, 7), "60 outputs is less than the 61 of joined rows"),
        (ROWS, (16, 4, 1, 2, 7, 7), "exceed the 8 registers"),
        (ROWS, (16, 2, 2, 1, 7, 7), "pixel_block 7 is less than the 32 of a register block"),
        (ROWS.replace("1x1 1x1", "0x0 0x0"), (16, 4, 1, 1, 5, 5), "less than the 64 of a register block"),
        (
            ROWS.replace("stride 1x1", "stride 1x2"),
            (16, 5, 1, 1, 7, 4),
            "less than the 80 of a register block",
        ),
    ],
)
def test_rows_are_joined_over_the_padding_between_them(
    text: str, blocks: tuple[int, int, int, int, int, int], reason: str | None
) -> None:
    stated = problem(text)
    shape = convolution_shape(stated, direct_algorithm(stated))
    misfit = kernel_misfit(shape, TARGET, Bf16MatrixUnitSchedule(*blocks))
    assert misfit is None if reason is None else reason in str(misfit)


@pytest.mark.parametrize(("size", "writes_once"), [("16x16", True), ("?16x?16", False)])
def test_outputs_of_images_of_any_size_may_be_written_twice(size: str, writes_once: bool) -> None:
    """So they don't take the place of what is added to them."""
    stated = problem(POINTWISE.replace("14x14", size) + ", operands of bf16")
    shape = convolution_shape(stated, direct_algorithm(stated))
    kernel = kernel_for(shape, TARGET, Bf16MatrixUnitSchedule(16, 2, 1, 2, 1, 256))
    assert isinstance(kernel, HalfMatrixUnitKernel)
    assert kernel.writes_once == writes_once


def test_filters_known_when_the_program_runs_are_refused() -> None:
    stated = problem(f"{POINTWISE}, filter known at run time")
    shape = convolution_shape(stated, direct_algorithm(stated))
    schedule = Bf16MatrixUnitSchedule(14, 2, 1, 2, 1, 196)
    assert "packed" in str(kernel_misfit(shape, TARGET, schedule))
