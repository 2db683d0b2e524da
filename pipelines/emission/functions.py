"""Functions on vectors of f32, in as few operations as their accuracy needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from iree.winograd.dialect.bindings import arith, ir, vector
from iree.winograd.passes.match.values.kept_digits import ALL_DIGITS

from .intrinsic import call_intrinsic
from .vectors import constant_like, multiply_add, splat, vector_type

LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.693359375
"""The first bits of ln 2, few enough for their multiples by an exponent to be exact."""
_LN2_LOW = math.log(2) - _LN2_HIGH
_ROUND = 1.5 * 2**23
"""Added to a f32 that is small beside it, it leaves the nearest integer in the last bits."""
_ROUND_BITS = 0x4B400000
_EXPONENT_BIAS = 127
_MANTISSA_BITS = 23
_EXPONENTIAL = (1.0, 1.0, 0.49999993, 0.16666521, 0.04166839, 0.00836872, 0.00138146)
"""Coefficients, of rising powers, for arguments within ln(2) / 2: a relative error of 3.1e-9, weighted least
squares towards the least maximum with the first two fixed."""
_SHORT_EXPONENTIALS = (
    (8, (0.99992806, 0.69326097, 0.24261113, 0.05517167)),
    (11, (0.9999993, 0.6931218, 0.24024744, 0.05591786, 0.0095701021)),
)
"""Digits that may be kept, and coefficients of two to the power of numbers within a half: relative errors of
7.5e-5 and 2.7e-6, weighted least squares towards the least maximum."""
_TABLE_BITS = 4
_TABLE_LENGTH = 1 << _TABLE_BITS
_TABLE_TERMS = (1.0001173, 0.69315)
"""Of two to the power of numbers within a half of a sixteenth: a relative error of 1.2e-4."""
_LOGITS = (
    (8, (2.2559762, 0.20804730, -0.0026520058, -0.00038616280, 0.000026976373)),
    (
        11,
        (
            2.2566499,
            0.20589216,
            -0.00072343801,
            -0.0011029294,
            0.00014996987,
            -9.2786087e-06,
            2.2826532e-07,
        ),
    ),
)
"""Digits that may be kept, and coefficients, of rising powers of the square, of the logit of half of one
and the error function, over the argument: weighted least squares towards the least maximum of what is said
there."""
_ESTIMATE = "llvm.x86.avx512.rcp14.ps.512"
_SHUFFLE = "llvm.x86.avx512.permvar.sf.512"
_MAX_ARGUMENT, _MIN_ARGUMENT = 89.0, -88.0
"""Beyond these the result is infinite, or zero."""
_MAX_FINITE_ARGUMENT = 88.0
_ERROR_NUMERATOR = (1.1283791, 0.19059333, 0.05276914, 0.0037725067, 0.00028483837, 2.0459747e-06)
_ERROR_DENOMINATOR = (1.0, 0.5022417, 0.11418245, 0.01498311, 0.0011638397, 3.8046957e-05)
"""Coefficients, of rising powers of the square, of the error function over its argument up to 3.925: a
relative error of 5.4e-8, weighted least squares towards the least maximum, then rounded to f32. All are
positive, so that nothing cancels."""
_MAX_ERROR = 4.0625
"""From 3.925 on the error function is 1, to f32's accuracy; from 4.04 on so is the quotient, or greater,
with and without fused multiply-add."""


def exponential(
    value: ir.Value,
    fused: bool,
    *,
    is_negative: bool = False,
    is_finite: bool = False,
    digits: int = ALL_DIGITS,
) -> ir.Value:
    """e to the power of each lane of a vector of f32, to within two units of the last place.

    Of half precision, where no more `digits` are kept, to a relative error of 2^-(digits + 5).

    Results below the normal numbers are zero, those from e^88.38 on infinite, or e^88 where they are to be
    `is_finite`; a NaN stays one. `fused` says whether the target has fused multiply-adds, `is_negative` that
    no lane is more than zero.

    The argument is n ln 2 + r with an integer n (Cody and Waite 1980); e^r is a polynomial, and 2^n is put
    together from its bits. Clamping, IREE's own expansion of `math.exp` takes a quarter longer. Of few digits
    the argument over ln 2 is n + f, of which no more than one in 2^16 is lost, and 2^f the polynomial.
    """
    width = ir.VectorType(value.type).shape[0]

    def constant(number: float) -> ir.Value:
        return splat(number, width, ir.F32Type.get())

    if not is_negative:
        largest = _MAX_FINITE_ARGUMENT if is_finite else _MAX_ARGUMENT
        value = _bounded(value, arith.CmpFPredicate.OGT, constant(largest))
    value = _bounded(value, arith.CmpFPredicate.OLT, constant(_MIN_ARGUMENT))
    shifted = multiply_add(value, constant(LOG2_E), constant(_ROUND), fused)
    for most_digits, coefficients in _SHORT_EXPONENTIALS:
        if digits <= most_digits:
            rest = arith.subf(constant(_ROUND), shifted)
            rest = multiply_add(value, constant(LOG2_E), rest, fused)
            power = _polynomial([constant(coefficient) for coefficient in coefficients], rest, fused)
            return arith.mulf(power, _power_of_two(shifted, width))
    exponent = arith.subf(shifted, constant(_ROUND))
    rest = multiply_add(exponent, constant(-_LN2_HIGH), value, fused)
    rest = multiply_add(exponent, constant(-_LN2_LOW), rest, fused)
    power = _polynomial([constant(coefficient) for coefficient in _EXPONENTIAL], rest, fused)
    return arith.mulf(power, _power_of_two(shifted, width))


def exponential_by_table(value: ir.Value) -> ir.Value:
    """`exponential` of 16 lanes with AVX-512 where no more than eight digits are kept.

    The argument over ln 2 is n + j / 16 + f: a shuffle finds 2^(j / 16), and two terms are enough for 2^f. It
    has four sums in place of four products, which Zen 4 multiplies none less for.
    """
    power, rest = _power_by_table(arith.mulf(value, constant_like(value, LOG2_E)), _TABLE_TERMS)
    return arith.mulf(power, rest)


def _power_by_table(value: ir.Value, terms: tuple[float, float]) -> tuple[ir.Value, ir.Value]:
    """Two factors of two to the power of each lane: of sixteenths, and of the rest, by two terms."""
    width = ir.VectorType(value.type).shape[0]
    value = _bounded(value, arith.CmpFPredicate.OGT, constant_like(value, _EXPONENT_BIAS + 1))
    value = _bounded(value, arith.CmpFPredicate.OLT, constant_like(value, _MIN_ARGUMENT * LOG2_E))
    # Sixteenths are its last bits.
    nearest = constant_like(value, _ROUND / _TABLE_LENGTH)
    shifted = arith.addf(value, nearest)
    rest = arith.subf(value, arith.subf(shifted, nearest))
    integers = vector_type(width, ir.IntegerType.get_signless(32))
    sixteenths = arith.bitcast(integers, shifted)
    found = call_intrinsic(_SHUFFLE, [_power_table(), sixteenths], [value.type]).result
    exponent = arith.shli(sixteenths, _integers(_MANTISSA_BITS - _TABLE_BITS, width))
    power = arith.bitcast(value.type, arith.addi(arith.bitcast(integers, found), exponent))
    return power, vector.fma(rest, constant_like(value, terms[1]), constant_like(value, terms[0]))


def one_and_error_by_table(value: ir.Value) -> ir.Value:
    """One and the error function of each of 16 lanes, with AVX-512, where no more than eight digits are kept.

    It is 2 / (1 + e^-L), with a logit L that is a number times a polynomial in its square. So what is left of
    one keeps digits, too: a relative error of 2^-12, or 2^-21 of one.
    """
    exponent = error_exponent(value, 8)
    power, rest = _power_by_table(exponent, (_TABLE_TERMS[0] / 2, _TABLE_TERMS[1] / 2))
    return estimated_reciprocal(vector.fma(power, rest, constant_like(value, 0.5)))


def error_exponent(value: ir.Value, digits: int) -> ir.Value:
    """The exponent e of which one and the error function of each lane is 2 / (1 + 2^e), for 8 or 11 digits.

    A relative error of that of 2^-12 for eight, or 2^-21 of one; of 2^-15.8 for eleven, or 2^-26 of one.
    """
    square = arith.mulf(value, value)
    logit = next(coefficients for most, coefficients in _LOGITS if digits <= most)
    terms = [constant_like(value, -LOG2_E * each) for each in logit]
    return arith.mulf(value, _polynomial(terms, square, fused=True))


def estimated_reciprocal(value: ir.Value) -> ir.Value:
    """One over each of 16 lanes, with AVX-512, to a relative error of 2^-14."""
    lanes = arith.constant(ir.IntegerType.get_signless(_TABLE_LENGTH), -1)
    return call_intrinsic(_ESTIMATE, [value, constant_like(value, 0.0), lanes], [value.type]).result


def _power_table() -> ir.Value:
    """Two to the power of sixteenths, without what their numbers are where exponents lie."""
    powers = 2.0 ** (np.arange(_TABLE_LENGTH) / _TABLE_LENGTH)
    bits = powers.astype(np.float32).view(np.int32)
    bits = bits - (np.arange(_TABLE_LENGTH, dtype=np.int32) << (_MANTISSA_BITS - _TABLE_BITS))
    element = ir.F32Type.get()
    type_ = vector_type(_TABLE_LENGTH, element)
    lanes = [ir.FloatAttr.get(element, float(number)) for number in bits.view(np.float32)]
    return arith.constant(type_, ir.DenseElementsAttr.get(lanes, type_))


def quotient(dividend: ir.Value, divisor: ir.Value) -> ir.Value:
    """Of vectors of f32, to within two units of the last place where the divisor is finite and at least 1.

    By the processor's estimate of a reciprocal and a step of Newton's where it has one: of 16 lanes a
    division takes as long as 16 multiplications.
    """
    return arith.divf(dividend, divisor, fastmath=arith.FastMathFlags.arcp)


def negative_power_of_two(value: ir.Value, fused: bool) -> ir.Value:
    """Two to the power of each lane of a vector of f32, of which none is more than zero, as `exponential`.

    The argument is the sum of an integer and a rest, which is exact.
    """
    width = ir.VectorType(value.type).shape[0]

    def constant(number: float) -> ir.Value:
        return splat(number, width, ir.F32Type.get())

    value = _bounded(value, arith.CmpFPredicate.OLT, constant(-_EXPONENT_BIAS))
    shifted = arith.addf(value, constant(_ROUND))
    rest = arith.subf(value, arith.subf(shifted, constant(_ROUND)))
    coefficients = [
        constant(coefficient * math.log(2) ** power) for power, coefficient in enumerate(_EXPONENTIAL)
    ]
    return arith.mulf(_polynomial(coefficients, rest, fused), _power_of_two(shifted, width))


def error_function(
    value: ir.Value, fused: bool, divide: Callable[[ir.Value, ir.Value], ir.Value] = arith.divf
) -> ir.Value:
    """The error function of each lane of a vector of f32, to a relative error of 2^-21; a NaN stays one.

    2^-20 where it is told to `divide` within two units of the last place; then numbers have to be `fused`.

    A quotient of polynomials in the square of the argument. Each polynomial rounds by two units at most, as
    its terms are positive, coefficients, square, product and quotient by less than four together. IREE's own
    expansion of `math.erf`, which has an interval after another, takes twice as long.

    No result is beyond 1, and from `_MAX_ERROR` on it is 1: GELU multiplies what is left of 1 by its
    argument, and has to give 0 for large negative numbers. There the quotient is 3.7 units above 1, and
    grows with the argument, since its square doesn't.
    """
    width = ir.VectorType(value.type).shape[0]

    def constant(number: float) -> ir.Value:
        return splat(number, width, ir.F32Type.get())

    square = _bounded(arith.mulf(value, value), arith.CmpFPredicate.OGT, constant(_MAX_ERROR**2))
    numerator, denominator = (
        _polynomial([constant(coefficient) for coefficient in coefficients], square, fused)
        for coefficients in (_ERROR_NUMERATOR, _ERROR_DENOMINATOR)
    )
    quotient = divide(arith.mulf(value, numerator), denominator)
    quotient = _bounded(quotient, arith.CmpFPredicate.OGT, constant(1.0))
    return _bounded(quotient, arith.CmpFPredicate.OLT, constant(-1.0))


def _polynomial(coefficients: Sequence[ir.Value], variable: ir.Value, fused: bool) -> ir.Value:
    """The sum of coefficients of rising powers of a variable times these (Horner)."""
    *lower, result = coefficients
    for coefficient in reversed(lower):
        result = multiply_add(result, variable, coefficient, fused)
    return result


def _bounded(value: ir.Value, beyond: arith.CmpFPredicate, bound: ir.Value) -> ir.Value:
    """`bound` where `value` lies beyond it; a NaN doesn't."""
    return arith.select(arith.cmpf(beyond, value, bound), bound, value)


def _power_of_two(shifted: ir.Value, width: int) -> ir.Value:
    """Two to the integer in the last bits of what `_ROUND` was added to."""
    integer = ir.IntegerType.get_signless(32)
    bits = arith.bitcast(vector_type(width, integer), shifted)
    biased = arith.addi(bits, _integers(_EXPONENT_BIAS - _ROUND_BITS, width))
    return arith.bitcast(
        vector_type(width, ir.F32Type.get()), arith.shli(biased, _integers(_MANTISSA_BITS, width))
    )


def _integers(number: int, width: int) -> ir.Value:
    type_ = vector_type(width, ir.IntegerType.get_signless(32))
    return arith.constant(
        type_, ir.DenseElementsAttr.get_splat(type_, ir.IntegerAttr.get(type_.element_type, number))
    )
