"""Exponentials as NVIDIA's GPUs have an instruction for them."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir, llvm


def power_of_two(exponent: ir.Value) -> ir.Value:
    """Two to the power of a scalar of f32, within two units of the last place; zero below 2^-126."""
    return llvm.inline_asm(exponent.type, [exponent], "ex2.approx.ftz.f32 $0, $1;", "=f,f")
