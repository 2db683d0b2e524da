"""What the rule that chooses separate kernels or the fused one may choose from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from iree.winograd.dialect.decomposition import decompose
from iree.winograd.passes.match.convolutions.element_types import F32, ElementTypes
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.gpu.backend import GpuBackend
from iree.winograd.pipelines.gpu.choice.candidate_schedules import schedules
from iree.winograd.pipelines.gpu.choice.default_schedule import default_schedules
from iree.winograd.pipelines.gpu.choice.rates import has_two_waves, product_rate
from iree.winograd.pipelines.gpu.choice.stage_seconds import STAGE_SECONDS, stage_seconds
from iree.winograd.pipelines.gpu.device.matrix_unit import MFMA, MMA
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.lowering import LOWERINGS
from iree.winograd.pipelines.gpu.schedules.columns import GpuDepthwiseSchedule
from iree.winograd.pipelines.gpu.schedules.fit import SCHEDULE_KINDS, GpuSchedule, fits, kernel_misfit
from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from iree.winograd.pipelines.gpu.schedules.split import MfmaSchedule, SplitSchedule
from iree.winograd.pipelines.gpu.schedules.weight_gradient import (
    MatrixWeightGradientSchedule,
    MultiplyAddWeightGradientSchedule,
)
from iree.winograd.pipelines.problems.shape import ConvolutionShape, WeightGradientShape

H200 = GpuTarget(1024, 166912, architecture="sm_90")


def _shape(batch: int | None, size: int, channels: int, m: tuple[int, int]) -> ConvolutionShape:
    problem = ConvolutionProblem(
        batch, (size, size), (1, 1), (1, 1), (3, 3), (1, 1), (1, 1), 1, channels, channels
    )
    return ConvolutionShape.decomposed(problem, decompose((3, 3), m))


def _default(shape: ConvolutionShape, target: GpuTarget = H200) -> GpuSchedule:
    return default_schedules(shape, target, GpuBackend(target).default_machine)[0]


@pytest.mark.parametrize("target", [H200, GpuTarget(1024, 49152), GpuTarget(128, 16384)])
@pytest.mark.parametrize("m", [(1, 1), (2, 2), (2, 4), (4, 4)])
def test_all_schedules_keep_the_limits(m: tuple[int, int], target: GpuTarget) -> None:
    shape = _shape(None, 30, 64, m)
    offered = list(schedules(shape, target, GpuBackend(target).default_machine))
    assert _default(shape, target) in offered
    assert all(fits(schedule, target) for schedule in offered)
    products = {each.products for each in offered if isinstance(each, FusedSchedule)}
    assert products <= {shape.transform_size}


def test_a_gradient_of_a_filter_has_schedules_of_its_own() -> None:
    target = GpuTarget(1024, 166912, architecture="sm_90", matrix_unit=MMA)
    forward = _shape(8, 30, 64, (4, 4))
    shape = WeightGradientShape.decomposed(forward, forward.decomposition)
    offered = list(schedules(shape, target, GpuBackend(target).default_machine))
    kinds = {type(each) for each in offered}
    assert kinds == {MultiplyAddWeightGradientSchedule, MatrixWeightGradientSchedule}
    assert all(kernel_misfit(shape, target, each) is None for each in offered)
    assert all("a convolution" in (kernel_misfit(forward, target, each) or "") for each in offered)
    assert "gradient of a filter" in (kernel_misfit(shape, target, _default(forward, target)) or "")
    without = list(schedules(shape, H200, GpuBackend(H200).default_machine))
    assert {type(each) for each in without} == {MultiplyAddWeightGradientSchedule}


@pytest.mark.parametrize("m", [(1, 1), (4, 4)])
def test_the_transform_of_filters_known_only_at_run_time_counts(m: tuple[int, int]) -> None:
    shape = _shape(1, 7, 512, m)
    machine = GpuBackend(H200).default_machine
    for schedule in schedules(shape, H200, machine):
        constant = stage_seconds(shape, schedule, machine)
        computed = stage_seconds(replace(shape, runtime_filter=True), schedule, machine)
        # It writes as many bytes as there are in the transformed filters.
        least = shape.filter_bytes / machine.cache_bandwidth
        assert sum(computed.values()) - sum(constant.values()) > least


def test_depthwise_convolutions_have_schedules_of_their_own() -> None:
    problem = ConvolutionProblem(1, (14, 14), (1, 1), (1, 1), (3, 3), (1, 1), (1, 1), 96, 96, 96)
    shape = ConvolutionShape.decomposed(problem, decompose((3, 3), (1, 1), part_size=(1, 1)))
    offered = list(schedules(shape, H200, GpuBackend(H200).default_machine))
    assert len(offered) > 1
    assert all(isinstance(each, GpuDepthwiseSchedule) for each in offered)
    dense = _shape(1, 14, 96, (1, 1))
    assert "not depthwise" in (kernel_misfit(dense, H200, offered[0]) or "")
    assert "depthwise" in (kernel_misfit(shape, H200, _default(dense)) or "")


@pytest.mark.parametrize("types", ["bf16*bf16+f32=bf16", "i8", "f64", "f16"])
def test_no_kernel_takes_types_that_it_does_not_know(types: str) -> None:
    """Launches bind what they are given as f32."""
    target = GpuTarget(1024, 166912, architecture="sm_90", matrix_unit=MMA)
    machine = GpuBackend(target).default_machine
    forward = _shape(8, 30, 64, (4, 4))
    channels = ConvolutionProblem(1, (14, 14), (1, 1), (1, 1), (3, 3), (1, 1), (1, 1), 96, 96, 96)
    shapes = (
        forward,
        _shape(8, 30, 64, (1, 1)),
        WeightGradientShape.decomposed(forward, forward.decomposition),
        ConvolutionShape.decomposed(channels, decompose((3, 3), (1, 1), part_size=(1, 1))),
    )
    kinds = set()
    for shape in shapes:
        other = replace(shape, element_types=ElementTypes.parse(types))
        for schedule in schedules(shape, target, machine):
            kinds.add(type(schedule))
            assert kernel_misfit(shape, target, schedule) is None
            # The second operand of a filter's gradient is an image, too.
            if isinstance(shape, WeightGradientShape) and other.element_types.widened_of_gradient == F32:
                assert kernel_misfit(other, target, schedule) is None
            else:
                assert "element types" in (kernel_misfit(other, target, schedule) or "")
    assert kinds >= {GemmSchedule, SplitSchedule, GpuDepthwiseSchedule}


def test_all_classes_of_schedules_have_all_rows() -> None:
    lowered = LOWERINGS.keys() | {MultiplyAddWeightGradientSchedule, MatrixWeightGradientSchedule}
    assert SCHEDULE_KINDS.keys() == STAGE_SECONDS.keys() == lowered


@pytest.mark.parametrize(
    ("architecture", "orders_steps", "alternating"),
    [("rdna3", False, {32: 2, 64: None}), ("rdna4", False, {32: None}), ("gfx1100", True, {32: None})],
)
def test_rows_alternate_where_a_thread_does_two_multiply_adds_at_a_time(
    architecture: str, orders_steps: bool, alternating: dict[int, int | None]
) -> None:
    """By the threads of a workgroup; LLVM finds pairs itself."""
    target = GpuTarget(1024, 64 << 10, architecture=architecture, orders_steps=orders_steps)
    machine = GpuBackend(target).default_machine
    found = {
        each.threads: each.alternating_rows
        for each in schedules(_shape(1, 14, 256, (2, 2)), target, machine)
        if isinstance(each, GemmSchedule)
    }
    assert found.items() >= alternating.items()


def test_warps_that_need_pairs_of_multiply_adds_are_slower() -> None:
    """Those of 32 threads by Mesa's compiler, not by LLVM, which finds all pairs."""
    one_warp, more = GemmSchedule(64, 32, 16), GemmSchedule(64, 64, 16)
    rdna3 = GpuBackend(GpuTarget(1024, 64 << 10, architecture="rdna3")).default_machine
    assert product_rate(one_warp, rdna3) < 0.9 * product_rate(more, rdna3)
    by_llvm = replace(one_warp, ordered_steps=1)
    assert product_rate(by_llvm, rdna3) == product_rate(more, rdna3)
    rdna2 = GpuBackend(GpuTarget(1024, 64 << 10, architecture="rdna2")).default_machine
    assert product_rate(one_warp, rdna2) == product_rate(more, rdna2)


