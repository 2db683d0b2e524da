"""Where LLVM may not move instructions to, in kernels for AMD's GPUs through HIP.

It loads all that the steps of an unrolled loop take before the first of them, until registers are spilled.
"""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir


def keep_in_order() -> None:
    """Has the compiler move no instruction past this place."""
    nothing = ir.Attribute.parse("#rocdl.sched_group_mask<none>")
    ir.Operation.create("amdgpu.sched_barrier", attributes={"opts": nothing})
