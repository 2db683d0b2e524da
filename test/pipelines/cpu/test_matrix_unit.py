"""The matrix unit's kernel: right wherever it runs, also where a process may not use the unit."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import numpy as np
import pytest
from agreement import expect_within
from checked_programs import check_together, compile_rewritten
from convolution_program import Program
from host import HAS_AVX512
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.choice.search_space import CpuSearchSpace
from iree.winograd.pipelines.cpu.kernels.kernel_of import kernel_misfit
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule
from iree.winograd.pipelines.cpu.schedules.matrix_unit import MatrixUnitSchedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from wide import sampled

pytestmark = pytest.mark.this_machine

AVX512 = "+avx2,+fma,+avx512f"
UNIT = f"{AVX512},+amx-tile,+amx-bf16"
TARGET = CpuTarget.of("sapphirerapids", UNIT)
# Where the processor has no such unit, the kernels find that they may not use it; one without AVX-512, which
# they do use, can't run them.
FLAGS = [
    "--iree-llvmcpu-target-cpu=skylake-avx512",
    "--iree-llvmcpu-target-cpu-features=+amx-tile,+amx-bf16",
]


@dataclass(frozen=True)
class SplitProgram(Program):
    """A convolution by products of numbers that are split into three of 8 significant bits.

    The second is less than 2^-7 of the number, the third less than 2^-14, so that the three products left out
    are less than 2^-20 of the whole. Those of 32 channels round as they are summed, and so does adding them:
    six times for each 32 channels of a tap.
    """

    def bound(self) -> float:
        tiles = prod(self.kernel) * ceil_div(self.channels, 32)
        largest = prod(self.kernel) * self.channels
        return super().bound() + largest * (2.0**-20 + (32 + 6 * tiles) * 2.0**-24)


def direct(
    size: tuple[int, ...],
    channels: int,
    outputs: int,
    blocks: tuple[int, int, int, int, int, int],
    kernel: int = 1,
    **rest: object,
) -> SplitProgram:
    """`blocks` are the numbers of a schedule, from `tile_pixels` to `pixel_block`."""
    ones, taps = (1,) * len(size), (kernel,) * len(size)
    rest.setdefault("low", (kernel // 2,) * len(size))
    rest.setdefault("high", (kernel // 2,) * len(size))
    schedule = MatrixUnitSchedule(*blocks, channel_splits=2)
    return SplitProgram(size, channels, outputs, taps, ones, ones, schedule=schedule, **rest)


PROGRAMS = [
    # Blocks of a line of pixels that overlap, and channels that fill no tile.
    direct((9, 9), 40, 72, (14, 2, 1, 2, 1, 81)),
    direct((10, 10), 64, 48, (13, 1, 1, 3, 1, 50), activation="swish"),
    direct((7, 7), 17, 6, (9, 2, 1, 1, 1, 49)),
    direct((6, 7), 96, 32, (14, 1, 1, 2, 1, 84), batch=3, constant_filter=False),
    # Tiles of two rows, of which the last ones overlap, between zeros.
    direct((9, 13), 35, 40, (13, 1, 2, 2, 4, 13), 3),
    direct((15, 12), 20, 33, (6, 1, 1, 1, 5, 6), 3, strides=(2, 2), batch=2),
    direct((16, 16), 32, 16, (4, 2, 1, 1, 3, 8), 1, strides=(2, 2)),
    direct((12, 12), 16, 32, (8, 1, 1, 2, 2, 8), 5, low=(0, 0), high=(0, 0), dynamic_batch=True),
    direct((14, 14), 33, 32, (10, 1, 2, 2, 10, 10), 3, dilations=(2, 2), low=(0, 0), high=(0, 0)),
    direct((40,), 24, 20, (10, 2, 1, 1, 1, 20), 3, strides=(2,)),
]


def test_agrees_with_float64() -> None:
    if HAS_AVX512:
        check_together(PROGRAMS, FLAGS)
    else:
        functions = [program.function(f"of_{number}") for number, program in enumerate(PROGRAMS)]
        compile_rewritten("\n".join(functions), "cpu", FLAGS)


OPEN_PROGRAMS = [
    direct((14, 14), 40, 72, (14, 2, 1, 2, 1, 196), dynamic_size=True, dynamic_batch=True),
    direct((16, 16), 32, 16, (4, 1, 2, 1, 3, 8), 1, strides=(2, 2), dynamic_size=True),
    direct((13, 17), 35, 40, (9, 1, 2, 2, 4, 17), 3, dynamic_size=True, activation="swish"),
]


@pytest.mark.parametrize("program", sampled(OPEN_PROGRAMS, OPEN_PROGRAMS[2:]), ids=str)
def test_images_may_have_any_size(program: SplitProgram) -> None:
    """Fewer rows and pixels than a register block among them; without AVX-512 they are only compiled."""
    if not HAS_AVX512:
        compile_rewritten(program.function("main"), "cpu", FLAGS)
        return
    sizes = [(1, 1), (2, 3), (3, 40), (40, 3), (14, 14), (37, 41)]
    batches = (1, 3) if program.dynamic_batch else (1,)
    program.check_sizes(sizes, batches, threads=1, flags=FLAGS)


REFUSING = """
import ctypes, struct, sys
import iree.winograd, numpy as np

