"""What kernels for GPUs compute in other ways than those for processors."""

from __future__ import annotations

from collections.abc import Mapping

from iree.winograd.dialect.bindings import ir, llvm
from iree.winograd.pipelines.emission.functions import error_function, exponential
from iree.winograd.pipelines.emission.numbers.known import NUMBERS, Numbers
from iree.winograd.pipelines.emission.numbers.number import Function, Number

from .memory import lane, quad_of
from .target import GpuTarget


class DeviceSinglePrecision(Number):
    """Single precision of GPUs, whose exponential is an instruction.

    Of their error function IREE makes 21 selections for each number: GELU took a third of the time of a
    pointwise layer.
    """

    def functions(self, fused_multiply_add: bool) -> Mapping[str, Function]:
        return {"math.erf": lambda value, digits: error_function(value, fused_multiply_add)}


class CudaSinglePrecision(Number):
    """Single precision through CUDA, of which IREE expands the exponential to 35 instructions.

    Some of those have a sixteenth of the rate, and divisions branch: SiLU took as long as to read and write a
    pointwise layer's images.
    """

    def functions(self, fused_multiply_add: bool) -> Mapping[str, Function]:
        return {
            "math.exp": lambda value, digits: exponential(value, fused_multiply_add, digits=digits),
            "math.erf": lambda value, digits: error_function(value, fused_multiply_add, quotient),
            "arith.divf": lambda dividend, divisor, digits: quotient(dividend, divisor),
        }


DEVICE_NUMBERS: Numbers = {**NUMBERS, "f32": DeviceSinglePrecision("f32")}
CUDA_NUMBERS: Numbers = {**NUMBERS, "f32": CudaSinglePrecision("f32")}


def numbers_for(target: GpuTarget) -> Numbers:
    """Those of epilogues in kernels for a target."""
    return CUDA_NUMBERS if target.takes_ptx else DEVICE_NUMBERS


def quotient(dividend: ir.Value, divisor: ir.Value) -> ir.Value:
    """Of vectors of f32, within two units of the last place, whatever the exponents (PTX ISA, `div.full`)."""
    lanes = ir.VectorType(dividend.type).shape[0]
    return quad_of([_divided(lane(dividend, i), lane(divisor, i)) for i in range(lanes)])


def _divided(dividend: ir.Value, divisor: ir.Value) -> ir.Value:
    return llvm.inline_asm(dividend.type, [dividend, divisor], "div.full.f32 $0, $1, $2;", "=f,f,f")
