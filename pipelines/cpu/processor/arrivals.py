"""Workgroups that count themselves in memory, and wait for others by it.

x86 keeps the order of loads, and that of stores; what the compiler must not move is what is told here.
"""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir, memref, scf
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop, named, when
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.specification.chain import COUNT_ELEMENTS, LINE_ELEMENTS, PROCESSORS

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


def emit_taking(counts: Buffer, first: Index, threads: int, workgroups: int) -> Index:
    """Emits the choice of the workgroup that a thread does: of its processor's share, else of the next ones.

    Those of a share are neighbours. Kernels that divide an image alike have a processor read what it has
    written, which is in its caches. What is taken of a share is counted from element `first` of `counts` on.
    """
    index = first.value.type
    home = _own_share(counts, threads)
    zero = Index(0).value
    taking = scf.WhileOp([index, index], [zero])
    with ir.InsertionPoint(taking.before.blocks.append(index)) as point:
        tried = point.block.arguments[0]
        share = (home + Index(tried)) % threads
        begin, end = (share * workgroups) // threads, ((share + 1) * workgroups) // threads
        place = first + share * LINE_ELEMENTS
        before = arith.index_cast(index, counts.load_scalar(place))
        attempt = scf.IfOp((begin + Index(before)).less_than(end).value, [index], has_else=True)
        with ir.InsertionPoint(attempt.then_block):
            one = arith.constant(counts.element, 1)
            number = memref.atomic_rmw(arith.AtomicRMWKind.addi, one, counts.memref, [place.value])
            scf.yield_([(begin + Index(arith.index_cast(index, number))).value])
        with ir.InsertionPoint(attempt.else_block):
            scf.yield_([end.value])
        taken = Index(attempt.results[0])
        scf.condition(taken.at_least(end).value, [tried, taken.value])
    with ir.InsertionPoint(taking.after.blocks.append(index, index)) as point:
        _order_memory("")
        scf.yield_([(Index(point.block.arguments[0]) + 1).value])
    return Index(taking.results[1])


def _own_share(counts: Buffer, threads: int) -> Index:
    """Emits the looking up of the share that a processor has claimed, and before that its claim.

    It is that of its number, or the next that no other has: a process may have any processors of a machine,
    and more of them than threads, so that numbers alone give several the same, and some shares to nobody.
    """
    processor, index = _processor() % PROCESSORS, ir.IndexType.get()
    place = processor + COUNT_ELEMENTS
    claimed = Index(arith.index_cast(index, counts.load_scalar(place)))
    known = scf.IfOp(claimed.equals(0).value, [index], has_else=True)
    with ir.InsertionPoint(known.then_block):
        claiming = scf.WhileOp([index, index], [Index(0).value])
        with ir.InsertionPoint(claiming.before.blocks.append(index)) as point:
            tried = Index(point.block.arguments[0])
            share = (processor + tried) % threads
            one = arith.constant(counts.element, 1)
            owners = [(share + (COUNT_ELEMENTS + PROCESSORS)).value]
            before = memref.atomic_rmw(arith.AtomicRMWKind.addi, one, counts.memref, owners)
            is_taken = Index(arith.index_cast(index, before)).at_least(1)
            scf.condition((is_taken & tried.less_than(threads - 1)).value, [tried.value, share.value])
        with ir.InsertionPoint(claiming.after.blocks.append(index, index)) as point:
            scf.yield_([(Index(point.block.arguments[0]) + 1).value])
        own = Index(claiming.results[1])
        memref.store(arith.index_cast(counts.element, (own + 1).value), counts.memref, [place.value])
        scf.yield_([own.value])
    with ir.InsertionPoint(known.else_block):
        scf.yield_([(claimed - 1).value])
    return Index(known.results[0])


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


def _processor() -> Index:
    """Emits the reading of the number that the system has given to the processor; any other one would do."""
    integer = ir.IntegerType.get_signless(32)
    number = ir.Operation.create(
        "llvm.inline_asm",
        [integer],
        attributes={
            "asm_string": ir.StringAttr.get("rdtscp"),
            "constraints": ir.StringAttr.get("={ecx},~{eax},~{edx},~{dirflag},~{fpsr},~{flags}"),
            "has_side_effects": ir.UnitAttr.get(),
        },
    ).result
    # Bits from the 12th on are those of its part of the memory.
    low = arith.andi(number, arith.constant(integer, 0xFFF))
    return Index(arith.index_castui(ir.IndexType.get(), low))


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
