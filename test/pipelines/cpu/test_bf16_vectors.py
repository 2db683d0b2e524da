"""The kernel on vectors of pairs of bf16: right by the processor's instruction, or by what that does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import prod
from pathlib import Path

import iree.winograd
import pytest
import torch
from agreement import expect_within
from checked_programs import check_together
from host import HOST
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.cpu import backend
from iree.winograd.pipelines.cpu.choice.search_space import CpuSearchSpace
from iree.winograd.pipelines.cpu.kernels import bf16_vectors
from iree.winograd.pipelines.cpu.kernels.kernel_of import kernel_misfit
from iree.winograd.pipelines.cpu.processor.instruction_set import ProcessorFacts
from iree.winograd.pipelines.cpu.processor.matrix_unit import TILE_LANES, pointer
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.processor.x86 import X86
from iree.winograd.pipelines.cpu.schedules.bf16_vectors import Bf16VectorSchedule
from iree.winograd.pipelines.cpu.schedules.matrix_unit import Bf16MatrixUnitSchedule
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.vectors import broadcast, multiply_add
from iree.winograd.pipelines.machines.defaults import default_cpu_machine
from iree.winograd.pipelines.machines.model import machine_to_json
from iree.winograd.pipelines.selection.candidates import convolution_shape, direct_algorithm
from rounded_program import RoundedProgram
from wide import sampled

ZEN4 = CpuTarget.of("znver4", "+avx2,+fma,+avx512f,+avx512vl,+avx512bf16")
SERVER = CpuTarget.of("emeraldrapids", "+avx2,+fma,+avx512f,+avx512vl,+avx512bf16,+amx-tile,+amx-bf16")


@pytest.fixture(autouse=True)
def on_any_processor(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has those that lack the instruction multiply and add both numbers of pairs one after the other.

    None has matrix units, which would take such layers.
    """
    known = X86.facts

    def facts(self: X86, cpu: str, features: set[str]) -> ProcessorFacts:
        return known(self, cpu, features)._replace(multiplies_bf16=True, has_matrix_unit=False)

    def emulated(total: ir.Value, elements: ir.Value, filters: ir.Value) -> ir.Value:
        for element, weight in zip(halves(elements), halves(filters), strict=True):
            total = multiply_add(element, weight, total, HOST.fused_multiply_add)
        return total

    monkeypatch.setattr(X86, "facts", facts)
    if not HOST.multiplies_bf16:
        monkeypatch.setattr(bf16_vectors, "add_pair_products", emulated)
        monkeypatch.setattr(bf16_vectors, "load_same_pair", same_pair)
    # What a process knows of a processor it asks for once.
    backend._cpu_target.cache_clear()
    yield
    backend._cpu_target.cache_clear()


def same_pair(address: Index) -> ir.Value:
    """A pair in all lanes, without an instruction of AVX-512."""
    pair = ir.IntegerType.get_signless(32)
    # Pairs of a pixel begin wherever its channels do.
    aligned = {"alignment": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 2)}
    loaded = ir.Operation.create("llvm.load", [pair], [pointer(address)], aligned)
    return broadcast(loaded.result, TILE_LANES)


def halves(pairs: ir.Value) -> list[ir.Value]:
    """The second numbers of pairs, and the first ones, as f32."""

    def splat(number: int) -> ir.Value:
        lane = ir.IntegerAttr.get(ir.VectorType(pairs.type).element_type, number)
        return arith.constant(pairs.type, ir.DenseElementsAttr.get_splat(pairs.type, lane))

    numbers = ir.VectorType.get(ir.VectorType(pairs.type).shape, ir.F32Type.get())
    second, first = arith.andi(pairs, splat(-(1 << 16))), arith.shli(pairs, splat(16))
    return [arith.bitcast(numbers, bits) for bits in (second, first)]


