"""Numbers of half precision: f16 and bf16."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir

KEEPING_HALF = frozenset(
    (
        "arith.maximumf",
        "arith.minimumf",
        "arith.maxnumf",
        "arith.minnumf",
        "arith.negf",
        "arith.select",
        "math.absf",
        "math.ceil",
        "math.copysign",
        "math.floor",
        "math.round",
        "math.roundeven",
        "math.trunc",
        "tensor.extract",
    )
)
"""Operations that give numbers of half precision for such, in f32 as in the type itself."""


def half_type(value: ir.Value) -> ir.Type | None:
    """The type, f16 or bf16, that a number or the elements of a tensor have; None for any other value."""
    type_ = value.type
    if isinstance(type_, ir.RankedTensorType):
        type_ = type_.element_type
    return type_ if isinstance(type_, ir.F16Type | ir.BF16Type) else None


def has_half(operation: ir.Operation) -> bool:
    """Whether it reads or gives numbers of half precision."""
    return any(half_type(value) is not None for value in (*operation.operands, *operation.results))


def single_of(type_: ir.Type) -> ir.Type:
    """The type in which f32 takes the place of f16 or bf16."""
    if isinstance(type_, ir.RankedTensorType):
        return ir.RankedTensorType.get(list(type_.shape), ir.F32Type.get(), type_.encoding)
    return ir.F32Type.get()
