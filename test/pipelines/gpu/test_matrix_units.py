"""Products of split numbers on matrix units through Vulkan and HIP: the code that they become, their choice.

No such GPU takes part: `benchmarks/gpu_cooperative.py` checks the kernels for Vulkan on one.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from iree.compiler import ir
from iree.compiler.dialects import iree_codegen, iree_gpu  # noqa: F401
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.gpu.backend import GpuBackend
from iree.winograd.pipelines.gpu.choice.candidate_schedules import schedules
from iree.winograd.pipelines.gpu.choice.default_schedule import default_schedules
from iree.winograd.pipelines.gpu.choice.rates import product_rate
from iree.winograd.pipelines.gpu.device.matrix_unit import (
    COOPERATIVE,
    MFMA,
    MMA,
    WMMA,
    WMMA_RDNA4,
    MatrixUnit,
)
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.kernels.matrix_products import mfma_tiling
from iree.winograd.pipelines.gpu.kernels.matrix_products.fragments import (
    AmdFragments,
    MfmaFragments,
    WmmaFragments,
    WmmaRdna4Fragments,
)
from iree.winograd.pipelines.gpu.kernels.matrix_products.mfma_tiling import MfmaTiling
from iree.winograd.pipelines.gpu.packing.split import SplitPacking, split
from iree.winograd.pipelines.gpu.schedules.fit import kernel_misfit
from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule, MfmaGemmSchedule
from iree.winograd.pipelines.gpu.schedules.matrix import MatrixSchedule
from iree.winograd.pipelines.gpu.schedules.split import (
    CooperativeSchedule,
    MfmaSchedule,
    SplitSchedule,
    WarpSchedule,
    WmmaRdna4Schedule,
    WmmaSchedule,
)
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.problems.executable_target import ExecutableTarget
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from scheduled_program import ScheduledProgram
from wide import wide, wide_combinations

Array = npt.NDArray[Any]

COOPERATIVE_BLOCKS = CooperativeSchedule(64, 64, 32, 64, stages=2, summed_block=16)
MFMA_BLOCKS = MfmaSchedule(64, 64, 32, 32, stages=2, summed_block=32)
CDNA4_BLOCKS = MfmaSchedule(96, 128, 48, 64, stages=2, summed_block=32, terms=32)
MFMA_GEMM_BLOCKS = MfmaGemmSchedule(64, 64, 16, thread_rows=8, thread_columns=4)
WMMA_BLOCKS = WmmaSchedule(64, 64, 32, 32, stages=2, summed_block=32)
WMMA_RDNA4_BLOCKS = WmmaRdna4Schedule(64, 64, 32, 32, stages=2, summed_block=32)
VULKAN = GpuTarget(1024, 48 << 10, architecture="sm_80", matrix_unit=COOPERATIVE)
WINOGRAD = ScheduledProgram((14, 14), 128, 64, (3, 3), (4, 4), (3, 3), batch=4, low=(1, 1), high=(1, 1))


def _shape(channels: int = 128) -> ConvolutionShape:
    problem = ConvolutionProblem(32, (28, 28), (1, 1), (1, 1), (3, 3), (1, 1), (1, 1), 1, channels, channels)
    return ConvolutionShape.decomposed(problem, decompose((3, 3), (4, 4)))


@pytest.mark.parametrize(
    "program",
    [
        WINOGRAD,
        *wide(
            [
                replace(WINOGRAD, constant_filter=False),
                replace(WINOGRAD, channels=30, outputs=19, dynamic_batch=True),
                replace(WINOGRAD, kernel=(1, 1), m=(1, 1), p=(1, 1), low=None, high=None, channels=1100),
            ]
        ),
    ],
    ids=str,
)
def test_becomes_cooperative_matrices(program: ScheduledProgram, tmp_path: Path) -> None:
    kernels = replace(program, schedule=COOPERATIVE_BLOCKS).spirv("ampere", tmp_path)
    (multiplying,) = (each for each in kernels if "CooperativeMatrixMulAdd" in each)
    # The stage of a loop, or both where there are no more.
    stages = 2 if program.channels <= 32 else 1
    # Of a stage: a step of three products of 2 x 4 tiles.
    assert multiplying.count("spirv.KHR.CooperativeMatrixMulAdd") == stages * 3 * 8
    # High and low parts of 2 and 4 fragments, and all sums on their way to the threads.
    assert multiplying.count("spirv.KHR.CooperativeMatrixLoad") == stages * 2 * (2 + 4)
    assert multiplying.count("spirv.KHR.CooperativeMatrixStore") == 8
    operands = re.findall(r"coopmatrix<16x16x(\w+), Subgroup, (\w+)>", multiplying)
    assert set(operands) == {("f16", "MatrixA"), ("f16", "MatrixB"), ("f32", "MatrixAcc")}


@pytest.mark.parametrize(
    ("target", "schedule", "instruction", "warp", "stages"),
    [
        # LLVM unrolls the loop of four stages for these.
        ("gfx942", MFMA_BLOCKS, "v_mfma_f32_16x16x16_f16", 64, 4),
        *wide_combinations(
            [
                ("gfx90a", MFMA_BLOCKS, "v_mfma_f32_16x16x16f16", 64, 4),
                ("gfx1100", WMMA_BLOCKS, "v_wmma_f32_16x16x16_f16", 32, 1),
                ("gfx1201", WMMA_RDNA4_BLOCKS, "v_wmma_f32_16x16x16_f16", 32, 1),
            ]
        ),
    ],
)
def test_becomes_instructions_of_amds_matrix_units(
    target: str, schedule: WarpSchedule, instruction: str, warp: int, stages: int, tmp_path: Path
) -> None:
    text = replace(WINOGRAD, schedule=schedule).assembly(target, tmp_path)
    # Of each stage: two steps of three products of 2 x 2 tiles.
    assert text.count(instruction) == stages * 2 * 3 * 4
    assert f".wavefront_size: {warp}" in text
    assert set(re.findall(r"gpr_spill_count: (\d+)", text)) == {"0"}, "registers are spilled"


@pytest.mark.parametrize(
    ("target", "instruction"), [("gfx942", "16x16x4_f32"), *wide_combinations([("gfx90a", "16x16x4f32")])]
)
def test_cdna_multiplies_f32_on_matrix_units(target: str, instruction: str, tmp_path: Path) -> None:
    text = replace(WINOGRAD, schedule=MFMA_GEMM_BLOCKS).assembly(target, tmp_path)
    # Of the stage in the loop, and of the one behind it: four steps of 4 x 2 products.
    assert text.count(f"v_mfma_f32_{instruction}") == 2 * 4 * 8
    assert set(re.findall(r"gpr_spill_count: (\d+)", text)) == {"0"}, "registers are spilled"


@dataclass(frozen=True)
class _SharedArray:
    """[1, positions, rows] of an operand, as threads load it from shared memory."""

    elements: Array
    width: int

    def load(self, indices: list[Index]) -> Array:
        buffer, position, place = (Index.of(index).known or 0 for index in indices)
        return self.elements[buffer, position].reshape(-1, self.width)[place]


@pytest.mark.parametrize(
    "schedule",
    [MFMA_GEMM_BLOCKS, MfmaGemmSchedule(128, 128, 16), MfmaGemmSchedule(32, 32, 16, 4, 4)],
    ids=lambda each: f"{each.block_rows}x{each.block_columns}",
)
def test_threads_that_hold_what_iree_says_sum_all_products(
    schedule: MfmaGemmSchedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Matrix units are imitated: threads say what they multiply, IREE what of it each has a sum of."""
    with ir.Context():
        attribute = iree_gpu.MMAIntrinsicAttr.get(iree_gpu.MMAIntrinsic.MFMA_F32_16x16x4_F32)
        of_left, of_right, of_sums = (iree_gpu.get_single_subgroup_layout(attribute, i) for i in range(3))
    monkeypatch.setattr(mfma_tiling, "lane", lambda elements, number: elements[number])
    monkeypatch.setattr(mfma_tiling, "quad_of", lambda elements: elements)
    monkeypatch.setattr(mfma_tiling, "multiply_mfma_f32", lambda one, other, sums: [*sums, (one, other)])
    generator = np.random.default_rng(0)
    shape = (1, schedule.block_reduction)
    left, right = (
        generator.integers(-4, 5, (*shape, size)).astype(float)
        for size in (schedule.block_rows, schedule.block_columns)
    )
    found = np.full((schedule.block_rows, schedule.block_columns), np.nan)

    def place(layout: Any, lane: int) -> tuple[int, ...]:
        return tuple(lane // step % count for step, count in zip(layout.tstrides, layout.thread, strict=True))

    for warp in range(schedule.threads // 64):
        threads = [MfmaTiling(schedule, Index(warp * 64 + lane)) for lane in range(64)]
        multiplied = [
            each.multiply(
                _SharedArray(left, schedule.left_width),  # type: ignore[arg-type]
                _SharedArray(right, schedule.right_width),  # type: ignore[arg-type]
                Index(0),
                [[]] * (schedule.sums // 4),  # type: ignore[list-item]
            )
            for each in threads
        ]
        sums = np.zeros((64, schedule.sums // 4, 4))
        for number, step in itertools.product(
            range(schedule.sums // 4), range(schedule.block_reduction // 4)
        ):
            one, other = np.empty((16, 4)), np.empty((4, 16))
            for lane in range(64):
                one[place(of_left, lane)], other[place(of_right, lane)] = multiplied[lane][number][step]
            result = one @ other
            for lane in range(64):
                row, column = place(of_sums, lane)
                sums[lane, number] += result[row * of_sums.element[0] :, column][: of_sums.element[0]]
        for lane, each in enumerate(threads):
            for row, column, quad in each.results(list(sums[lane])):
                first = column.known or 0
                found[row.known or 0, first : first + 4] = quad
    np.testing.assert_array_equal(found, left[0].T @ right[0])


@pytest.mark.parametrize(
    ("target", "schedule"),
    [
        ("hip:gfx942", MFMA_BLOCKS),
        *wide_combinations([("vulkan:ampere", COOPERATIVE_BLOCKS), ("hip:gfx1100", WMMA_BLOCKS)]),
    ],
)
def test_kernels_that_use_warps_ask_for_their_threads(
    target: str, schedule: WarpSchedule, tmp_path: Path
) -> None:
    """A device with others then refuses the program, or runs it with these."""
    program = replace(WINOGRAD, schedule=schedule, constant_filter=False)
    kernels = [
        each
        for each in program.sources(target, tmp_path)
        if re.search(r"gpu\.shuffle|gpu\.subgroup_mma|amdgpu\.(mfma|wmma)", each)
    ]
    # The input's, whose threads find a scale together, and the product's.
    assert len(kernels) == 2
    assert all(f"subgroup_size = {schedule.unit.threads}>" in each for each in kernels)


@pytest.mark.parametrize(
    ("fragments", "schedule", "intrinsic"),
    [
        (MfmaFragments, MFMA_BLOCKS, "MFMA_F32_16x16x16_F16"),
        (MfmaFragments, CDNA4_BLOCKS, "MFMA_F32_16x16x32_F16"),
        (WmmaFragments, WMMA_BLOCKS, "WMMAR3_F32_16x16x16_F16"),
        (WmmaRdna4Fragments, WMMA_RDNA4_BLOCKS, "WMMAR4_F32_16x16x16_F16"),
    ],
)
def test_threads_hold_the_sums_that_iree_says(
    fragments: type[AmdFragments], schedule: WarpSchedule, intrinsic: str
) -> None:
    with ir.Context():
        attribute = iree_gpu.MMAIntrinsicAttr.get(getattr(iree_gpu.MMAIntrinsic, intrinsic))
        layout = iree_gpu.get_single_subgroup_layout(attribute, 2)
    (outer, _), (threads, _), (stride, one) = layout.outer, layout.thread, layout.tstrides
    assert one == 1
    element = layout.element[0]
    for lane in range(schedule.unit.threads):
        mine = fragments(schedule, None, Index(lane))  # type: ignore[arg-type]
        assert [row.known for row in mine.thread_rows(0)] == [lane % 16]
        firsts = [column.known for column in mine.thread_columns if (column.known or 0) < 16]
        columns = [first + i for first in firsts if first is not None for i in range(4)]
        theirs = [
            (i * threads + lane // stride % threads) * element + j
            for i in range(outer)
            for j in range(element)
        ]
        assert [schedule.unit.row_of(column) for column in columns] == theirs


@pytest.mark.parametrize(
    ("fragments", "schedule", "intrinsic"),
    [
        (MfmaFragments, MFMA_BLOCKS, "MFMA_F32_16x16x16_F16"),
        (MfmaFragments, CDNA4_BLOCKS, "MFMA_F32_16x16x32_F16"),
        (WmmaRdna4Fragments, WMMA_RDNA4_BLOCKS, "WMMAR4_F32_16x16x16_F16"),
    ],
)
def test_threads_hold_the_operands_that_iree_says(
    fragments: type[AmdFragments], schedule: WarpSchedule, intrinsic: str
) -> None:
    """Neighbours of a row; before CDNA 4 a chunk is of two products, each of which takes half of it."""
    with ir.Context():
        attribute = iree_gpu.MMAIntrinsicAttr.get(getattr(iree_gpu.MMAIntrinsic, intrinsic))
        layout = iree_gpu.get_single_subgroup_layout(attribute, 0)
    assert layout.element[1] * layout.thread[1] == getattr(schedule, "terms", 16)
    products = 8 // layout.element[1]
    for lane in range(schedule.unit.threads):
        mine = fragments(schedule, None, Index(lane))  # type: ignore[arg-type]
        row, position = (
            lane // stride % threads for stride, threads in zip(layout.tstrides, layout.thread, strict=True)
        )
        assert row == lane % 16
        # Without a swizzle.
        assert ((mine.placed(0).known or 0) ^ lane % 8) * 8 == position * layout.element[1] * products


@pytest.mark.parametrize("chunk", [0, 4])
def test_threads_of_cdna_read_chunks_where_the_transform_leaves_them(chunk: int) -> None:
    """Rows lie in shared memory as they do in the device's: copies change nothing."""
    packing = SplitPacking(_shape(), MFMA_BLOCKS)
    for lane in range(64):
        fragments = MfmaFragments(MFMA_BLOCKS, None, Index(lane))  # type: ignore[arg-type]
        row = lane % 16
        left = packing.stage_place(Index(row), Index((lane // 16 + chunk) * 8))
        assert left.known == row * MFMA.stage_row + (fragments.placed(chunk).known or 0) * 8


@pytest.mark.parametrize("unit", [MMA, COOPERATIVE, MFMA, WMMA, WMMA_RDNA4], ids=lambda unit: unit.name)
def test_each_of_16_columns_has_a_row(unit: MatrixUnit) -> None:
    assert sorted(map(unit.row_of, range(16))) == list(range(16))


@pytest.mark.parametrize(
    ("backend", "listed", "unit"),
    [
        ("vulkan-spirv", "NV_WMMA_F32_16x16x16_F16", COOPERATIVE),
        ("vulkan-spirv", "WMMAR3_F32_16x16x16_F16", COOPERATIVE),
        ("vulkan-spirv", "NV_MMA_SYNC_F32_16x8x16_F16", None),
        ("vulkan-spirv", "WMMAR3_F16_16x16x16_F16", None),
        ("rocm", "MFMA_F32_16x16x16_F16", MFMA),
        ("rocm", "WMMAR3_F32_16x16x16_F16", WMMA),
        ("rocm", "WMMAR4_F32_16x16x16_F16", WMMA_RDNA4),
    ],
)
def test_matrix_units_are_those_that_irees_target_lists(
    backend: str, listed: str, unit: MatrixUnit | None
) -> None:
    target = ExecutableTarget(backend, f"{backend}-fb", f"wgp = <mma = [<MFMA_F32_32x32x8_F16>, <{listed}>]>")
    assert GpuTarget.of(target).matrix_unit == unit


@pytest.mark.parametrize(("sizes", "unit"), [("32", COOPERATIVE), ("32, 64", COOPERATIVE), ("64", None)])
def test_matrix_units_are_for_warps_of_their_threads(sizes: str, unit: MatrixUnit | None) -> None:
    listed = "mma = [<NV_WMMA_F32_16x16x16_F16>]"
    text = f"wgp = <{listed}, subgroup_size_choices = [{sizes}], max_workgroup_sizes = [1024, 1024, 1024]>"
    assert GpuTarget.of(ExecutableTarget("vulkan-spirv", "vulkan-spirv-fb", text)).matrix_unit == unit


def test_schedules_are_for_the_matrix_units_of_the_target() -> None:
    newer = replace(VULKAN, architecture="gfx950", shared_memory_bytes=160 << 10, matrix_unit=MFMA)
    assert kernel_misfit(_shape(), newer, CDNA4_BLOCKS) is None
    older = replace(newer, architecture="gfx942")
    assert "32 terms" in (kernel_misfit(_shape(), older, CDNA4_BLOCKS) or "")
    with pytest.raises(ValueError, match="terms"):
        replace(CDNA4_BLOCKS, terms=64)
    split = SplitSchedule(64, 64, 32, 32, stages=2)
    for unit, schedule in ((COOPERATIVE, COOPERATIVE_BLOCKS), (MFMA, MFMA_BLOCKS), (WMMA, WMMA_BLOCKS)):
        assert kernel_misfit(_shape(), replace(VULKAN, matrix_unit=unit), schedule) is None
        assert "no matrix units" in (kernel_misfit(_shape(), replace(VULKAN, matrix_unit=unit), split) or "")
        assert "no matrix units" in (
            kernel_misfit(_shape(), replace(VULKAN, matrix_unit=None), schedule) or ""
        )


@pytest.mark.parametrize(
    ("unit", "architecture", "kind"),
    [
        (COOPERATIVE, "sm_80", CooperativeSchedule),
        (COOPERATIVE, "rdna4", CooperativeSchedule),
        (MFMA, "gfx90a", MfmaSchedule),
    ],
)
def test_matrix_units_that_are_fast_enough_multiply(
    unit: MatrixUnit, architecture: str, kind: type[WarpSchedule]
) -> None:
    target = replace(VULKAN, architecture=architecture, matrix_unit=unit)
    machine = default_gpu_machine(architecture)
    machine = replace(machine, matrix_flops=64 * machine.flops)
    assert isinstance(default_schedules(_shape(), target, machine)[0], kind)


@pytest.mark.parametrize(("unit", "architecture"), [(None, ""), (COOPERATIVE, "rdna3"), (WMMA, "gfx1100")])
def test_where_matrix_units_are_missing_or_slow_products_and_limits_are_those_of_others(
    unit: MatrixUnit | None, architecture: str
) -> None:
    target = replace(VULKAN, architecture=architecture, matrix_unit=unit)
    machine = default_gpu_machine(architecture)
    kinds = (CooperativeSchedule, WmmaSchedule)
    assert not any(isinstance(each, kinds) for each in schedules(_shape(), target, machine))
    assert not isinstance(default_schedules(_shape(), target, machine)[0], MatrixSchedule)
    assert GpuBackend(target).search_space(machine).max_relative_errors["f32"] == 4e-6


def test_consumers_gpus_keep_their_limit_through_vulkan() -> None:
    """Three products on their matrix units take longer than one elsewhere."""
    target = replace(VULKAN, architecture="sm_86")
    assert GpuBackend(target).search_space().max_relative_errors["f32"] == 4e-6
    assert GpuBackend(VULKAN).search_space().max_relative_errors["f32"] == 5e-7


def test_cdna_multiplies_on_matrix_units_whatever_the_size() -> None:
    """Others' products, and fused kernels, are bound by shared memory there."""
    target = replace(VULKAN, architecture="gfx942", shared_memory_bytes=64 << 10, matrix_unit=MFMA)
    space = GpuBackend(target).search_space()
    small = ConvolutionProblem(1, (14, 14), (1, 1), (1, 1), (3, 3), (1, 1), (1, 1), 1, 256, 256)
    shape = ConvolutionShape.decomposed(small, decompose((3, 3), (1, 1)))
    exact = [each for each in space.default_schedules(shape) if each.matrix_products != 1]
    assert [type(each) for each in exact] == [MfmaGemmSchedule, MfmaSchedule]
    assert not any(isinstance(each, FusedSchedule) for each in space.schedules(_shape()))
    without = replace(target, matrix_unit=None)
    assert "no matrix units" in (kernel_misfit(shape, without, MFMA_GEMM_BLOCKS) or "")
    with pytest.raises(ValueError, match="warp_rows"):
        MfmaGemmSchedule(32, 64, 16, thread_rows=8, thread_columns=8)
    with pytest.raises(ValueError, match="more than a quad at once"):
        MfmaGemmSchedule(128, 128, 16, thread_rows=16, thread_columns=8)


@pytest.mark.parametrize(
    ("sizes", "fields", "message"),
    [
        ((64, 64, 32, 64), {"summed_block": 24}, "summed_block 24 must be a multiple of 16"),
        ((128, 64, 16, 64), {"summed_block": 16}, "no room for 16 rows of sums"),
    ],
)
def test_cooperative_schedules_that_make_no_sense_are_an_error(
    sizes: tuple[int, int, int, int], fields: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        CooperativeSchedule(*sizes, stages=2, **fields)


@pytest.mark.parametrize("terms", [64, 1024])
def test_sums_that_small_products_come_first_in_lose_nothing_by_it(terms: int) -> None:
    """Matrix units are imitated: 16 exact products at a time are added to a sum, which is truncated."""
    generator = np.random.default_rng(0)
    rows, columns = (generator.standard_normal((2000, terms)).astype(np.float32) for _ in range(2))
    exact = (rows.astype(np.float64) * columns).sum(axis=1)
    joined = _blocks(rows, columns, low_bits=0)
    apart = _blocks(rows, columns, low_bits=11)
    error_joined, error_apart = (np.abs(each - exact).sum() / np.abs(exact).sum() for each in (joined, apart))
    assert error_joined <= 1.1 * error_apart


def _blocks(rows: Array, columns: Array, low_bits: int) -> Array:
    """Sums of blocks of 16 products, small ones first or apart from them, added to each other in fp32."""
    (high_row, low_row), (high_column, low_column) = (
        tuple(part.astype(np.float64) for part in split(each.astype(np.float64) * 2.0**12, low_bits))
        for each in (rows, columns)
    )
    large, small = np.zeros(len(rows), np.float32), np.zeros(len(rows), np.float32)
    for first in range(0, rows.shape[1], 16):
        block = slice(first, first + 16)
        products = [
            (left[:, block] * right[:, block]).sum(axis=1)
            for left, right in ((high_row, low_column), (low_row, high_column), (high_row, high_column))
        ]
        if low_bits:
            small = _truncated(_truncated(small + products[0]) + products[1])
            large = large + _truncated(products[2])
            continue
        sum_ = np.zeros(len(rows), np.float32)
        for product in products:
            sum_ = _truncated(sum_ + product)
        large = large + sum_
    return np.asarray(
        (large + np.float32(2.0**-low_bits) * small if low_bits else large) * 2.0**-24, np.float64
    )


def _truncated(exact: Array) -> Array:
    rounded = exact.astype(np.float32)
    return np.where(np.abs(rounded) > np.abs(exact), np.nextafter(rounded, np.float32(0)), rounded)


@pytest.mark.parametrize(
    ("unit", "architecture", "limit"),
    [
        (COOPERATIVE, "sm_80", 5e-7),
        (COOPERATIVE, "rdna4", 4e-6),
        (MFMA, "gfx942", 5e-7),
        (MFMA, "gfx90a", 4e-6),
        (WMMA_RDNA4, "gfx1201", 4e-6),
    ],
)
def test_layers_are_as_accurate_as_costs_no_time(unit: MatrixUnit, architecture: str, limit: float) -> None:
    target = replace(VULKAN, architecture=architecture, matrix_unit=unit)
    space = GpuBackend(target).search_space(default_gpu_machine(architecture))
    assert space.max_relative_errors["f32"] == limit


def test_products_of_cdna_are_slower_with_one_wave() -> None:
    machine, nvidia = default_gpu_machine("gfx90a"), default_gpu_machine("sm_80")
    small, large = GemmSchedule(64, 64, 16), GemmSchedule(128, 128, 16)
    assert product_rate(small, machine) == pytest.approx(0.7 * product_rate(large, machine))
    assert product_rate(small, nvidia) == product_rate(large, nvidia)
    # Nor do threads load one operand each, or keep 16 x 8 sums. Where there are matrix units, all have two.
    target = replace(VULKAN, architecture="gfx90a", matrix_unit=MFMA)
    offered = (schedules(_shape(), each, machine) for each in (target, replace(target, matrix_unit=None)))
    two_waves, products = ([each for each in found if type(each) is GemmSchedule] for found in offered)
    assert two_waves and small not in two_waves
    assert small in products
    assert not any(each.splits_loads and each.sums >= 64 for each in products)
    assert max(each.sums for each in products) == 64
