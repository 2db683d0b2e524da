"""Workgroups that count themselves in memory, and wait for others by it.

x86 keeps the order of loads, and that of stores; what the compiler must not move is what is told here.
"""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir, memref, scf
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import named
from iree.winograd.pipelines.emission.index import Index


def emit_wait(count: Buffer, number: Index) -> None:
    """Emits a loop that ends when the first element of `count` is at least `number`."""
    with named("awaited"):
        awaited = arith.index_cast(count.element, number.value)
    wait = scf.WhileOp([], [])
    with ir.InsertionPoint(wait.before.blocks.append()):
        with named("arrived"):
            arrived = count.load_scalar(0)
        scf.condition(arith.cmpi(arith.CmpIPredicate.slt, arrived, awaited), [])
    with ir.InsertionPoint(wait.after.blocks.append()):
        _order_memory("pause")
        scf.yield_([])
    _order_memory("")


def emit_arrival(count: Buffer) -> None:
    """Emits the addition of one to the first element of `count`, after all that was written before."""
    one = arith.constant(count.element, 1)
    memref.atomic_rmw(arith.AtomicRMWKind.addi, one, count.memref, [Index(0).value])


def _order_memory(instruction: str) -> None:
    """Emits an instruction, or none, that the compiler moves no access to memory across."""
    ir.Operation.create(
        "llvm.inline_asm",
        attributes={
            "asm_string": ir.StringAttr.get(instruction),
            "constraints": ir.StringAttr.get("~{memory},~{dirflag},~{fpsr},~{flags}"),
            "has_side_effects": ir.UnitAttr.get(),
        },
    )
