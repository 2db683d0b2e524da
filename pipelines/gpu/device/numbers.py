"""What kernels for GPUs compute in other ways than those for processors."""

from __future__ import annotations

from collections.abc import Mapping

from iree.winograd.pipelines.emission.functions import error_function
from iree.winograd.pipelines.emission.numbers.known import NUMBERS, Numbers
from iree.winograd.pipelines.emission.numbers.number import Function, Number


class DeviceSinglePrecision(Number):
    """Single precision of GPUs, whose exponential is an instruction.

    Of their error function IREE makes 21 selections for each number: GELU took a third of the time of a
    pointwise layer.
    """

    def functions(self, fused_multiply_add: bool) -> Mapping[str, Function]:
        return {"math.erf": lambda value: error_function(value, fused_multiply_add)}


DEVICE_NUMBERS: Numbers = {**NUMBERS, "f32": DeviceSinglePrecision("f32")}
