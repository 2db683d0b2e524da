"""Which kernel computes a convolution: its module is imported once it is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iree.winograd.passes.match.no_match import Reason
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.depthwise import DepthwiseSchedule, is_depthwise, shares_pixels
from iree.winograd.pipelines.cpu.schedules.depthwise_weight_gradient import DepthwiseWeightGradientSchedule
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule, in_lines
from iree.winograd.pipelines.cpu.schedules.fit import CpuSchedule, misfit
from iree.winograd.pipelines.cpu.schedules.matrix_unit import Bf16MatrixUnitSchedule, MatrixUnitSchedule
from iree.winograd.pipelines.cpu.schedules.weight_gradient import WeightGradientSchedule
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape, WeightGradientShape

if TYPE_CHECKING:
    from .depthwise_weight_gradient import DepthwiseWeightGradientKernel
    from .filters import CpuKernel
    from .weight_gradient import WeightGradientKernel

    CpuWeightGradientKernel = WeightGradientKernel | DepthwiseWeightGradientKernel


def kernel_misfit(shape: ConvolutionShape, target: CpuTarget, schedule: object) -> Reason | None:
    """Why the kernel that computes a convolution doesn't do so by `schedule`; None where it does."""
    suited = suited_schedules(shape, target)
    if not isinstance(schedule, suited):
        needed = " or a ".join(kind.__name__ for kind in suited)
        return f"{schedule} is no schedule for this convolution on a CPU, which needs a {needed}"
    reason = misfit(schedule, shape, target)
    return None if reason is None else f"{schedule} doesn't fit this convolution: {reason}"


def kernel_for(shape: ConvolutionShape, target: CpuTarget, schedule: object) -> CpuKernel:
    """The kernel that computes a convolution by `schedule`.

    Raises ValueError for the schedule of a kernel that doesn't compute it, or not by this schedule.
    """
    if reason := kernel_misfit(shape, target, schedule):
        raise ValueError(reason)
    if isinstance(schedule, WinogradSchedule):
        from .winograd import WinogradKernel

        return WinogradKernel(shape, schedule, target)
    if isinstance(schedule, DepthwiseSchedule):
        from .depthwise import DepthwiseKernel

        return DepthwiseKernel(shape, schedule, target)
    if isinstance(schedule, Bf16MatrixUnitSchedule):
        from .bf16_matrix_unit import Bf16MatrixUnitKernel

        return Bf16MatrixUnitKernel(in_lines(shape), schedule, target)
    if isinstance(schedule, MatrixUnitSchedule):
        from .matrix_unit import MatrixUnitKernel

        return MatrixUnitKernel(in_lines(shape), schedule, target)
    from .direct import DirectKernel

    assert isinstance(schedule, DirectSchedule)
    return DirectKernel(in_lines(shape), schedule, target)


def weight_gradient_kernel(
    shape: WeightGradientShape, target: CpuTarget, schedule: object
) -> CpuWeightGradientKernel:
    """The kernel that computes the gradient of a filter by `schedule`.

    Raises ValueError for the schedule of another kernel, and where this one doesn't do so by it.
    """
    if reason := kernel_misfit(shape, target, schedule):
        raise ValueError(reason)
    if isinstance(schedule, DepthwiseWeightGradientSchedule):
        from .depthwise_weight_gradient import DepthwiseWeightGradientKernel

        return DepthwiseWeightGradientKernel(shape, schedule, target)
    from .weight_gradient import WeightGradientKernel

    assert isinstance(schedule, WeightGradientSchedule)
    return WeightGradientKernel(shape, schedule, target)


def suited_schedules(shape: ConvolutionShape, target: CpuTarget) -> tuple[type[CpuSchedule], ...]:
    """The kinds of schedule, each of a kernel, for a convolution or the gradient of a filter."""
    if isinstance(shape, WeightGradientShape):
        return (DepthwiseWeightGradientSchedule if is_depthwise(shape, target) else WeightGradientSchedule,)
    if shape.transform_size > 1:
        return (WinogradSchedule,)
    if is_depthwise(shape, target):
        return (DepthwiseSchedule,)
    suited: list[type[CpuSchedule]] = [DirectSchedule]
    if target.has_matrix_unit and shape.groups == 1:
        suited += [MatrixUnitSchedule, Bf16MatrixUnitSchedule]
    if shares_pixels(shape, target):
        suited.append(DepthwiseSchedule)
    return tuple(suited)
