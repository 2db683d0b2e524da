"""What the kernels of a schedule are predicted to take, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from iree.winograd.pipelines.gpu.packing.gemv import GemvPacking
from iree.winograd.pipelines.gpu.packing.products import MultiplyAddPacking, ProductPacking
from iree.winograd.pipelines.gpu.packing.split import SplitPacking
from iree.winograd.pipelines.gpu.packing.split_rows import reads_split
from iree.winograd.pipelines.gpu.schedules.columns import (
    DepthwiseBlockSchedule,
    DepthwiseStripSchedule,
    GpuDepthwiseSchedule,
    GroupedBlockSchedule,
    GroupedSchedule,
)
from iree.winograd.pipelines.gpu.schedules.fit import GpuSchedule
from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule, MfmaGemmSchedule
from iree.winograd.pipelines.gpu.schedules.gemv import GemvSchedule
from iree.winograd.pipelines.gpu.schedules.grouped_ring import GroupedRingSchedule
from iree.winograd.pipelines.gpu.schedules.implicit_gemm import ImplicitGemmSchedule
from iree.winograd.pipelines.gpu.schedules.split import (
    CooperativeSchedule,
    MfmaSchedule,
    SplitSchedule,
    WmmaRdna4Schedule,
    WmmaSchedule,
)
from iree.winograd.pipelines.gpu.schedules.streamed import StreamedSchedule
from iree.winograd.pipelines.gpu.schedules.toeplitz import DepthwiseToeplitzSchedule
from iree.winograd.pipelines.gpu.schedules.warpgroup import WarpgroupSchedule
from iree.winograd.pipelines.gpu.schedules.weight_gradient import (
    HalfWeightGradientSchedule,
    MatrixWeightGradientSchedule,
    MultiplyAddWeightGradientSchedule,
)
from iree.winograd.pipelines.machines.model import GpuMachine
from iree.winograd.pipelines.problems.schedule import FILTER_TRANSFORM_STAGE, LAUNCH_STAGE
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .block_cost import block_seconds, strip_seconds
from .cost_model import (
    INPUT_STAGE,
    columns_seconds,
    gemm_seconds,
    launch_seconds,
    with_output_seconds,
)
from .filter_cost import filter_seconds, split_filter_seconds
from .fused_cost import fused_seconds
from .gathering_cost import gathered_seconds
from .gemv_cost import gemv_seconds
from .image_ring_cost import grouped_ring_seconds, toeplitz_seconds
from .implicit_gemm_cost import implicit_gemm_seconds
from .mapping_cost import mapped_seconds
from .representative import representative
from .streamed_cost import streamed_seconds
from .weight_gradient_cost import weight_gradient_seconds


def stage_seconds(
    shape: ConvolutionShape, schedule: GpuSchedule, machine: GpuMachine, *, image_is_split: bool = False
) -> Mapping[str, float]:
    """Seconds that each stage is predicted to take, the transform of filters known only at run time too.

    Of sizes known only at run time they are those of `representative` ones. An image that the layer before
    leaves split has no kernel before products that read it so.
    """
    stages = STAGE_SECONDS[type(schedule)](representative(shape), schedule, machine)
    if image_is_split and reads_split(shape, schedule):
        launches = stages[LAUNCH_STAGE] - launch_seconds(machine)
        stages = {name: each for name, each in stages.items() if name != INPUT_STAGE}
        return {**stages, LAUNCH_STAGE: launches}
    longer = _divisions(schedule) if shape.unknown_sizes and not shape.is_of_single_pixels else 1.0
    return {stage: seconds * (1.0 if stage == LAUNCH_STAGE else longer) for stage, seconds in stages.items()}


def _divisions(schedule: GpuSchedule) -> float:
    """What kernels take longer that locate several tiles or rows each by sizes known only at run time."""
    if isinstance(schedule, GemmSchedule):
        return _GEMM_DIVISIONS.get(schedule.thread_rows, 1.0)
    return _FUSED_DIVISIONS if isinstance(schedule, FusedSchedule) else 1.0


_FUSED_DIVISIONS = 1.3
"""On an H200 tiles of 96x80x16 and of 48x40x32 took 4.9 and 5.6 us in place of 3.7 and 4.9."""
_GEMM_DIVISIONS: Mapping[int, float] = MappingProxyType({4: 1.2, 8: 1.05})
"""By the rows of a thread's sums: products of a signal's 15 taps took 4.3 and 3.5 us in place of 3.8 and 3.0,
of a film's 27 7.7 and 6.1 in place of 6.9 and 5.5. Of its layers at 16 x 128 x 96 four rows took 39 to 77 us,
eight 31 to 54, where 34 to 66 and 32 to 57 are predicted of known sizes."""
_StageSeconds = Callable[[Any, Any, GpuMachine], Mapping[str, float]]
_FilterSeconds = Callable[[ConvolutionShape, Any, GpuMachine], float]


def _with_filters(seconds: _StageSeconds, of_filters: _FilterSeconds) -> _StageSeconds:
    """`seconds` with those of transforming filters that are known only at run time."""

    def stages_of(shape: ConvolutionShape, schedule: Any, machine: GpuMachine) -> Mapping[str, float]:
        stages = seconds(shape, schedule, machine)
        if not shape.runtime_filter:
            return stages
        return {**stages, FILTER_TRANSFORM_STAGE: of_filters(shape, schedule, machine)}

    return stages_of


def _of_warpgroups(
    shape: ConvolutionShape, schedule: WarpgroupSchedule, machine: GpuMachine
) -> Mapping[str, float]:
    packing = SplitPacking(shape, schedule)
    if not packing.reads_image:
        return gemm_seconds(packing, machine)
    seconds = mapped_seconds if schedule.maps_image else gathered_seconds
    products = seconds(packing, schedule, machine)
    return with_output_seconds(packing, {"products": products}, machine)


def _of_gemv(shape: ConvolutionShape, schedule: GemvSchedule, machine: GpuMachine) -> Mapping[str, float]:
    packing = GemvPacking(shape, schedule)
    return with_output_seconds(packing, {"products": gemv_seconds(packing, machine)}, machine)


def _of_products(packing: Callable[[ConvolutionShape, Any], ProductPacking]) -> _StageSeconds:
    """Those of separate kernels, which pass each other what is packed so."""
    return lambda shape, schedule, machine: gemm_seconds(packing(shape, schedule), machine)


_SPLIT_SECONDS = _with_filters(_of_products(SplitPacking), split_filter_seconds)
STAGE_SECONDS: Mapping[type[GpuSchedule], _StageSeconds] = MappingProxyType(
    {
        GpuDepthwiseSchedule: columns_seconds,
        DepthwiseBlockSchedule: block_seconds,
        DepthwiseStripSchedule: strip_seconds,
        DepthwiseToeplitzSchedule: toeplitz_seconds,
        GroupedBlockSchedule: block_seconds,
        GroupedSchedule: columns_seconds,
        GroupedRingSchedule: grouped_ring_seconds,
        MultiplyAddWeightGradientSchedule: weight_gradient_seconds,
        MatrixWeightGradientSchedule: weight_gradient_seconds,
        HalfWeightGradientSchedule: weight_gradient_seconds,
        FusedSchedule: _with_filters(fused_seconds, filter_seconds),
        ImplicitGemmSchedule: _with_filters(implicit_gemm_seconds, split_filter_seconds),
        StreamedSchedule: _with_filters(streamed_seconds, split_filter_seconds),
        GemmSchedule: _with_filters(_of_products(MultiplyAddPacking), filter_seconds),
        MfmaGemmSchedule: _with_filters(_of_products(MultiplyAddPacking), filter_seconds),
        GemvSchedule: _with_filters(_of_gemv, filter_seconds),
        SplitSchedule: _SPLIT_SECONDS,
        CooperativeSchedule: _SPLIT_SECONDS,
        MfmaSchedule: _SPLIT_SECONDS,
        WmmaSchedule: _SPLIT_SECONDS,
        WmmaRdna4Schedule: _SPLIT_SECONDS,
        WarpgroupSchedule: _with_filters(_of_warpgroups, split_filter_seconds),
    }
)
"""What the kernels of each class of schedules are predicted to take."""
