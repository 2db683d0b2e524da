"""How many digits of a number matter to what a program makes of it."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.values.half_precision import half_type
from iree.winograd.passes.match.values.number_range import number_range

ALL_DIGITS = 24
"""Those of f32."""
_HALF_DIGITS = {"f16": 11, "bf16": 8}
_KEEPING_ERRORS = ("arith.divf", "arith.negf")
"""Operations whose results have relative errors no larger than those of their operands together."""


def kept_digits(number: ir.Value) -> int:
    """The most digits that are kept of anything that is made of a number, all of which is rounded to these.

    A relative error of the number is one as large of all that, as it only goes through products, quotients
    and sums with what has the same sign: `ALL_DIGITS` where it doesn't, or where something isn't rounded.
    """
    users = [use.owner.operation for use in number.uses]
    return max((_kept_by(user, number) for user in users), default=ALL_DIGITS)


def _kept_by(user: ir.Operation, number: ir.Value) -> int:
    if user.name == "arith.truncf":
        half = half_type(user.results[0])
        return ALL_DIGITS if half is None else _HALF_DIGITS[str(half)]
    operands = list(user.operands)
    if user.name in _KEEPING_ERRORS or (user.name == "arith.mulf" and operands.count(number) == 1):
        return kept_digits(user.results[0])
    if user.name == "arith.addf" and all(number_range(operand)[0] >= 0 for operand in operands):
        return kept_digits(user.results[0])
    return ALL_DIGITS
