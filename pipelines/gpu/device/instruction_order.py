"""Where LLVM may not move instructions to, in kernels for AMD's GPUs through HIP.

It loads all that the steps of an unrolled loop take before the first of them, until registers are spilled.
"""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir, llvm


def keep_in_order() -> None:
    """Has the compiler move no instruction past this place."""
    nothing = ir.Attribute.parse("#rocdl.sched_group_mask<none>")
    ir.Operation.create("amdgpu.sched_barrier", attributes={"opts": nothing})


def computed_here(value: ir.Value) -> ir.Value:
    """The value, a vector of at most 16 bytes, which the compiler computes before this place.

    Otherwise it moves what computes it into a branch that alone uses it, and keeps all operands until then.
    """
    same = "=v,0"
    return llvm.inline_asm(value.type, [value], "", same, has_side_effects=True)
