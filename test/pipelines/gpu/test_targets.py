"""Every kind of kernel compiles for every GPU target, and the SPIR-V among it is valid."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from array import array
from math import prod
from pathlib import Path

import pytest
from checked_programs import compile_rewritten
from convolution_program import Program
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.gpu.backend import GpuBackend
from iree.winograd.pipelines.gpu.choice.gemm_schedules import GEMM_SCHEDULES
from iree.winograd.pipelines.gpu.device.target import GpuTarget, TileLimits
from iree.winograd.pipelines.gpu.schedules.fit import fits, kernel_misfit
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from iree.winograd.pipelines.gpu.schedules.split import CooperativeSchedule
from iree.winograd.pipelines.problems.executable_target import ExecutableTarget
from iree.winograd.pipelines.problems.iree_code import IreeCode
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from iree.winograd.pipelines.selection.prediction import predict
from ptxas import spilled_bytes
from scheduled_program import F2X2, ScheduledProgram
from wide import wide, wide_combinations

VULKAN = ["vulkan", "vulkan:rdna2", "vulkan:rdna3", "vulkan:ampere", "vulkan:ada"]
_SPIRV_VAL = Path(sysconfig.get_path("scripts")) / "spirv-val"
_CAPABILITY, _MEMORY_MODEL, _ENTRY_POINT = 17, 14, 15
"""Instructions of SPIR-V."""
_COOPERATIVE_MATRICES, _VULKAN_MEMORY_MODEL = 6022, 5345
"""Capabilities; the first asks for the second."""
_HEADER_WORDS = 5
OTHERS = ["cuda:sm_80", *wide(["hip:gfx942", "hip:gfx1100"])]
PROGRAMS = [
    Program((28, 28), 64, 128, (3, 3), (4, 4), (3, 3), batch=8, low=(1, 1), high=(1, 1)),
    Program((28, 28), 20, 30, (3, 3), (2, 2), (2, 2), strides=(2, 2), dynamic_batch=True),
    Program((28, 28), 64, 64, (3, 3), (1, 1), (1, 1), low=(1, 1), high=(1, 1)),
    ScheduledProgram((28, 28), 64, 64, (3, 3), (2, 2), (3, 3), low=(1, 1), high=(1, 1)),
]
COOPERATIVE = ScheduledProgram(
    (14, 14),
    64,
    64,
    (3, 3),
    (4, 4),
    (3, 3),
    low=(1, 1),
    high=(1, 1),
    schedule=CooperativeSchedule(64, 64, 32, 64, stages=2, summed_block=32),
)


@pytest.mark.parametrize("target", OTHERS)
@pytest.mark.parametrize("programs", [PROGRAMS[:1], *wide([PROGRAMS[1:]])])
def test_compiles(programs: list[Program], target: str) -> None:
    texts = (program.text(None, f"of_{number}") for number, program in enumerate(programs))
    assert len(compile_rewritten("\n".join(texts), target)) > 0


@pytest.mark.parametrize(
    ("program", "target"),
    [
        (PROGRAMS[1], VULKAN[0]),
        *wide_combinations(zip(PROGRAMS, VULKAN[1:], strict=True)),
    ],
    ids=str,
)
def test_spirv_is_valid(program: Program, target: str, tmp_path: Path) -> None:
    _validate(program, target, tmp_path)


@pytest.mark.parametrize("target", ["vulkan:ampere", *wide(["vulkan:rdna3"])])
def test_spirv_of_cooperative_matrices_is_valid(target: str, tmp_path: Path) -> None:
    assert _COOPERATIVE_MATRICES in _validate(COOPERATIVE, target, tmp_path)


def _validate(program: Program, target: str, tmp_path: Path) -> set[int]:
    """Has all kernels of a program validated, and gives the capabilities that they ask for."""
    compile_rewritten(program.text(None), target, [f"--iree-hal-dump-executable-binaries-to={tmp_path}"])
    binaries = sorted(tmp_path.glob("*.spv"))
    kernels = 2 if set(program.m) == {1} or program.schedule == F2X2 else 4
    modules = [array("I", binary.read_bytes()) for binary in binaries]
    assert sum(len(_places(module, _ENTRY_POINT)) for module in modules) >= kernels
    environment, minor_version = ("vulkan1.1", 3) if target == "vulkan" else ("vulkan1.3", 6)
    capabilities = set()
    for binary, module in zip(binaries, modules, strict=True):
        # IREE writes SPIR-V of the target's version, but always version 1.0 into its header.
        module[1] = 1 << 16 | minor_version << 8
        if _COOPERATIVE_MATRICES in _capabilities(module):
            # It doesn't write which memory model they are for, either.
            (place,) = _places(module, _MEMORY_MODEL)
            module[place + 2] = 3
            module[_HEADER_WORDS:_HEADER_WORDS] = array("I", [2 << 16 | _CAPABILITY, _VULKAN_MEMORY_MODEL])
        binary.write_bytes(module.tobytes())
        subprocess.run([_SPIRV_VAL, "--target-env", environment, binary], check=True)
        capabilities |= _capabilities(module)
    return capabilities


def _capabilities(module: array[int]) -> set[int]:
    """Those that a SPIR-V module declares."""
    return {module[place + 1] for place in _places(module, _CAPABILITY)}


def _places(module: array[int], opcode: int) -> list[int]:
    """Where the instructions of a kind begin in a SPIR-V module."""
    found, position = [], _HEADER_WORDS
    while position < len(module):
        if module[position] & 0xFFFF == opcode:
            found.append(position)
        position += module[position] >> 16
    return found


def test_limits_are_read_from_the_target() -> None:
    text = (
        "wgp = <max_thread_count_per_workgroup = 256, max_workgroup_memory_bytes = 32768, "
        "max_workgroup_counts = [2147483647, 65535, 1024]>"
    )
    cuda = GpuTarget.of(ExecutableTarget("cuda", "cuda-nvptx-fb", text))
    counts = (2**31 - 1, 65535, 1024)
    code = IreeCode(fails_on_uniform_filters=True, reads_slices=True, writes_slices=True, converts_half=True)
    assert cuda == GpuTarget(
        256,
        32768,
        "nvvm.minctasm",
        max_workgroups=counts,
        float_register="f",
        iree_code=code,
        tile_limits=TileLimits(72, 64, fastest=35),
    )
    least = cuda.least(GpuTarget(256, 32768))
    assert (least.max_workgroups, least.float_register) == ((65535, 65535, 1024), None)
    code = IreeCode(reductions_race=True, reads_slices=True, writes_slices=True)
    vulkan = GpuTarget.of(ExecutableTarget("vulkan-spirv", "vulkan-spirv-fb", ""))
    assert vulkan == GpuTarget(128, 16384, iree_code=code)


def test_an_architecture_may_have_less_memory_than_irees_target_says() -> None:
    """Consumers' Ampere has 100 KiB for a multiprocessor, one of which each workgroup takes for itself."""
    text = (
        'arch = "sm_86", wgp = <max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 166912>'
    )
    assert GpuTarget.of(ExecutableTarget("cuda", "cuda-nvptx-fb", text)).shared_memory_bytes == 99 << 10


