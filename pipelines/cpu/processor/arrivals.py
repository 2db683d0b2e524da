"""Workgroups that say in memory that they are done, and wait for others by it."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import arith, ir, memref, scf
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop, loop_carried, named, when
from iree.winograd.pipelines.emission.index import Condition, Index, select_index
from iree.winograd.pipelines.problems.cache_line import CACHE_LINE_BYTES
from iree.winograd.pipelines.problems.chain import (
    ARRIVED,
    CACHE_LINE_COUNTS,
    DONE_SHARES,
    FINISHED,
    PROCESSORS,
    TAKEN,
    claim_element,
    first_kernel_element,
    kernel_elements,
    progress_element,
)

from .instruction_set import InstructionSet
from .target import CpuTarget

LINES_PER_LOOK = 32
"""Cache lines that are fetched between two looks at a count: about as many as a core waits for at a time."""
_LOOK_BYTES = LINES_PER_LOOK * CACHE_LINE_BYTES
PATIENT_LOOKS = 256
"""Looks, some 5 to 15 us, after which a thread lets others run between them: one that is waited for may be
without a core, which a neighbour has, or this thread."""


@dataclass(frozen=True)
class Reading:
    """Bytes of a buffer of these, from `first` on, which are there before the wait is over."""

    buffer: Buffer
    first: Index
    count: int


@dataclass(frozen=True)
class Workgroup:
    """The `number` of a workgroup that a thread does, and the share that it is of."""

    number: Index
    share: Index


@dataclass(frozen=True)
class Arrivals:
    """The workgroups of kernel number `kernel` of a chain, of which `threads` have a share each.

    `counts` is the memory of `problems/chain.py`. A share is done kernel by kernel: its part of one
    begins when it is done with the one before.

    Accesses are ordered before a workgroup is counted, between what tells of all kernels and of a share, and
    after a wait. Counting is atomic: it releases what its thread wrote, and acquires what others released.
    """

    counts: Buffer
    kernel: Index
    threads: int
    workgroups: Index
    target: CpuTarget

    def emit_taking(self) -> Workgroup:
        """Emits the choice of the workgroup that a thread does: of its processor's share, else of the next
        ones.

        Those of a share are neighbours. Kernels that divide an image alike have a processor read what it has
        written, which is in its caches.
        """
        index = ir.IndexType.get()
        home = self._own_share()
        taking = scf.WhileOp([index, index, index], [Index(0).value])
        with ir.InsertionPoint(taking.before.blocks.append(index)) as point:
            tried = point.block.arguments[0]
            share = (home + Index(tried)) % self.threads
            begin, end = self._begin(share), self._begin(share + 1)
            place = self._line(share) + TAKEN
            before = self._load(place)
            attempt = scf.IfOp((begin + before).less_than(end).value, [index], has_else=True)
            with ir.InsertionPoint(attempt.then_block):
                scf.yield_([(begin + self._add_one(place)).value])
            with ir.InsertionPoint(attempt.else_block):
                scf.yield_([end.value])
            taken = Index(attempt.results[0])
            scf.condition(taken.at_least(end).value, [tried, taken.value, share.value])
        with ir.InsertionPoint(taking.after.blocks.append(index, index, index)) as point:
            self._instructions.emit_ordering()
            scf.yield_([(Index(point.block.arguments[0]) + 1).value])
        return Workgroup(*map(Index, taking.results[1:]))

    def emit_wait(self, workgroup: Workgroup, reach: Index, reading: Reading | None) -> None:
        """Emits the wait until what a workgroup reads is there, and what it overwrites is read.

        That is so when the share of the workgroup and `reach` others before and after it are done with the
        kernel before, and all are with those before that; of a negative reach when all are done with all of
        these. Meanwhile `reading` is fetched.
        """
        finished = select_index(reach.at_least(0), self.kernel - 1, self.kernel)
        fetched = self._emit_wait(Index(FINISHED), finished, reading, Index(0))
        # Of a negative reach there are none.
        first = (workgroup.share - reach).maximum(0)
        count = (workgroup.share + reach + 1).minimum(self.threads) - first

        def wait_for(number: Index, fetched: list[ir.Value]) -> list[ir.Value]:
            place = self._progress(first + number)
            return [self._emit_wait(place, self.kernel, reading, Index(fetched[0])).value]

        loop_carried(count, 1, [fetched.value], wait_for, "neighbour")
        self._instructions.emit_ordering()

    def _emit_wait(self, place: Index, kernels: Index, reading: Reading | None, fetched: Index) -> Index:
        """Emits a loop that ends when an element is `kernels` or more; gives how far `reading` is fetched.

        Where programs are for Linux, waiting threads yield at last.
        """
        with named("awaited"):
            awaited = arith.index_cast(self.counts.element, kernels.value)
        index = ir.IndexType.get()
        wait = scf.WhileOp([index], [fetched.value])
        with ir.InsertionPoint(wait.before.blocks.append(index)) as point:
            with named("done"):
                done = self.counts.load_scalar(place)
            is_early = arith.cmpi(arith.CmpIPredicate.slt, done, awaited)
            scf.condition(is_early, [point.block.arguments[0]])
        with ir.InsertionPoint(wait.after.blocks.append(index)) as point:
            position = Index(point.block.arguments[0])
            if reading is not None:
                when(position.less_than(reading.count), then=lambda: _fetch(reading, position))
            when(
                Condition(self.target.runs_linux) & position.at_least(PATIENT_LOOKS * _LOOK_BYTES),
                then=self._instructions.emit_yield,
                otherwise=self._instructions.emit_pause,
            )
            scf.yield_([(position + _LOOK_BYTES).value])
        return Index(wait.results[0])

    def emit_arrival(self, workgroup: Workgroup) -> None:
        """Emits the counting of a workgroup, after all that was written before.

        The last one of a share tells those that wait: who counts isn't held up by who looks. A kernel of
        fewer workgroups than shares is done as a whole, after a negative reach.
        """
        self._instructions.emit_ordering()
        when(
            self.workgroups.less_than(self.threads),
            then=self._count_whole,
            otherwise=lambda: self._count_share(workgroup.share),
        )

    def _count_whole(self) -> None:
        is_last = self._add_one(self._line(Index(0)) + ARRIVED).equals(self.workgroups - 1)
        when(is_last, then=self._finish_all)

    def _count_share(self, share: Index) -> None:
        size = self._begin(share + 1) - self._begin(share)
        is_last = self._add_one(self._line(share) + ARRIVED).equals(size - 1)
        when(is_last, then=lambda: self._finish(share))

    def _finish(self, share: Index) -> None:
        """Emits that a share is done: after all are, if it is the last, so that numbers only grow."""
        is_last = self._add_one(self._line(Index(0)) + DONE_SHARES).equals(self.threads - 1)
        when(is_last, then=lambda: self._store(Index(FINISHED), self.kernel + 1))
        self._instructions.emit_ordering()
        self._store(self._progress(share), self.kernel + 1)

    def _finish_all(self) -> None:
        self._store(Index(FINISHED), self.kernel + 1)
        self._instructions.emit_ordering()
        with loop(self.threads, name="share") as share:
            self._store(self._progress(share), self.kernel + 1)

    @property
    def _instructions(self) -> InstructionSet:
        return self.target.instruction_set

    def _begin(self, share: Index) -> Index:
        """The first workgroup of a share."""
        return (share * self.workgroups) // self.threads

    def _progress(self, share: Index) -> Index:
        """The element that says of how many kernels a share is done."""
        return share * CACHE_LINE_COUNTS + progress_element(0)

    def _line(self, share: Index) -> Index:
        """The first element of this kernel's line for a share."""
        first = self.kernel * kernel_elements(self.threads) + first_kernel_element(self.threads)
        return first + share * CACHE_LINE_COUNTS

    def _load(self, place: Index) -> Index:
        return Index(arith.index_cast(ir.IndexType.get(), self.counts.load_scalar(place)))

    def _store(self, place: Index, number: Index) -> None:
        memref.store(arith.index_cast(self.counts.element, number.value), self.counts.memref, [place.value])

    def _add_one(self, place: Index) -> Index:
        """Emits the counting of one more, by whichever processor; gives how many there were before."""
        one = arith.constant(self.counts.element, 1)
        before = memref.atomic_rmw(arith.AtomicRMWKind.addi, one, self.counts.memref, [place.value])
        return Index(arith.index_cast(ir.IndexType.get(), before))

    def _own_share(self) -> Index:
        """Emits the looking up of the share that a processor has claimed, and before that its claim.

        It is that of its number, or the next that no other has: a process may have any processors of a
        machine, and more of them than threads, so that numbers alone give several the same, and some shares
        to nobody.
        """
        index = ir.IndexType.get()
        number = self._instructions.emit_processor_number()
        processor = Index(arith.index_castui(index, number)) % PROCESSORS
        place = processor + claim_element(self.threads)
        claimed = self._load(place)
        known = scf.IfOp(claimed.equals(0).value, [index], has_else=True)
        with ir.InsertionPoint(known.then_block):
            claiming = scf.WhileOp([index, index], [Index(0).value])
            with ir.InsertionPoint(claiming.before.blocks.append(index)) as point:
                tried = Index(point.block.arguments[0])
                share = (processor + tried) % self.threads
                owners = self._add_one(share + (claim_element(self.threads) + PROCESSORS))
                is_taken = owners.at_least(1)
                scf.condition(
                    (is_taken & tried.less_than(self.threads - 1)).value, [tried.value, share.value]
                )
            with ir.InsertionPoint(claiming.after.blocks.append(index, index)) as point:
                scf.yield_([(Index(point.block.arguments[0]) + 1).value])
            own = Index(claiming.results[1])
            self._store(place, own + 1)
            scf.yield_([own.value])
        with ir.InsertionPoint(known.else_block):
            scf.yield_([(claimed - 1).value])
        return Index(known.results[0])


def _fetch(reading: Reading, position: Index) -> None:
    """Emits the fetching of `LINES_PER_LOOK` lines."""
    with loop(LINES_PER_LOOK * CACHE_LINE_BYTES, CACHE_LINE_BYTES, name="line") as line:
        reading.buffer.prefetch(reading.first + position + line, to_l2=True)
