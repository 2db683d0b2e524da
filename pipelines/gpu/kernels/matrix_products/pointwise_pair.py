"""Two pointwise layers in a row: what is between them stays in registers, a chunk of its channels at a time.

As attention by warpgroups has it: a warpgroup multiplies its pixels by a chunk of the first layer's filters,
finishes these sums, and multiplies them by the second layer's. While some warpgroups finish, others multiply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.dialect.ops import OutputTransformOp
from iree.winograd.pipelines.emission.control_flow import loop_carried, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Index, select_index
from iree.winograd.pipelines.emission.numbers.known import Numbers
from iree.winograd.pipelines.emission.work import Work
from iree.winograd.pipelines.gpu.device.epilogue_operands import by_channels
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_SUMS, WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import (
    PAIR,
    QUAD,
    GlobalBuffer,
    barrier,
    thread_id,
    zero_scalar,
)
from iree.winograd.pipelines.gpu.device.shuffles import of_first_thread
from iree.winograd.pipelines.gpu.device.warpgroup import (
    BARRIER_BYTES,
    REDUCTION,
    WARPGROUP_ROWS,
    WARPGROUP_THREADS,
    Barrier,
    HeldRows,
    Operand,
    SharedBytes,
    WarpgroupSums,
    begin_products,
    commit_products,
    give_registers,
    landed_sums,
    publish,
    settled_sums,
    take_registers,
    warpgroup_barrier,
)
from iree.winograd.pipelines.gpu.packing.pointwise_pair import PointwisePairPacking
from iree.winograd.pipelines.gpu.schedules.matrix import STAGE_ROW_BYTES
from iree.winograd.pipelines.gpu.schedules.warpgroup import STAGE_BARRIERS

from .matrix_sums import MatrixSums
from .pair_finishing import Between
from .pair_pixels import HalfPixels, Pixels, SplitPixels
from .products import Block, BlockedProductKernel, BlockOutputs, Blocks, Results, finished_in_line
from .running_sums import Step
from .warpgroup_results import WARPS, WarpgroupResults

_HELD_PAIRS = WARPGROUP_ROWS * REDUCTION // WARPGROUP_THREADS // PAIR
"""Of a thread, of 16 columns."""


@dataclass(frozen=True)
class PointwisePairKernel(BlockedProductKernel):
    """Two pointwise layers, the second one's sums finished and written in place; its product is `product`."""

    packing: PointwisePairPacking
    between: OutputTransformOp = field(compare=False)
    """The first layer's transform, with its epilogue."""
    epilogue_between: str
    """What distinguishes it from others."""
    numbers: Numbers = field(compare=False, repr=False)
    """The target's."""

    def emit(
        self,
        work: Work,
        image: GlobalBuffer,
        widening: GlobalBuffer,
        narrowing: GlobalBuffer,
        *others: Any,
    ) -> None:
        """From `image`, N x H... x C, by both layers' filters, to N x H... x K.

        `others` are the bound of what is between the layers, where numbers are split, what the first epilogue
        reads, the output and the second epilogue.
        """
        *operands, output, epilogue = others
        bound, operands = (operands[0], operands[1:]) if self.packing.schedule.parts > 1 else (None, operands)
        between = VectorEpilogue(self.between, operands, fused_multiply_add=True, numbers=self.numbers)
        packing = self.packing.narrowing
        if packing.neighbouring_columns > QUAD:
            epilogue = by_channels(epilogue, packing.neighbouring_columns)
        tiles = packing.tiles(work.sizes)
        sized, epilogue = finished_in_line(packing, work.sizes, output, epilogue, of_known_sizes=True)

        def storing(block: Block) -> BlockOutputs:
            return BlockOutputs(packing, output, epilogue, block, tiles, sized)

        workgroup = _Workgroup(self.packing, image, (widening, narrowing), between, bound, tiles)
        workgroup.emit(self._blocks(work), storing)


