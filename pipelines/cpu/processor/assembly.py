"""Instructions that no operation stands for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iree.winograd.dialect.bindings import ir


def emit_assembly(
    text: str,
    constraints: Iterable[str],
    operands: Sequence[ir.Value] = (),
    result: ir.Type | None = None,
) -> ir.Operation:
    """Emits assembly, which stays where it is; `constraints` are LLVM's: result, operands and clobbers.

    Not by the bindings of LLVM's dialect, which every process that compiles would have to load.
    """
    return ir.Operation.create(
        "llvm.inline_asm",
        [] if result is None else [result],
        operands,
        attributes={
            "asm_string": ir.StringAttr.get(text),
            "constraints": ir.StringAttr.get(",".join(constraints)),
            "has_side_effects": ir.UnitAttr.get(),
        },
    )


def emit_loading(text: str, address: ir.Value, element: ir.Type, result: ir.Type) -> ir.Value:
    """Emits an instruction that reads an element of memory, `$1`, into `$0`, a vector register.

    It may move where loads may, and its address takes no instructions of its own.
    """
    attributes = {
        "asm_string": ir.StringAttr.get(text),
        "constraints": ir.StringAttr.get("=v,*m"),
        "operand_attrs": ir.ArrayAttr.get([ir.DictAttr.get({"elementtype": ir.TypeAttr.get(element)})]),
    }
    return ir.Operation.create("llvm.inline_asm", [result], [address], attributes=attributes).result
