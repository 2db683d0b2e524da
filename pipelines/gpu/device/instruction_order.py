"""Where LLVM may not move instructions to, in kernels for CUDA and for AMD's GPUs through HIP.

It loads all that the steps of an unrolled loop take before the first of them, and computes values behind
branches around what uses them, until registers are spilled.
"""

from __future__ import annotations

from collections.abc import Sequence

from iree.winograd.dialect.bindings import ir, llvm, vector
from iree.winograd.pipelines.emission.numbers.f32 import F32

_FLOAT_REGISTER = "f"
"""NVIDIA's, of LLVM's name."""
_VECTOR_REGISTER = "v"
"""AMD's, of which an operand may take several."""


def keep_in_order() -> None:
    """Has the compiler move no instruction past this place."""
    nothing = ir.Attribute.parse("#rocdl.sched_group_mask<none>")
    ir.Operation.create("amdgpu.sched_barrier", attributes={"opts": nothing})


def computed_here(quads: Sequence[ir.Value], register: str) -> list[ir.Value]:
    """Quads of floats, or parts of them, which the compiler computes before this place.

    Each is in `register`s of LLVM's name. Otherwise it moves what computes them into branches that alone use
    them, and keeps all operands.
    """
    return [_computed_here(quad, register) for quad in quads]


def _computed_here(quad: ir.Value, register: str) -> ir.Value:
    if register == _VECTOR_REGISTER:
        return llvm.inline_asm(quad.type, [quad], "", f"={register},0", has_side_effects=True)
    type_ = ir.VectorType(quad.type)
    element, width = type_.element_type, type_.shape[0]
    scalars = [vector.extract(quad, [], [i]) for i in range(width)]
    constraints = ",".join([*[f"={register}"] * width, *map(str, range(width))])
    if width == 1:
        same = [llvm.inline_asm(element, scalars, "", constraints, has_side_effects=True)]
    else:
        struct = ir.Type.parse(f"!llvm.struct<({', '.join([str(element)] * width)})>")
        of_all = llvm.inline_asm(struct, scalars, "", constraints, has_side_effects=True)
        same = [llvm.extractvalue(element, of_all, [i]) for i in range(width)]
    return vector.from_elements(quad.type, same)


def kept_here(quads: Sequence[ir.Value]) -> list[ir.Value]:
    """The same quads of a kernel for CUDA, loaded or computed by here.

    LLVM would move what computes them into the branches that alone use them.
    """
    return [
        computed_here([quad], _FLOAT_REGISTER)[0]
        if ir.VectorType(quad.type).element_type == F32.type
        else quad
        for quad in quads
    ]