def test_amds_kernels_have_registers_and_waves() -> None:
    """LLVM spills in the fused kernel's large threads where it unrolls the loop over channels."""
    rdna = GpuTarget(1024, 64 << 10, architecture="gfx1200", orders_steps=True)
    machine = GpuBackend(rdna).default_machine
    fused = [
        [
            each.sums
            for each in schedules(_shape(1, 14, channels, (4, 2)), rdna, machine)
            if each.kind == "fused"
        ]
        for channels in (16, 32)
    ]
    assert fused == [[], [64]]
    newest = GpuTarget(1024, 160 << 10, architecture="gfx950", matrix_unit=MFMA)
    machine = GpuBackend(newest).default_machine
    warps = [
        {
            each.warp_rows
            for each in schedules(_shape(1, 14, channels, (4, 4)), newest, machine)
            if isinstance(each, MfmaSchedule)
        }
        for channels in (96, 128)
    ]
    assert warps == [{32}, {32, 48}]
    cdna = GpuTarget(1024, 64 << 10, architecture="gfx942", matrix_unit=MFMA)
    machine = GpuBackend(cdna).default_machine
    products = schedules(_shape(1, 14, 64, (4, 4)), cdna, machine)
    offered = [each for each in products if isinstance(each, GemmSchedule)]
    assert offered and all(has_two_waves(each, machine) for each in offered)


def test_no_product_by_multiply_adds_is_offered_that_spills_unrolled() -> None:
    """Of two blocks along the reduction, of which the assembler makes straight code."""
    target = GpuTarget(1024, 232448, "nvvm.minctasm", "sm_90a", matrix_unit=MMA)
    machine = GpuBackend(target).default_machine
    for channels, is_offered in ((16, True), (32, False), (48, True)):
        pointwise = ConvolutionProblem(32, (56, 56), (0, 0), (0, 0), (1, 1), (1, 1), (1, 1), 1, channels, 128)
        shape = ConvolutionShape.decomposed(pointwise, decompose((1, 1), (1, 1)))
        offered = [each for each in schedules(shape, target, machine) if isinstance(each, GemmSchedule)]
        assert any(each.threads >= 256 and each.sums >= 64 for each in offered) == is_offered
        assert any(each.block_rows == 128 for each in offered)


def test_an_open_batch_is_chosen_for_the_images_that_are_expected() -> None:
    known = ConvolutionProblem.parse(
        "4x14x14x256->256 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32"
    )
    machine, taken = GpuBackend(H200).default_machine, decompose((3, 3), (1, 1), part_size=(1, 1))
    shapes = [
        ConvolutionShape.decomposed(problem, taken)
        for problem in (known, replace(known, batch=None, expected_batch=4), replace(known, batch=None))
    ]
    schedule = default_schedules(shapes[0], H200, machine)[0]
    of_four, expected, of_any = (sum(stage_seconds(each, schedule, machine).values()) for each in shapes)
    # The default is 64 images.
    assert of_four == expected < of_any
