"""Products on matrix units by warpgroups: the code that they become for sm_90a, and when they are chosen.

No GPU of NVIDIA takes part: `benchmarks/gpu_split.py` checks the kernels on one.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path

import pytest
from checked_programs import check_together
from iree.winograd.dialect.bindings import func, ir
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.element_types import F32
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.emission.control_flow import loop
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.gpu.choice.candidate_schedules import schedules
from iree.winograd.pipelines.gpu.choice.cost_model import most_reduction
from iree.winograd.pipelines.gpu.choice.default_schedule import default_schedules
from iree.winograd.pipelines.gpu.choice.stage_seconds import stage_seconds
from iree.winograd.pipelines.gpu.device.memory import span
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.device.warpgroup import WARPGROUP_THREADS
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.schedules.fit import kernel_misfit
from iree.winograd.pipelines.gpu.schedules.implicit_gemm import ImplicitGemmSchedule
from iree.winograd.pipelines.gpu.schedules.warpgroup import (
    WarpgroupSchedule,
)
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.problems.executable_target import ExecutableTarget
from iree.winograd.pipelines.problems.shape import ConvolutionShape
from ptxas import spilled_bytes
from scheduled_program import HOPPER, ScheduledProgram
from wide import sampled

SMALL = WarpgroupSchedule(64, 64, stages=4, resident_workgroups=3)
LARGE = WarpgroupSchedule(128, 128, stages=6, summed_block=64, walking_workgroups=132)
WINOGRAD = ScheduledProgram(
    (14, 14), 160, 64, (3, 3), (2, 2), (3, 3), batch=4, low=(1, 1), high=(1, 1), schedule=SMALL
)
EVENED_OUT = replace(
    WINOGRAD,
    channels=256,
    schedule=replace(SMALL, summed_block=64, walking_workgroups=396, reduction_parts=4, divided_products=3),
)
PROGRAMS = [
    replace(WINOGRAD, schedule=replace(SMALL, walking_workgroups=396)),
    replace(WINOGRAD, schedule=replace(SMALL, summed_block=64)),
    replace(WINOGRAD, dynamic_batch=True, schedule=replace(SMALL, walking_workgroups=396)),
    replace(WINOGRAD, constant_filter=False, schedule=replace(SMALL, products=1)),
    replace(WINOGRAD, channels=30, outputs=19),
    replace(WINOGRAD, kernel=(1, 1), m=(1, 1), p=(1, 1), low=None, high=None),
    replace(WINOGRAD, schedule=WarpgroupSchedule(128, 256, stages=4, products=1, walking_workgroups=132)),
    replace(WINOGRAD, schedule=LARGE),
    replace(WINOGRAD, schedule=replace(SMALL, summed_block=64, walking_workgroups=396, reduction_parts=2)),
    EVENED_OUT,
]
POINTWISE = replace(
    WINOGRAD, channels=112, outputs=112, kernel=(1, 1), m=(1, 1), p=(1, 1), low=None, high=None
)
IMPLICIT = ImplicitGemmSchedule(64, 64, warpgroups=3, walking_workgroups=66, summed_block=64)
RESIDUALS = [
    replace(POINTWISE, adds_image=True, schedule=LARGE),
    replace(POINTWISE, adds_image=True, schedule=SMALL),
    replace(POINTWISE, adds_image=True, schedule=IMPLICIT),
    # Tiles and blocks of columns that aren't full, and channels that are no whole quads.
    replace(
        WINOGRAD,
        size=(11, 9),
        channels=40,
        outputs=40,
        m=(1, 1),
        p=(1, 1),
        adds_image=True,
        schedule=IMPLICIT,
    ),
    replace(POINTWISE, size=(5, 5), channels=30, outputs=30, adds_image=True, schedule=SMALL),
]


def _shape(channels: int, batch: int = 32, size: int = 28) -> ConvolutionShape:
    problem = ConvolutionProblem(
        batch, (size, size), (1, 1), (1, 1), (3, 3), (1, 1), (1, 1), 1, channels, channels
    )
    return ConvolutionShape.decomposed(problem, decompose((3, 3), (4, 4)))


@pytest.mark.parametrize("program", sampled(PROGRAMS[1:], PROGRAMS[-1:]), ids=str)
def test_becomes_bulk_copies_and_products_of_warpgroups(program: ScheduledProgram, tmp_path: Path) -> None:
    kernels = program.kernels("sm_90a", tmp_path)
    (multiplying,) = (each for each in kernels if "wgmma.mma_async" in each)
    schedule = program.schedule
    assert isinstance(schedule, WarpgroupSchedule)
    shape = f"m64n{schedule.block_columns}k16.f32.f16.f16"
    products = multiplying.count(f"wgmma.mma_async.sync.aligned.{shape}")
    copies = multiplying.count("cp.async.bulk.shared::cluster.global.mbarrier")
    # A row of a stage has four steps of 16 numbers: two of high parts and two of low ones, or four. The
    # compiler may unroll the loop over stages.
    assert products and products % (6 if schedule.products == 3 else 4) == 0
    assert copies and copies % 2 == 0
    for instruction in ("mbarrier.init", "mbarrier.try_wait.parity", "wgmma.wait_group", "fence.proxy.async"):
        assert instruction in multiplying
    assert ".local" not in multiplying, "registers are spilled"
    assert ("setmaxnreg.inc" in multiplying) == ("setmaxnreg.dec" in multiplying) == (schedule == LARGE)
    # IREE's code for ReLU would be this, of a NaN and zero zero.
    assert not any("max.f32" in each for each in kernels)


def test_residuals_agree_with_float64(gpu_target: str, gpu_device: str) -> None:
    """Without warpgroups by what is chosen there."""
    has_them = gpu_target.endswith(":sm_90a")
    programs = RESIDUALS if has_them else [replace(each, schedule=None) for each in RESIDUALS[3:]]
    check_together(programs, target=gpu_target, devices=[gpu_device])


@pytest.mark.parametrize("program", sampled(RESIDUALS[:3], RESIDUALS[:1]), ids=str)
def test_residuals_are_on_their_way_while_others_are_added(program: ScheduledProgram, tmp_path: Path) -> None:
    kernels = program.kernels("sm_90a", tmp_path)
    (multiplying,) = (each for each in kernels if "wgmma.mma_async" in each)
    before, after = multiplying.split("prefetch.global.L2", 1)
    assert "wgmma.mma_async" not in before and "wgmma.mma_async" in after
    # Nothing is stored until two steps' are asked for: scales, a bias and two rows of the residual each.
    first = after[after.rindex("wgmma.mma_async") :].split("st.global")[0]
    assert first.count("ld.global.nc.v4") >= 2 * 4
    assert not any(spilled_bytes(tmp_path, "sm_90a").values())


def test_buffers_are_not_bound_in_loops() -> None:
    """IREE would not find them where it moves buffers: walking kernels read the scales of another place."""
    with ir.Context(), ir.Location.unknown():
        index = ir.IndexType.get()
        with ir.InsertionPoint(ir.Module.create().body):
            function = func.FuncOp("kernel", ([ir.Type.parse("!stream.binding"), index], []))
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            span(block.arguments[0], ir.F32Type.get(), Index(block.arguments[1]))
            with loop(Index(block.arguments[1])), pytest.raises(ValueError, match=r"bound in scf\.for"):
                span(block.arguments[0], ir.F32Type.get(), Index(4))


def test_only_sm_90a_has_them() -> None:
    def has_them(backend: str, architecture: str) -> bool:
        return GpuTarget.of(
            ExecutableTarget(backend, f"{backend}-fb", f'arch = "{architecture}"')
        ).has_warpgroup_products

    assert has_them("cuda", "sm_90a")
    assert not any(has_them("cuda", name) for name in ("sm_80", "sm_89", "sm_90", "sm_100a", ""))
    assert not has_them("vulkan-spirv", "sm_90a")
    assert not HOPPER.least(replace(HOPPER, has_warpgroup_products=False)).has_warpgroup_products


def test_other_targets_have_none() -> None:
    shape, machine = _shape(256), default_gpu_machine("sm_90a")
    target = replace(HOPPER, architecture="sm_80", has_warpgroup_products=False)
    assert "no matrix units that warpgroups use" in (kernel_misfit(shape, target, SMALL) or "")
    assert not any(isinstance(each, WarpgroupSchedule) for each in schedules(shape, target, machine))


@pytest.mark.parametrize(("channels", "size"), [(128, 28), (256, 14), (512, 7)])
def test_they_are_chosen_for_many_channels(channels: int, size: int) -> None:
    machine = default_gpu_machine("sm_90a")
    shape = _shape(channels, size=size)
    split = next(each for each in default_schedules(shape, HOPPER, machine) if each.matrix_products == 3)
    assert isinstance(split, WarpgroupSchedule)
    assert split.walking_workgroups == split.resident_workgroups * machine.multiprocessors


def _pointwise(batch: int, size: int, inputs: int, outputs: int) -> ConvolutionShape:
    problem = ConvolutionProblem(
        batch, (size, size), (0, 0), (0, 0), (1, 1), (1, 1), (1, 1), 1, inputs, outputs
    )
    return ConvolutionShape.decomposed(problem, decompose((1, 1), (1, 1)))


@pytest.mark.parametrize(
    ("sizes", "is_shared"),
    [((1, 14, 1536, 384), True), ((1, 7, 3072, 768), True), ((32, 14, 1536, 384), False)],
)
def test_few_blocks_share_a_long_reduction(sizes: tuple[int, int, int, int], is_shared: bool) -> None:
    machine, shape = default_gpu_machine("sm_90a"), _pointwise(*sizes)
    split = next(each for each in default_schedules(shape, HOPPER, machine) if each.matrix_products == 3)
    assert isinstance(split, WarpgroupSchedule)
    assert (split.reduction_parts > 1) == is_shared
    whole = replace(split, reduction_parts=1)
    products = [stage_seconds(shape, each, machine)["products"] for each in (split, whole)]
    # Stages come one after the other, each as late as the first.
    assert (products[0] < 0.6 * products[1]) == is_shared


@pytest.mark.parametrize("columns", [96, 160, 192])
def test_blocks_of_other_widths_have_predictions(columns: int) -> None:
    """Those offered for images that they read, where a kernel before them has to pack what they multiply."""
    machine, shape = default_gpu_machine("sm_90a"), _shape(136)
    schedule = WarpgroupSchedule(
        128, columns, stages=5, products=1, walking_workgroups=132, alternating_warpgroups=2
    )
    products = stage_seconds(shape, schedule, machine)["products"]
    known = stage_seconds(shape, replace(schedule, block_columns=128), machine)["products"]
    assert 0.5 * known < products < 2 * known


@pytest.mark.parametrize(("channels", "size"), [(512, 7), (320, 28), (1280, 16)])
def test_multiprocessors_take_blocks_in_turns(channels: int, size: int) -> None:
    """Whole products, then those in parts, of which some schedule leaves the fullest less than none does."""
    machine, shape = default_gpu_machine("sm_90a"), _shape(channels, size=size, batch=2)
    longest = {}
    for schedule in schedules(shape, HOPPER, machine):
        if not isinstance(schedule, WarpgroupSchedule) or schedule.resident_workgroups > 1:
            continue
        packing = SplitPacking(shape, schedule)
        rows = -(-2 * prod(shape.tiles_per_image) // schedule.block_rows)
        blocks = rows * packing.column_blocks
        reductions = [0] * machine.multiprocessors
        for number in range(blocks * packing.slots):
            is_whole = number // blocks < packing.whole_products
            each = packing.padded_reduction if is_whole else packing.part_reduction
            reductions[number % len(reductions)] += each
        longest[schedule] = most_reduction(packing, blocks, machine.multiprocessors)
        assert longest[schedule] == max(reductions)
    for schedule, of_divided in longest.items():
        if schedule.divided_products is not None:
            whole = replace(schedule, divided_products=None, reduction_parts=1)
            assert of_divided <= longest[whole]
    assert any(each.divided_products for each in longest)


def test_all_that_are_offered_fit_in_registers_and_memory() -> None:
    machine = default_gpu_machine("sm_90a")
    offered = [
        each for each in schedules(_shape(256), HOPPER, machine) if isinstance(each, WarpgroupSchedule)
    ]
    assert {each.products for each in offered} == {1, 3}
    for each in offered:
        resident = each.resident_workgroups
        assert resident * each.shared_memory_bytes(F32) <= HOPPER.shared_memory_bytes
        # At least 32 registers of a thread for what isn't sums.
        if each.takes_registers:
            assert each.sums + 32 <= each.registers
            copying = each.threads - each.warpgroups * WARPGROUP_THREADS
            given = each.registers * (each.threads - copying) + each.copying_registers * copying
            assert given <= 65536
        else:
            assert resident * each.threads * (each.sums + 32) <= 65536


@pytest.mark.parametrize(
    ("sizes", "fields", "message"),
    [
        ((96, 64), {}, "block_rows 96 must be a multiple of 64"),
        ((64, 72), {}, "block_columns 72 must be a multiple of 16"),
        ((64, 256), {}, "at most 192 sums, not the 256"),
        ((64, 64), {"stages": 1}, "stages must be at least 2, not 1"),
        ((64, 64), {"products": 2}, "products must be 1 or 3, not 2"),
        ((64, 64), {"summed_block": 24}, "summed_block 24 must be a multiple of 16"),
        ((64, 64), {"summed_block": 48}, "summed_block 48 must be a multiple of 32"),
        ((64, 64), {"divided_products": 3}, "those of several reduction_parts"),
        ((64, 64), {"copying_warps": 3}, "copying_warps must be 1, 2 or 4, not 3"),
        ((128, 192), {"copying_warps": 4}, "warps that gather have no registers to give"),
        ((64, 128), {"summed_block": 32}, "192 sums of a thread are for one workgroup of two warpgroups"),
    ],
)
def test_blocks_that_do_not_fit_are_an_error(
    sizes: tuple[int, int], fields: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        WarpgroupSchedule(*sizes, **{"stages": 4} | fields)
