"""Workgroups that count themselves in memory, and wait for others by it.

x86 keeps the order of loads, and that of stores; what the compiler must not move is what is told here.
"""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir, memref, scf
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import named, when
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.specification.chain import LINE_ELEMENTS


def emit_wait(count: Buffer, number: Index) -> None:
    """Emits a loop that ends when workgroups up to `number` are done."""
    with named("awaited"):
        awaited = arith.index_cast(count.element, number.value)
    wait = scf.WhileOp([], [])
    with ir.InsertionPoint(wait.before.blocks.append()):
        with named("done"):
            done = count.load_scalar(LINE_ELEMENTS)
        scf.condition(arith.cmpi(arith.CmpIPredicate.slt, done, awaited), [])
    with ir.InsertionPoint(wait.after.blocks.append()):
        _order_memory("pause")
        scf.yield_([])
    _order_memory("")


def emit_arrival(count: Buffer, last: Index) -> None:
    """Emits the counting of a workgroup, after all that was written before.

    The one that makes the count `last` tells those that wait: who counts isn't held up by who looks.
    """
    one = arith.constant(count.element, 1)
    before = memref.atomic_rmw(arith.AtomicRMWKind.addi, one, count.memref, [Index(0).value])
    arrived = arith.addi(before, one)
    is_last = arith.cmpi(arith.CmpIPredicate.eq, arrived, arith.index_cast(count.element, last.value))
    when(
        Condition(is_last),
        then=lambda: memref.store(arrived, count.memref, [Index(LINE_ELEMENTS).value]),
    )


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