class _Workgroup:
    """One workgroup, as one of its threads sees it.

    Each warpgroup has memory for its pixels; behind these are the stages of filters, which lie in a ring of
    places as those of `warpgroup.py`, and barriers.
    """

    def __init__(
        self,
        packing: PointwisePairPacking,
        image: GlobalBuffer,
        filters: tuple[GlobalBuffer, GlobalBuffer],
        between: VectorEpilogue,
        bound: GlobalBuffer | None,
        tiles: Index,
    ) -> None:
        schedule, shape = packing.schedule, packing.shape
        self._packing, self._schedule, self._shape = packing, schedule, shape
        self._between, self._bound, self._filters = between, bound, filters
        self._addresses = [each.address for each in filters]
        self._thread, self._lane = thread_id(), thread_id() % WARP_THREADS
        self._warp = of_first_thread(thread_id() // WARP_THREADS)
        self._warpgroup = self._warp // WARPS
        pixel_bytes = schedule.pixel_bytes(shape.channels)
        self._stages_place = schedule.warpgroups * pixel_bytes
        self._stage_bytes = schedule.stage_bytes(shape.channels, shape.outputs)
        of_widening = packing.widening.stages * schedule.chunk * STAGE_ROW_BYTES
        self._filter_bytes = of_widening, self._stage_bytes - of_widening
        size = schedule.shared_memory_bytes(shape.channels, shape.outputs)
        self._shared = SharedBytes.allocate(size, "pixels_and_filters")
        kind = HalfPixels if schedule.parts == 1 else SplitPixels
        place = self._warpgroup * pixel_bytes
        self._pixels: Pixels = kind(
            schedule, shape.channels, image, tiles, self._shared, place, self._warpgroup
        )

    def emit(self, blocks: Blocks, storing: Callable[[Block], Results]) -> None:
        when(self._thread.less_than(1), self._initialize)
        barrier()

        def multiply() -> None:
            take_registers(self._schedule.registers)
            self._pixels.begin(self._first_pixel(blocks.first))
            # Nobody is before the first one.
            turn = select_index(self._warpgroup.less_than(1), 1, 0).value
            position = [*_first_position(), turn]
            blocks.walk(position, lambda block, at: self._multiply(block, storing(block), at))

        def copy() -> None:
            give_registers(self._schedule.copying_registers)
            first = self._schedule.warpgroups * WARPGROUP_THREADS
            is_first = self._thread.less_than(first + 1)
            when(is_first, lambda: blocks.walk(_first_position(), lambda _, at: self._copy_filters(at)))

        when(self._warp.less_than(self._schedule.warpgroups * WARPS), multiply, copy)

    def _initialize(self) -> None:
        for place in range(self._schedule.stages):
            self._full(Index(place)).initialize(arrivals=1)
            self._empty(Index(place)).initialize(arrivals=self._schedule.warpgroups * WARPS)
        for number in range(self._schedule.warpgroups):
            self._turn(Index(number)).initialize(arrivals=WARPS)
        publish()

    @property
    def _chunks(self) -> int:
        return self._shape.between // self._schedule.chunk

    def _full(self, place: Index) -> Barrier:
        """That both layers' filters of a chunk have come to a place."""
        return self._barrier(0, place)

    def _empty(self, place: Index) -> Barrier:
        """That all warps are done with them."""
        return self._barrier(1, place)

    def _turn(self, warpgroup: Index) -> Barrier:
        """That the one before has its products: matrix units multiply for one warpgroup at a time.

        If they did for all at once, these would have their sums at the same time, and finish them then.
        """
        return self._barrier(STAGE_BARRIERS, warpgroup)

    def _barrier(self, kind: int, place: Index) -> Barrier:
        stages = self._schedule.stages
        behind = self._stages_place + stages * self._stage_bytes + kind * stages * BARRIER_BYTES
        return self._shared.barrier(place * BARRIER_BYTES + behind)

    def _place(self, number: Index) -> Index:
        return number * self._stage_bytes + self._stages_place

    def _next(self, position: Sequence[ir.Value]) -> list[ir.Value]:
        """The position, a place and the parity of its turn, after one."""
        place, parity = map(Index, position)
        after = place + 1
        is_inside = after.less_than(self._schedule.stages)
        return [select_index(is_inside, after, 0).value, select_index(is_inside, parity, parity ^ 1).value]

    # The thread that copies filters

    def _copy_filters(self, position: list[ir.Value]) -> list[ir.Value]:
        """Has those of a block copied, each chunk's to a place as soon as that is empty."""

        def copy(chunk: Index, position: list[ir.Value]) -> list[ir.Value]:
            place, parity = map(Index, position)
            # In the first turn there is nothing to wait for.
            self._empty(place).wait(parity ^ 1)
            full, to = self._full(place), self._place(place)
            full.arrive_expecting(self._stage_bytes)
            for address, size in zip(self._addresses, self._filter_bytes, strict=True):
                self._shared.copy(to, address + chunk * size, size, full)
                to = to + size
            return self._next(position)

        return loop_carried(self._chunks, 1, position, copy, "chunk")

    # The warpgroups that multiply

    def _multiply(self, block: Block, results: Results, position: list[ir.Value]) -> list[ir.Value]:
        narrowing = self._packing.narrowing
        stored = WarpgroupResults(
            MatrixSums(narrowing, block, self._filters[1]), results, self._thread, self._schedule.registers
        )
        threads = self._schedule.warpgroups * WARPGROUP_THREADS
        stored.prefetch(self._schedule.pixels, self._thread, threads)
        self._pixels.end()
        rows = [row % WARPGROUP_ROWS for row in stored.rows]
        scales = self._pixels.scales(rows)
        between = Between(self._packing, self._between, self._filters[0], self._bound, scales)
        narrowed = [
            [zero_scalar(MATRIX_SUMS.type)] * _sums_of(narrowing.schedule.block_columns) for _ in self._parts
        ]
        *position, turn = position
        held, turn = self._first_chunk(block, position, turn, between)
        counts = [len(each) for each in (*narrowed, *held)]
        together = self._schedule.begins_together(self._shape.outputs)

        def multiply_chunk(before: Index, values: list[ir.Value]) -> list[ir.Value]:
            *narrowed, place, parity, turn = values
            parts = _parted(narrowed, counts)
            sums, held = parts[: self._schedule.parts], parts[self._schedule.parts :]
            following = self._next([place, parity])
            finishing = between.begin(block, before + 1)
            self._full(Index(following[0])).wait(Index(following[1]))
            self._turn(self._warpgroup).wait(Index(turn))
            begin_products()
            added = self._begin_narrowed(Index(place), held, sums)
            commit_products()
            if not together:
                sums = self._landed(added, sums)
                begin_products()
            widened = self._begin_widened(Index(following[0]))
            commit_products()
            if together:
                sums = self._landed(added, sums, pending=1)
            self._release(Index(place))
            landed = landed_sums(widened)
            self._end_turn()
            is_last = Index(self._chunks - 3).less_than(before)
            when(is_last, lambda: self._begin_following(block))
            return [*chain(*sums, *finishing.finished(landed)), *following, (Index(turn) ^ 1).value]

        initial = [*chain(*narrowed, *held), *position, turn]
        *values, place, parity, turn = loop_carried(self._chunks - 1, 1, initial, multiply_chunk, "chunk")
        parts = _parted(values, counts)
        sums, held = parts[: self._schedule.parts], parts[self._schedule.parts :]
        self._turn(self._warpgroup).wait(Index(turn))
        begin_products()
        added = self._begin_narrowed(Index(place), held, sums)
        commit_products()
        sums = self._landed(added, sums)
        self._release(Index(place))
        self._end_turn()
        stored.store(sums, between.scales(narrowing.neighbouring_columns))
        return [*self._next([place, parity]), (Index(turn) ^ 1).value]

    def _first_chunk(
        self, block: Block, position: Sequence[ir.Value], turn: ir.Value, between: Between
    ) -> tuple[list[list[ir.Value]], ir.Value]:
        """What is held of it, and the next turn."""
        place, parity = map(Index, position)
        finishing = between.begin(block, Index(0))
        self._full(place).wait(parity)
        self._turn(self._warpgroup).wait(Index(turn))
        begin_products()
        widened = self._begin_widened(place)
        commit_products()
        landed = landed_sums(widened)
        self._end_turn()
        return finishing.finished(landed), (Index(turn) ^ 1).value

    def _release(self, place: Index) -> None:
        when(self._lane.less_than(1), self._empty(place).arrive)

    def _end_turn(self) -> None:
        following = (self._warpgroup + 1) % self._schedule.warpgroups
        when(self._lane.less_than(1), self._turn(following).arrive)

    def _begin_widened(self, place: Index) -> list[WarpgroupSums]:
        """Begins the sums of a chunk of the first layer: of large products, and of small ones."""
        per_stage = self._schedule.chunk // REDUCTION
        row_bytes = self._schedule.chunk * STAGE_ROW_BYTES
        steps = []
        for step in range(self._shape.channels // REDUCTION):
            columns = self._operand(self._place(place) + step // per_stage * row_bytes)
            of_parts = [columns.step(part * per_stage + step % per_stage) for part in self._parts]
            steps.append(Step(self._pixels.operands(step), of_parts))
        unset = [WarpgroupSums.unset(self._schedule.chunk)] * self._schedule.parts
        return _added(unset, steps, begins_large=True, begins_small=True)

    def _begin_narrowed(
        self, place: Index, held: Sequence[Sequence[ir.Value]], sums: Sequence[Sequence[ir.Value]]
    ) -> list[WarpgroupSums]:
        """Begins the second layer's sums of a chunk: what is added to those of large products, if there are
        small ones, and otherwise all so far."""
        columns = self._operand(self._place(place) + self._filter_bytes[0])
        per_stage = self._schedule.chunk // REDUCTION
        steps = [
            Step(
                [HeldRows(part[step * _HELD_PAIRS : (step + 1) * _HELD_PAIRS]) for part in held],
                [columns.step(part * per_stage + step) for part in self._parts],
            )
            for step in range(per_stage)
        ]
        running = [WarpgroupSums.of(each) for each in sums]
        if self._schedule.parts == 1:
            return _added(running, steps, begins_large=False, begins_small=False)
        unset = WarpgroupSums.unset(self._packing.narrowing.schedule.block_columns)
        return _added([unset, *running[1:]], steps, begins_large=True, begins_small=False)

    def _landed(
        self, added: Sequence[WarpgroupSums], before: Sequence[Sequence[ir.Value]], pending: int = 0
    ) -> list[list[ir.Value]]:
        """The second layer's sums with those of a chunk: large products of split numbers are summed by matrix
        units a chunk at a time, since these truncate, and rounded to nearest."""
        large, *small = landed_sums(added, pending)
        if small:
            large = settled_sums([arith.addf(*each) for each in zip(before[0], large, strict=True)])
        return [large, *small]

    @property
    def _parts(self) -> range:
        return range(self._schedule.parts)

    def _operand(self, place: Index) -> Operand:
        """Rows of filters from a place on."""
        return self._shared.operand(place, self._packing.widening.schedule.factors)

    def _first_pixel(self, row_block: Index) -> Index:
        """This warpgroup's of a block."""
        return row_block * self._schedule.pixels + self._warpgroup * WARPGROUP_ROWS

    def _begin_following(self, block: Block) -> None:
        """Begins to copy this warpgroup's pixels of its next block, when no warp multiplies these."""
        warpgroup_barrier(self._warpgroup)
        following = block.row_block + self._schedule.walking_workgroups
        self._pixels.begin(self._first_pixel(following))


def _added(
    sums: Sequence[WarpgroupSums], steps: Sequence[Step], *, begins_large: bool, begins_small: bool
) -> list[WarpgroupSums]:
    """Begins to add products: large ones and, of split numbers, small ones to sums of their own."""
    large, *others = sums
    for number, step in enumerate(steps):
        large = large.add(step.rows[0], step.columns[0], begins=begins_large and number == 0)
    if not others:
        return [large]
    (small,) = others
    for number, step in enumerate(steps):
        (high_rows, low_rows), (high_columns, low_columns) = step.rows, step.columns
        begins = begins_small and number == 0
        small = small.add(high_rows, low_columns, begins=begins).add(low_rows, high_columns)
    return [large, small]


def _sums_of(columns: int) -> int:
    """A thread's, of so many columns."""
    return columns * WARPGROUP_ROWS // WARPGROUP_THREADS


def _parted(values: Sequence[ir.Value], counts: Sequence[int]) -> list[list[ir.Value]]:
    """So many of them each, one after the other."""
    remaining = iter(values)
    return [list(islice(remaining, count)) for count in counts]


def _first_position() -> list[ir.Value]:
    return [Index(0).value, Index(0).value]