def test_the_least_target_has_blocks_that_fit() -> None:
    least = GpuTarget(128, 16384)
    assert any(fits(schedule, least) for schedule in GEMM_SCHEDULES)
    assert not fits(GemmSchedule(128, 128, 16), least)


def test_a_target_below_all_gpus_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least 128 threads"):
        GpuTarget(64, 16384)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((100, 64, 16, 8, 8), "block_rows 100 must be a multiple of thread_rows 8"),
        ((64, 64, 6, 8, 8), "block_reduction 6 must be a multiple of 4"),
        ((256, 64, 4, 8, 8), "can't share the loads"),
        ((64, 64, 16, 0, 8), "thread_rows must be at least 1, not 0"),
        ((16, 32, 16, 4, 4), "block_rows 16 must be a multiple of 32"),
    ],
)
def test_blocks_that_do_not_divide_are_an_error(sizes: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GemmSchedule(*sizes)


RDNA_PRODUCTS = [
    ("gfx1100", GemmSchedule(64, 64, 16, ordered_steps=1)),
    ("gfx1201", GemmSchedule(64, 64, 16, ordered_steps=1)),
    ("gfx1100", GemmSchedule(128, 64, 16, ordered_steps=1)),
    ("gfx1100", GemmSchedule(128, 128, 16, thread_rows=16, ordered_steps=1)),
]


@pytest.mark.parametrize("product", [RDNA_PRODUCTS[0], *wide(RDNA_PRODUCTS[1:])], ids=str)
def test_products_of_rdna_spill_no_registers(product: tuple[str, GemmSchedule], tmp_path: Path) -> None:
    target, schedule = product
    program = ScheduledProgram((8, 8), 256, 128, (3, 3), (2, 2), (3, 3), batch=2, schedule=schedule)
    text = program.assembly(target, tmp_path)
    assert set(re.findall(r"gpr_spill_count: +(\d+)", text)) == {"0"}
    # Multiply-adds of each step are dual-issued.
    assert text.count("v_dual_fmac_f32") > schedule.sums


@pytest.mark.parametrize("schedule", [RDNA_PRODUCTS[2][1], *wide([RDNA_PRODUCTS[3][1]])], ids=str)
def test_results_of_rdna_that_may_not_exist_spill_no_registers(
    schedule: GemmSchedule, tmp_path: Path
) -> None:
    """No multiply-adds are moved behind the branches around stores: 3136 rows are no whole blocks."""
    program = ScheduledProgram((56, 56), 64, 256, (1, 1), (1, 1), (1, 1), schedule=schedule)
    text = program.assembly("gfx1201", tmp_path)
    assert set(re.findall(r"gpr_spill_count: +(\d+)", text)) == {"0"}


@pytest.mark.parametrize(
    ("backend", "architecture", "orders"),
    [
        ("rocm", "gfx1100", True),
        ("rocm", "gfx1250", True),
        ("rocm", "gfx942", False),
        ("vulkan-spirv", "rdna3", False),
        ("cuda", "sm_80", False),
    ],
)
def test_only_llvm_for_rdna_is_told_the_order_of_steps(backend: str, architecture: str, orders: bool) -> None:
    target = GpuTarget.of(ExecutableTarget(backend, "", f'arch = "{architecture}"'))
    assert target.orders_steps == orders
    shape = ConvolutionShape.decomposed(
        ConvolutionProblem(1, (8, 8), (1, 1), (1, 1), (3, 3), (1, 1), (1, 1), 1, 64, 64),
        decompose((3, 3), (2, 2)),
    )
    reason = kernel_misfit(shape, target, GemmSchedule(32, 32, 16, 4, 4, ordered_steps=1))
    assert (reason is None) == orders


@pytest.mark.parametrize(("architecture", "listed"), [("gfx942", "MFMA"), ("gfx1201", "WMMAR4")])
def test_split_tiles_whose_transforms_spill_are_chosen_only_by_request(
    architecture: str, listed: str
) -> None:
    """Of products that aren't split a thread transforms two channels of large tiles."""
    limits = "max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 65536"
    text = f'arch = "{architecture}", mma = [<{listed}_F32_16x16x16_F16>], {limits}'
    space = GpuBackend.least([ExecutableTarget("rocm", "", text)]).search_space()
    problem = ConvolutionProblem(32, (57, 57), (1, 1), (1, 1), (3, 3), (1, 1), (1, 1), 1, 512, 512)
    split = [each for each in predict(problem, space) if each.implementation.schedule.matrix_products == 3]
    chosen = min(split, key=lambda each: each.predicted_seconds).implementation.algorithm
    assert space.target.keeps_tile(prod(m + 2 for m in chosen.output_tile))
    assert not space.target.keeps_tile(64)
    assert predict(problem, space, 6)
    assert [space.target.transform_channels(size) for size in (36, 64)] == [4, 2]
    assert space.target.transform_channels(36, parts=2) == 2


@pytest.mark.parametrize("architecture", ["sm_90a", *wide(["sm_80"])])
def test_results_of_cuda_that_may_not_exist_spill_no_registers(architecture: str, tmp_path: Path) -> None:
    """Half of a thread's columns are behind the last of 36: their multiply-adds aren't moved there."""
    program = ScheduledProgram(
        (56, 56), 24, 36, (1, 1), (1, 1), (1, 1), batch=4, schedule=GemmSchedule(128, 64, 16)
    )
    program.kernels(architecture, tmp_path)
    assert set(spilled_bytes(tmp_path, architecture).values()) == {0}
