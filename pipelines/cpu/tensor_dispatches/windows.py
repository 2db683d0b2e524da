"""Maxima and sums of windows."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from iree.winograd.passes.match.no_match import Reason
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.element_function import VectorFunction
from iree.winograd.pipelines.problems.tensor_operations import MaxPooling, WindowSums
from iree.winograd.pipelines.problems.windows import MOST_WRITTEN_OUT

from .dispatch import TensorDispatch
from .image_sizes import image_sizes, shape_like

if TYPE_CHECKING:
    from .dispatch import TensorKernel


def max_pooling(operation: MaxPooling, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.pooling import PoolingKernel

    kernel = PoolingKernel(operation.windows, target)
    return replace(_of_windows(operation, kernel), touching=kernel)


def window_sums(operation: WindowSums, target: CpuTarget) -> TensorDispatch:
    from iree.winograd.pipelines.cpu.kernels.window_sums import WindowSumsKernel

    finish = tuple(VectorFunction.of(each.regions[0].blocks[0]) for each in operation.finishing.operations)
    return _of_windows(operation, WindowSumsKernel(operation.windows, target, finish))


def _of_windows(operation: MaxPooling | WindowSums, kernel: TensorKernel) -> TensorDispatch:
    extents, (read, written) = image_sizes(operation.image, operation.like)
    sizes = shape_like(operation.image, operation.like)
    return TensorDispatch(kernel, (operation.image,), sizes, extents=extents, dynamic=(read, written))


def misfit_of_maxima(operation: MaxPooling, target: CpuTarget) -> Reason | None:
    one = len(operation.windows.size) == 1
    return "a row of windows is for one workgroup, and an image of one dimension one row" if one else None


def misfit_of_windows(operation: WindowSums, target: CpuTarget) -> Reason | None:
    windows = operation.windows
    if None not in (*windows.extents, *windows.outputs):
        return "IREE's loops over windows of known sizes are vectors of channels on CPUs"
    if prod(windows.size) > MOST_WRITTEN_OUT:
        return f"windows of {prod(windows.size)} elements aren't written out"
    return None
