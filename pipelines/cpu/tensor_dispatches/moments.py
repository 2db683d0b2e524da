"""Moments of groups of channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iree.winograd.passes.match.no_match import Reason
from iree.winograd.passes.match.normalizations.image_sum import ImageSum
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.element_function import VectorFunction
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.problems.tensor_operations import MomentFactors, PartialMoments

from .dispatch import TensorDispatch

if TYPE_CHECKING:
    from iree.winograd.pipelines.cpu.kernels.group_moments import GroupMomentsKernel


def partial_moments(operation: PartialMoments, target: CpuTarget) -> TensorDispatch:
    kernel = _moments_of(operation.sums, target)
    return TensorDispatch(kernel, (operation.sums.source,), kernel.sizes, batch=1, element=F32.name)


def moment_factors(operation: MomentFactors, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.group_moments import GroupFactorsKernel

    finish = tuple(VectorFunction.of(each.regions[0].blocks[0]) for each in operation.sums.finishing)
    kernel = GroupFactorsKernel(_moments_of(operation.sums, target), finish, target)
    operands = (operation.partial, operation.weight, operation.bias)
    return TensorDispatch(kernel, operands, kernel.sizes, batch=1)


def _moments_of(sums: ImageSum, target: CpuTarget) -> GroupMomentsKernel:
    from iree.winograd.pipelines.cpu.kernels.group_moments import GroupMomentsKernel

    return GroupMomentsKernel(sums.extents, target)


def misfit_of_moments(operation: PartialMoments | MomentFactors, target: CpuTarget) -> Reason | None:
    from iree.winograd.pipelines.cpu.kernels.group_moments import moments_misfit

    return moments_misfit(operation.sums.extents, target)
