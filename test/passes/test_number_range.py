"""What bounds numbers of a program, from what they are computed by."""

from __future__ import annotations

from math import inf

import pytest
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.values.number_range import number_range

SIGMOID = """
    %negative = arith.negf %x : f32
    %exponential = math.exp %negative : f32
    %more = arith.addf %one, %exponential : f32
    %result = arith.divf %one, %more : f32"""
HARD_SIGMOID = """
    %moved = arith.addf %x, %three : f32
    %positive = arith.maximumf %moved, %zero : f32
    %bounded = arith.minimumf %positive, %six : f32
    %result = arith.divf %bounded, %six : f32"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (SIGMOID, (0, 1)),
        (HARD_SIGMOID, (0, 1)),
        ("%result = math.tanh %x : f32", (-1, 1)),
        ("%t = math.tanh %x : f32\n %result = arith.subf %one, %t : f32", (0, 2)),
        ("%t = math.tanh %x : f32\n %result = arith.mulf %t, %t : f32", (-1, 1)),
        # A third is rounded to more in some types.
        ("%t = math.tanh %x : f32\n %result = arith.divf %t, %three : f32", (-inf, inf)),
        # What may be zero, infinite or anything has no bounds, nor has what is computed of it.
        ("%t = math.tanh %x : f32\n %result = arith.divf %one, %t : f32", (-inf, inf)),
        ("%e = math.exp %x : f32\n %result = arith.subf %e, %e : f32", (-inf, inf)),
        ("%e = math.exp %x : f32\n %result = arith.mulf %e, %zero : f32", (-inf, inf)),
        ("%e = math.exp %x : f32\n %result = arith.divf %e, %e : f32", (-inf, inf)),
        ("%result = arith.mulf %x, %six : f32", (-inf, inf)),
    ],
)
def test_ranges_hold_all_that_arithmetic_gives(body: str, expected: tuple[float, float]) -> None:
    constants = "\n".join(
        f"%{name} = arith.constant {value} : f32"
        for name, value in {"zero": 0.0, "one": 1.0, "three": 3.0, "six": 6.0}.items()
    )
    text = f"func.func @f(%x: f32) -> f32 {{\n{constants}\n{body}\nfunc.return %result : f32 }}"
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        *_, end = module.body.operations[0].regions[0].blocks[0].operations
        assert number_range(end.operands[0]) == expected
