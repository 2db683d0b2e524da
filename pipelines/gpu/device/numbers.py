"""What kernels for GPUs compute in other ways than those for processors."""

from __future__ import annotations

from collections.abc import Mapping

from iree.winograd.dialect.bindings import arith, ir, llvm, vector
from iree.winograd.pipelines.emission.functions import (
    LOG2_E,
    error_exponent,
    error_function,
    exponential,
)
from iree.winograd.pipelines.emission.numbers.known import NUMBERS, Numbers
from iree.winograd.pipelines.emission.numbers.number import Function, Number
from iree.winograd.pipelines.emission.vectors import constant_like

from .exponential import power_of_two
from .memory import lane, quad_of
from .target import GpuTarget

_SHORT_DIGITS = 11
"""Those of f16: of so many or fewer the exponential is an instruction."""


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
            "math.exp": lambda value, digits: (
                short_exponential(value)
                if digits <= _SHORT_DIGITS
                else exponential(value, fused_multiply_add, digits=digits)
            ),
            "math.erf": lambda value, digits: error_function(value, fused_multiply_add, plain_quotient),
            "arith.divf": lambda dividend, divisor, digits: quotient(dividend, divisor),
        }

    def one_and_error(self, value: ir.Value, digits: int) -> ir.Value | None:
        """By two instructions and eight products; a quotient of polynomials has three times as many."""
        if digits > _SHORT_DIGITS:
            return None
        half = constant_like(value, 0.5)
        halved = vector.fma(_powers_of_two(error_exponent(value, digits)), half, half)
        return _by_lanes("rcp.approx.ftz.f32 $0, $1;", halved)

    def reciprocal(self, value: ir.Value, digits: int, least: float) -> ir.Value:
        """Within a unit of the last place, zero below 2^-126 (PTX ISA, `rcp.approx.ftz`).

        One instruction, where `div.full` takes eight for exponents of all sizes: of SiLU a third of all.
        """
        if least < 1:
            return quotient(constant_like(value, 1.0), value)
        return _by_lanes("rcp.approx.ftz.f32 $0, $1;", value)


DEVICE_NUMBERS: Numbers = {**NUMBERS, "f32": DeviceSinglePrecision("f32")}
CUDA_NUMBERS: Numbers = {**NUMBERS, "f32": CudaSinglePrecision("f32")}


def numbers_for(target: GpuTarget) -> Numbers:
    """Those of epilogues in kernels for a target."""
    return CUDA_NUMBERS if target.takes_ptx else DEVICE_NUMBERS


def short_exponential(value: ir.Value) -> ir.Value:
    """e to the power of each lane of a vector of f32, to a relative error of 2^-17; zero below 2^-126.

    Two instructions, where polynomials take 12. An exponent below 128 is off by half a unit of its last
    place, 2^-18, and by what log2(e) is rounded by, less than 2^-19: ln 2 times as much of the result. The
    instruction adds 2^-22 (PTX ISA, `ex2.approx`).
    """
    return _powers_of_two(arith.mulf(value, constant_like(value, LOG2_E)))


def _powers_of_two(exponents: ir.Value) -> ir.Value:
    """Two to the power of each lane, by the instruction."""
    lanes = ir.VectorType(exponents.type).shape[0]
    return quad_of([power_of_two(lane(exponents, i)) for i in range(lanes)])


def quotient(dividend: ir.Value, divisor: ir.Value) -> ir.Value:
    """Of vectors of f32, within two units of the last place, whatever the exponents (PTX ISA, `div.full`)."""
    return _by_lanes("div.full.f32 $0, $1, $2;", dividend, divisor)


def plain_quotient(dividend: ir.Value, divisor: ir.Value) -> ir.Value:
    """The same by two instructions where divisors are from 2^-126 to 2^126; zero below 2^-126."""
    return _by_lanes("div.approx.ftz.f32 $0, $1, $2;", dividend, divisor)


def _by_lanes(instruction: str, *operands: ir.Value) -> ir.Value:
    """An instruction of scalars of f32, of each lane of vectors."""
    registers = ",".join(["=f", *("f" for _ in operands)])
    element = ir.F32Type.get()
    lanes = range(ir.VectorType(operands[0].type).shape[0])
    return quad_of(
        [
            llvm.inline_asm(element, [lane(each, i) for each in operands], instruction, registers)
            for i in lanes
        ]
    )
