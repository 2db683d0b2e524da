"""Where LLVM may not move instructions to, in kernels for CUDA and for AMD's GPUs through HIP.

It loads all that the steps of an unrolled loop take before the first of them, and computes values behind
branches around what uses them, until registers are spilled.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import ir, llvm, vector
from iree.winograd.pipelines.gpu.device.memory import QUAD

_VECTOR_REGISTER = "v"
"""AMD's, of which an operand may take several."""


def keep_in_order() -> None:
    """Has the compiler move no instruction past this place."""
    nothing = ir.Attribute.parse("#rocdl.sched_group_mask<none>")
    ir.Operation.create("amdgpu.sched_barrier", attributes={"opts": nothing})


def computed_here(quads: Sequence[ir.Value], register: str) -> list[ir.Value]:
    """The quads of floats, which the compiler computes before this place, each in `register`s of LLVM's name.

    Otherwise it moves what computes them into branches that alone use them, and keeps all operands.
    """
    return [_computed_here(quad, register) for quad in quads]


def _computed_here(quad: ir.Value, register: str) -> ir.Value:
    if register == _VECTOR_REGISTER:
        return llvm.inline_asm(quad.type, [quad], "", f"={register},0", has_side_effects=True)
    element = ir.VectorType(quad.type).element_type
    scalars = [vector.extract(quad, [], [i]) for i in range(QUAD)]
    struct = ir.Type.parse(f"!llvm.struct<({', '.join([str(element)] * QUAD)})>")
    constraints = ",".join([*[f"={register}"] * QUAD, *map(str, range(QUAD))])
    same = llvm.inline_asm(struct, scalars, "", constraints, has_side_effects=True)
    return vector.from_elements(quad.type, [llvm.extractvalue(element, same, [i]) for i in range(QUAD)])