# Of the system call that asks for the unit, the number is 158, the first argument 0x1023.
load, equal, answer = 0x20, 0x15, 0x06
instructions = [
    (load, 0, 0, 0), (equal, 0, 3, 158), (load, 0, 0, 16), (equal, 0, 1, 0x1023),
    (answer, 0, 0, 0x00050001), (answer, 0, 0, 0x7FFF0000),
]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in instructions))
library = ctypes.CDLL(None, use_errno=True)
program = struct.pack("HxxxxxxQ", len(instructions), ctypes.addressof(code))
assert library.prctl(38, 1, 0, 0, 0) == 0 and library.prctl(22, 2, program, 0, 0) == 0
assert library.syscall(158, 0x1023, 18) == -1
image, bias = np.load(sys.argv[2]), np.load(sys.argv[3])
np.save(sys.argv[4], iree.winograd.load(sys.argv[1], device="local-sync")(image, bias))
"""


def test_a_process_that_may_not_use_the_unit_computes_the_same(tmp_path: Path) -> None:
    program = PROGRAMS[4]
    generator = np.random.default_rng(0)
    image = generator.uniform(-1, 1, (1, *program.size, program.channels)).astype(np.float32)
    filters = generator.uniform(-1, 1, program.filter_shape).astype(np.float32)
    bias = generator.uniform(-1, 1, program.outputs).astype(np.float32)
    files = [tmp_path / name for name in ("program.vmfb", "image.npy", "bias.npy", "result.npy")]
    files[0].write_bytes(bytes(compile_rewritten(program.text(filters), "cpu", FLAGS, threads=1)))
    if not HAS_AVX512:
        return
    np.save(files[1], image)
    np.save(files[2], bias)
    subprocess.run([sys.executable, "-c", REFUSING, *map(str, files)], check=True)
    expect_within(np.load(files[3]), program.expected(image, filters, bias), program.bound())


def shape_of(program: Program, groups: int = 1) -> ConvolutionShape:
    decomposition = decompose(
        program.kernel, program.m, strides=program.strides, dilations=program.dilations, part_size=program.p
    )
    problem = ConvolutionProblem(
        None if program.dynamic_batch else program.batch,
        program.size,
        program.per_dimension("low", 0),
        program.per_dimension("high", 0),
        program.kernel,
        program.per_dimension("strides", 1),
        program.per_dimension("dilations", 1),
        groups,
        program.channels,
        program.outputs,
    )
    return ConvolutionShape.decomposed(problem, decomposition)


EXPANSION = direct((28, 28), 128, 512, (14, 2, 1, 2, 1, 196))
STEM = direct((112, 112), 3, 32, (14, 2, 1, 2, 1, 112), 3)


def default_seconds(program: Program, space: CpuSearchSpace) -> dict[type, float]:
    """Of the default schedule of each kernel, the fastest first, as predicted."""
    shape = shape_of(program)
    defaults = itertools.islice(space.schedules(shape), 2)
    return {type(each): sum(space.stage_seconds(shape, each).values()) for each in defaults}


def test_it_gains_most_where_channels_fill_its_tiles() -> None:
    space = CpuBackend(CpuTarget.of("graniterapids", UNIT)).search_space()
    gains = [
        seconds[DirectSchedule] / seconds[MatrixUnitSchedule]
        for seconds in (default_seconds(program, space) for program in (STEM, EXPANSION))
    ]
    assert gains[0] < gains[1]


@pytest.mark.parametrize("program", [EXPANSION, STEM], ids=["expansion", "stem"])
@pytest.mark.parametrize("cpu", ["graniterapids", "sapphirerapids"])
def test_the_default_is_what_is_predicted_to_be_faster(cpu: str, program: Program) -> None:
    """Measurements may choose the other one in its place."""
    space = CpuBackend(CpuTarget.of(cpu, UNIT)).search_space()
    seconds = default_seconds(program, space)
    assert seconds.keys() == {DirectSchedule, MatrixUnitSchedule}
    assert list(seconds.values()) == sorted(seconds.values())
    assert type(space.default_schedule(shape_of(program))) is next(iter(seconds))


def test_measurements_are_for_targets_with_the_unit_or_without() -> None:
    keys = {CpuBackend(CpuTarget.of("graniterapids", each)).search_space().key for each in (UNIT, AVX512)}
    assert len(keys) == 2


@pytest.mark.parametrize("features", [AVX512, f"{AVX512},+amx-tile", f"{AVX512},+amx-tile,+amx-int8"])
def test_targets_without_the_unit(features: str) -> None:
    target = CpuTarget.of("sapphirerapids", features)
    assert not target.has_matrix_unit
    assert not CpuTarget.least(TARGET, target).has_matrix_unit
    assert isinstance(CpuBackend(target).search_space().default_schedule(shape_of(EXPANSION)), DirectSchedule)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"channel_tiles": 3}, "10 tiles exceed the 8 registers"),
        ({"tile_pixels": 17}, "tile_pixels 17 exceeds the 16 rows of a tile"),
        ({"pixel_block": 27}, "pixel_block 27 is less than the 28 of a register block"),
        ({"row_block": 2}, "row_block 2 exceeds the 1 outputs"),
        ({"pixel_block": 785}, "pixel_block 785 exceeds the 784 outputs"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, int], reason: str) -> None:
    schedule = EXPANSION.schedule
    assert isinstance(schedule, MatrixUnitSchedule)
    assert kernel_misfit(shape_of(EXPANSION), TARGET, schedule) is None
    assert reason in str(kernel_misfit(shape_of(EXPANSION), TARGET, replace(schedule, **change)))


def test_groups_and_channels_first_images_are_refused() -> None:
    assert kernel_misfit(shape_of(EXPANSION, groups=4), TARGET, EXPANSION.schedule) is not None
    first = replace(shape_of(EXPANSION), output_channels_first=True)
    assert "channels-last" in str(kernel_misfit(first, TARGET, EXPANSION.schedule))
