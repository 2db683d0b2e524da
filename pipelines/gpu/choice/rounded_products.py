"""In which type a schedule multiplies numbers that are rounded."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from iree.winograd.pipelines.emission.numbers.bf16 import BF16
from iree.winograd.pipelines.gpu.schedules.matrix import ROUNDED_PRODUCTS, MatrixSchedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape

Rounding = TypeVar("Rounding", bound=MatrixSchedule)


def multiplying_bf16(schedule: Rounding, shape: ConvolutionShape) -> Rounding:
    """The schedule as it is, or of rounded numbers the one that multiplies a convolution's bf16 as it is."""
    return multiplying_as_is(schedule, shape) if shape.exact_type == BF16.name else schedule


def multiplying_as_is(schedule: Rounding, shape: ConvolutionShape) -> Rounding:
    """The schedule as it is, or of rounded numbers the one that multiplies a convolution's without scales."""
    is_exact = shape.exact_type is not None and shape.transform_size == 1
    if not is_exact or schedule.products != ROUNDED_PRODUCTS or not schedule.unit.multiplies_bf16:
        return schedule
    return replace(schedule, multiplied_type=shape.exact_type)
