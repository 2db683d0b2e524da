"""Workgroups that count themselves in memory, and wait for others by it.

x86 keeps the order of loads, and that of stores; what the compiler must not move is what is told here.
"""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir, memref, scf
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import named


def emit_wait(count: Buffer, first: ir.Value) -> None:
    """Emits a loop that ends when the count, its one element that is used, is at least the index `first`."""
    integer = ir.IntegerType.get_signless(32)
    with named("awaited"):
        awaited = arith.index_cast(integer, first)
    wait = scf.WhileOp([], [])
    with ir.InsertionPoint(wait.before.blocks.append()):
        arrived = count.load_scalar(0)
        is_early = arith.cmpi(arith.CmpIPredicate.slt, arrived, awaited)
        scf.condition(is_early, [])
    with ir.InsertionPoint(wait.after.blocks.append()):
        _order_memory("pause")
        scf.yield_([])
    _order_memory("")


def emit_arrival(count: Buffer) -> None:
    """Emits the addition of one to the count, after all that has been written."""
    integer = ir.IntegerType.get_signless(32)
    one = arith.constant(integer, 1)
    zero = arith.constant(ir.IndexType.get(), 0)
    memref.atomic_rmw(arith.AtomicRMWKind.addi, one, count.memref, [zero])


def _order_memory(instruction: str) -> None:
    """Emits an instruction that the compiler moves no access to memory across."""
    ir.Operation.create(
        "llvm.inline_asm",
        attributes={
            "asm_string": ir.StringAttr.get(instruction),
            "constraints": ir.StringAttr.get("~{memory},~{dirflag},~{fpsr},~{flags}"),
            "has_side_effects": ir.UnitAttr.get(),
        },
    )
