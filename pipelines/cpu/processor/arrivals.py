"""Workgroups that count themselves in memory, and wait for others by it.

x86 keeps the order of loads, and that of stores; what the compiler must not move is what is told here.
"""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir, memref, scf
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop, named, when
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.specification.chain import LINE_ELEMENTS

LINE_BYTES = 64
"""Of a cache line."""
LINES_PER_LOOK = 32
"""Cache lines that are fetched between two looks at a count: about as many as a core waits for at a time."""


@dataclass(frozen=True)
class Reading:
    """Bytes of a buffer of these, from `first` on, which are there before the wait is over."""

    buffer: Buffer
    first: Index
    count: int


def emit_wait(count: Buffer, number: Index, reading: Reading | None) -> None:
    """Emits a loop that ends when workgroups up to `number` are done, and fetches what is read then."""
    with named("awaited"):
        awaited = arith.index_cast(count.element, number.value)
    start = Index(0).value
    wait = scf.WhileOp([start.type], [start])
    with ir.InsertionPoint(wait.before.blocks.append(start.type)) as point:
        with named("done"):
            done = count.load_scalar(LINE_ELEMENTS)
        is_early = arith.cmpi(arith.CmpIPredicate.slt, done, awaited)
        scf.condition(is_early, [point.block.arguments[0]])
    with ir.InsertionPoint(wait.after.blocks.append(start.type)) as point:
        fetched = Index(point.block.arguments[0])
        if reading is not None:
            when(fetched.less_than(reading.count), then=lambda: _fetch(reading, fetched))
        _order_memory("pause")
        scf.yield_([(fetched + LINES_PER_LOOK * LINE_BYTES).value])
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


def _fetch(reading: Reading, position: Index) -> None:
    """Emits the fetching of `LINES_PER_LOOK` lines."""
    with loop(LINES_PER_LOOK * LINE_BYTES, LINE_BYTES, name="line") as line:
        reading.buffer.prefetch(reading.first + position + line, to_l2=True)


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