def direct(
    size: tuple[int, ...],
    channels: int,
    outputs: int,
    blocks: tuple[int, int, int, int],
    kernel: int = 1,
    **rest: object,
) -> RoundedProgram:
    """`blocks` are the pixels and vectors of a register block, the rows and pixels of a workgroup."""
    ones, taps = (1,) * len(size), (kernel,) * len(size)
    rest.setdefault("low", (kernel // 2,) * len(size))
    rest.setdefault("high", (kernel // 2,) * len(size))
    pixels, vectors, rows, row_pixels = blocks
    schedule = Bf16VectorSchedule(pixels, 1, 1, vectors, rows, row_pixels, channel_splits=2)
    return RoundedProgram(size, channels, outputs, taps, ones, ones, schedule=schedule, **rest)


# Registers of processors without AVX-512 hold few sums.
PROGRAMS = [
    # Blocks of a line of pixels that overlap, channels that fill no tile, and lanes left out.
    direct((9, 9), 40, 72, (6, 2, 1, 81)),
    direct((10, 10), 64, 48, (4, 3, 1, 50), activation="swish"),
    direct((7, 7), 17, 6, (9, 1, 1, 49)),
    # Few channels, of which those of a row of taps are one.
    direct((23, 20), 3, 40, (5, 2, 4, 10), 7, strides=(2, 2), low=(3, 3), high=(2, 2)),
    direct((9, 13), 35, 40, (6, 2, 4, 13), 3),
    direct((16, 16), 32, 16, (4, 1, 3, 8), 1, strides=(2, 2)),
    direct((14, 14), 34, 32, (5, 2, 10, 10), 3, dilations=(2, 2), low=(0, 0), high=(0, 0), batch=2),
    direct((40,), 24, 20, (6, 2, 1, 20), 3, strides=(2,), dynamic_batch=True),
]


def test_agrees_with_float64() -> None:
    check_together(PROGRAMS)


OPEN_PROGRAMS = [
    direct((10, 10), 64, 48, (4, 3, 1, 50), activation="swish", dynamic_size=True),
    direct((23, 20), 3, 40, (5, 2, 4, 10), 7, strides=(2, 2), low=(3, 3), high=(2, 2), dynamic_size=True),
    direct((9, 13), 35, 40, (6, 2, 4, 13), 3, dynamic_size=True, dynamic_batch=True),
    direct((16, 16), 32, 16, (4, 1, 3, 8), 1, strides=(2, 2), dynamic_size=True),
    direct((14, 14), 34, 32, (5, 2, 10, 10), 3, dilations=(2, 2), low=(0, 0), high=(0, 0), dynamic_size=True),
    direct((40,), 24, 20, (6, 2, 1, 20), 3, strides=(2,), dynamic_size=True),
]


OPEN_SIZES = [(1, 1), (2, 3), (3, 40), (40, 3), (14, 14), (13, 31)]


@pytest.mark.parametrize("program", sampled(OPEN_PROGRAMS, OPEN_PROGRAMS[2:3]), ids=str)
def test_images_may_have_any_size(program: RoundedProgram) -> None:
    """Rows that are shorter than a register block, or than a part of it, and longer than expected."""
    sizes = [size[-program.rank :] for size in OPEN_SIZES]
    allowed = [size for size in sizes if min(replace(program, size=size).output_size) > 0]
    batches = (1, 3) if program.dynamic_batch else (1,)
    program.check_sizes(allowed, batches, threads=1)


@pytest.mark.parametrize("channels", [(20, 64, 36, 48), pytest.param((64, 16, 48), marks=pytest.mark.wide)])
def test_images_of_bf16_are_read_where_they_are(channels: tuple[int, ...], tmp_path: Path) -> None:
    """Without padding, if channels are pairs. Infinities and NaN stay with their pixels."""

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            shapes = [(outputs, inputs, 1, 1) for inputs, outputs in pairwise(channels)]
            self.filters = torch.nn.ParameterList(
                [torch.randn(shape) / prod(shape[1:]) ** 0.5 for shape in shapes]
            )

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            for weights in self.filters:
                image = torch.nn.functional.conv2d(image, weights)
            return image

    torch.manual_seed(0)
    network, image = Network().bfloat16(), torch.randn(1, channels[0], 17, 17).bfloat16()
    image[0, 1, 8, 8], image[0, 2, 3, 4] = torch.nan, torch.inf
    imported, report = iree.winograd.import_torch(network, image), tmp_path / "report.json"
    machine = tmp_path / "machine.json"
    machine.write_text(machine_to_json(default_cpu_machine("znver4", 16, True, ZEN4.l2_bytes)))
    program = iree.winograd.compile(imported, threads=1, machine=machine, report=report)
    layers = json.loads(report.read_text())["layers"]
    assert "bf16-vectors" in {each["candidates"][each["chosen"]]["schedule"]["kind"] for each in layers}
    result = torch.as_tensor(iree.winograd.load(program)(image))
    with torch.no_grad():
        exact, rounded = network.double()(image.double()), network.float()(image.float())
    finite = rounded.isfinite()
    assert torch.equal(result.isfinite(), finite) and (~finite).sum() == 2 * channels[-1]
    # A rounding to bf16 for each layer, relative to the sum of what it rounds.
    bound = len(network.filters) * 2.0**-8 * float(exact[finite].abs().max())
    expect_within(result[finite].float().numpy(), exact[finite].numpy(), bound)


POINTWISE = "1x14x14x256->512 kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32"


def first_schedules(target: CpuTarget, text: str) -> list[type]:
    """The kinds of the schedules of each kernel, the one that is chosen first."""
    machine = default_cpu_machine(target.cpu, target.vector_width, True, target.l2_bytes)
    problem = ConvolutionProblem.parse(text)
    shape = convolution_shape(problem, direct_algorithm(problem))
    return list(dict.fromkeys(map(type, CpuSearchSpace(target, machine).schedules(shape))))


def test_it_is_chosen_where_its_rate_is_known() -> None:
    """On Zen 4, for numbers of bf16. Where there is a matrix unit as well, that is the default."""
    for exact, is_chosen in (("", False), (", operands of bf16", True), (", operands of f16", False)):
        kinds = first_schedules(ZEN4, POINTWISE + exact)
        assert Bf16VectorSchedule in kinds
        assert (kinds[0] is Bf16VectorSchedule) == is_chosen
    kinds = first_schedules(SERVER, POINTWISE + ", operands of bf16")
    assert kinds[0] is Bf16MatrixUnitSchedule and Bf16VectorSchedule not in kinds
    cooper_lake = CpuTarget.of("cooperlake", "+avx2,+fma,+avx512f,+avx512vl,+avx512bf16")
    assert Bf16VectorSchedule not in first_schedules(cooper_lake, POINTWISE + ", operands of bf16")


def test_zen4_takes_half_of_the_time_of_f32() -> None:
    """As measured on it: 1.9 to 2.1 times f32's rate."""
    problem = ConvolutionProblem.parse(POINTWISE + ", operands of bf16")
    shape = convolution_shape(problem, direct_algorithm(problem))
    machine = default_cpu_machine("znver4", 16, True, ZEN4.l2_bytes)
    space = CpuSearchSpace(ZEN4, machine)
    pairs, single, *_ = space.default_schedules(shape)
    seconds = [sum(space.stage_seconds(shape, each).values()) for each in (pairs, single)]
    assert 1.6 < seconds[1] / seconds[0] < 2.2


@pytest.mark.parametrize(
    ("schedule", "target", "reason"),
    [
        (Bf16VectorSchedule(14, 1, 1, 2, 1, 196), ZEN4, None),
        (Bf16VectorSchedule(15, 1, 1, 2, 1, 196), ZEN4, "tile_pixels 15 exceeds the 14 that registers hold"),
        (Bf16VectorSchedule(7, 2, 1, 2, 1, 196), ZEN4, "a register block is one tile"),
        (Bf16VectorSchedule(14, 1, 1, 2, 1, 196), CpuTarget.of("znver3", "+avx2,+fma"), "needs a"),
    ],
)
def test_says_what_does_not_fit(schedule: Bf16VectorSchedule, target: CpuTarget, reason: str | None) -> None:
    problem = ConvolutionProblem.parse(POINTWISE)
    misfit = kernel_misfit(convolution_shape(problem, direct_algorithm(problem)), target, schedule)
    assert misfit is None if reason is None else reason in str(misfit)
