"""Products of half precision by warpgroups: those of `split.py`, by matrix units that read shared memory.

Some warps of a workgroup copy stages, or gather them from the image, as long as there is room for them. The
others multiply what is there. Barriers say of each stage's place that it is full, or empty again. A workgroup
that walks over several blocks has stages of the next one copied while it stores the sums of the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.control_flow import loop_carried, when
from iree.winograd.pipelines.emission.index import Condition, Index, select_index
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.device.matrix_unit import WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import (
    GlobalBuffer,
    barrier,
    thread_id,
)
from iree.winograd.pipelines.gpu.device.shuffles import of_first_thread
from iree.winograd.pipelines.gpu.device.tensor_map import MAP_BYTES
from iree.winograd.pipelines.gpu.device.warpgroup import (
    BARRIER_BYTES,
    REDUCTION,
    WARPGROUP_ROWS,
    WARPGROUP_THREADS,
    Barrier,
    SharedBytes,
    give_registers,
    publish,
    take_registers,
    wait_for_copies_out,
)
from iree.winograd.pipelines.gpu.packing.split import SPLIT
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES, STAGE_ROW_BYTES
from iree.winograd.pipelines.gpu.schedules.warpgroup import (
    STAGE_BARRIERS,
    WarpgroupSchedule,
)

from .gathered_rows import GatheredRows
from .image_boxes import map_of_image
from .matrix_sums import MatrixSums
from .products import Block, Blocks, Results, Storing
from .running_sums import RunningSums, Step
from .split_operands import OfSplitOperands
from .warpgroup_results import WARPS, ResultMemory, WarpgroupResults

_POSITION = 2
"""Values of a position: a place, and the parity of its turn."""
_CopyStage = Callable[[Index, Index, Barrier], None]
"""Begins to copy a stage to a place, of which a barrier is told that it is full."""


@dataclass(frozen=True)
class WarpgroupProduct(OfSplitOperands):
    """Products of numbers that are split or rounded, with an operand layout as `SplitProduct` has it."""

    schedule: WarpgroupSchedule
    """That of the packing."""

    @property
    def walking_workgroups(self) -> int | None:
        return self.schedule.walking_workgroups

    def emit(
        self, blocks: Blocks, sizes: Sizes, left: GlobalBuffer, filters: GlobalBuffer, storing: Storing
    ) -> None:
        """Emits what a workgroup does for its blocks."""
        _Workgroup(self, sizes, left, filters).emit(blocks, storing)


class _Workgroup:
    """One workgroup of the kernel, as one of its threads sees it.

    Stages lie in a ring of places. A thread's position in it is a place and the parity of its turn, which
    it carries from stage to stage and from block to block.
    """

    def __init__(
        self, product: WarpgroupProduct, sizes: Sizes, left: GlobalBuffer, filters: GlobalBuffer
    ) -> None:
        schedule, packing = product.schedule, product.packing
        self._schedule, self._packing, self._sizes = schedule, packing, sizes
        self._left, self._filters = left, filters
        is_scaled = schedule.scales_operands and not packing.reads_image
        self._scales = left.viewed_as(SPLIT.type) if is_scaled else None
        thread = thread_id()
        self._thread, self._lane = thread, thread % WARP_THREADS
        self._warp = of_first_thread(thread // WARP_THREADS)
        walks = schedule.walking_workgroups is not None
        self._places = schedule.stages if walks else min(schedule.stages, packing.part_stages)
        self._row_bytes = schedule.block_rows * STAGE_ROW_BYTES
        self._column_bytes = schedule.block_columns * STAGE_ROW_BYTES
        turns = (schedule.alternating_warpgroups or 0) * BARRIER_BYTES
        behind = self._places * (schedule.stage_bytes + STAGE_BARRIERS * BARRIER_BYTES) + turns
        results = schedule.block_rows * schedule.result_row * (schedule.result_bytes or 0)
        maps = MAP_BYTES if self._maps_image else 0
        self._map_place = ceil_div(behind + results, MAP_BYTES) * MAP_BYTES
        self._shared = SharedBytes.allocate(self._map_place + maps if maps else behind + results, "stages")
        self._results_place = behind
        self._left_address, self._filter_address = left.address, filters.address

    def emit(self, blocks: Blocks, storing: Storing) -> None:
        when(self._thread.less_than(1), self._initialize)
        barrier()
        warps = self._schedule.warpgroups * WARPS

        def multiply() -> None:
            if self._schedule.takes_registers:
                take_registers(self._schedule.registers)
            self._multiply_blocks(blocks, storing)

        def copy() -> None:
            if self._schedule.takes_registers:
                give_registers(self._schedule.copying_registers)
            if self._maps_image:
                is_first = self._warp.less_than(warps + 1)
                when(is_first, lambda: self._copy_boxes(blocks, storing))
            elif self._packing.reads_image:
                self._gather_blocks(blocks)
            else:
                when(self._is_first_copying, lambda: self._copy_blocks(blocks))

        when(self._warp.less_than(warps), multiply, copy)

    def _initialize(self) -> None:
        gathering = self._schedule.copying_threads if self._gathers else 0
        for place in range(self._places):
            self._full(Index(place)).initialize(arrivals=1 + gathering)
            self._empty(Index(place)).initialize(arrivals=self._schedule.multiplying * WARPS)
        for number in range(self._schedule.alternating_warpgroups or 0):
            self._turn(Index(number)).initialize(arrivals=WARPS)
        publish()

    def _full(self, place: Index) -> Barrier:
        """That a stage has come to a place."""
        return self._shared.barrier(place * BARRIER_BYTES + self._places * self._schedule.stage_bytes)

    def _empty(self, place: Index) -> Barrier:
        """That all warps are done with it."""
        behind = self._places * (self._schedule.stage_bytes + BARRIER_BYTES)
        return self._shared.barrier(place * BARRIER_BYTES + behind)

    def _turn(self, warpgroup: Index) -> Barrier:
        """That the one before has begun all products of its block."""
        behind = self._places * (self._schedule.stage_bytes + STAGE_BARRIERS * BARRIER_BYTES)
        return self._shared.barrier(warpgroup * BARRIER_BYTES + behind)

    def _next(self, place: Index, parity: Index) -> list[ir.Value]:
        """The position after one."""
        after = place + 1
        is_inside = after.less_than(self._places)
        return [select_index(is_inside, after, 0).value, select_index(is_inside, parity, parity ^ 1).value]

    @property
    def _maps_image(self) -> bool:
        """Whether rows come from the image by boxes, which one thread has copied."""
        return self._packing.reads_image and not self._schedule.gathers

    @property
    def _gathers(self) -> bool:
        """Whether they come from it chunk by chunk."""
        return self._packing.reads_image and self._schedule.gathers

    # The warps that copy

    @property
    def _first_copying(self) -> int:
        """The thread that is the first of them."""
        return self._schedule.warpgroups * WARPGROUP_THREADS

    @property
    def _is_first_copying(self) -> Condition:
        return self._thread.less_than(self._first_copying + 1)

    def _copy_blocks(self, blocks: Blocks) -> None:
        """What a single thread does for operands that lie in memory as they do in stages."""

        def begin(block: Block) -> _CopyStage:
            packing = self._packing
            rows = self._left_address + packing.input_stage(block.row_block, block.product) * HALF_BYTES
            columns = self._columns(block)

            def copy(stage: Index, to: Index, full: Barrier) -> None:
                full.arrive_expecting(self._schedule.stage_bytes)
                self._shared.copy(to, rows + stage * self._row_bytes, self._row_bytes, full)
                self._copy_columns(columns, stage, to, full)

            return copy

        self._walk_stages(blocks, begin)

    def _copy_boxes(self, blocks: Blocks, storing: Storing) -> None:
        """What a warp does for rows that lie in the image: it makes a map, and its first thread copies."""
        own = storing(blocks.last()).row(Index(0)).address
        box = self._schedule.box_rows
        assert box is not None
        image = map_of_image(
            self._packing, self._left, self._sizes, self._shared, self._map_place, own, self._lane
        )

        def begin(block: Block) -> _CopyStage:
            first_row = block.row_block * self._schedule.block_rows
            first_channel = block.product * self._packing.group_channels
            columns = self._columns(block)

            def copy(stage: Index, to: Index, full: Barrier) -> None:
                full.arrive_expecting(self._schedule.stage_bytes)
                channel = first_channel + stage * self._schedule.block_reduction
                for row in range(0, self._schedule.block_rows, box):
                    image.copy_box(self._shared, to + row * STAGE_ROW_BYTES, first_row + row, channel, full)
                self._copy_columns(columns, stage, to, full)

            return copy

        when(self._lane.less_than(1), lambda: self._walk_stages(blocks, begin))

    def _gather_blocks(self, blocks: Blocks) -> None:
        """What all threads that copy do for rows that they gather from the image."""
        thread = self._thread - self._first_copying

        def begin(block: Block) -> _CopyStage:
            rows = GatheredRows(
                self._packing, self._left, self._sizes, block, thread, self._schedule.copying_threads
            )
            columns = self._columns(block)

            def copy(stage: Index, to: Index, full: Barrier) -> None:
                def copy_columns() -> None:
                    full.arrive_expecting(self._column_bytes)
                    self._copy_columns(columns, stage, to, full)

                when(self._is_first_copying, copy_columns)
                rows.copy(stage, self._shared, to)
                full.arrive_when_copied()

            return copy

        self._walk_stages(blocks, begin)

    def _stages_of(self, block: Block, of_part: int, of_all: int) -> Index:
        """What a block of a product has, which is whole or in parts."""
        if self._packing.whole_products == 0:
            return Index(of_part)
        return select_index(block.product.less_than(self._packing.whole_products), of_all, of_part)

    def _columns(self, block: Block) -> Index:
        """The address of the first stage of a block's filters."""
        stage = self._packing.filter_stage(block.first_column, block.product)
        return self._filter_address + stage * HALF_BYTES

    def _copy_columns(self, columns: Index, stage: Index, to: Index, full: Barrier) -> None:
        source = columns + stage * self._column_bytes
        self._shared.copy(to + self._row_bytes, source, self._column_bytes, full)

    def _walk_stages(self, blocks: Blocks, begin: Callable[[Block], _CopyStage]) -> None:
        """Has the stages of all blocks copied, each to a place as soon as that is empty."""

        def walk(block: Block, position: list[ir.Value]) -> Sequence[ir.Value]:
            copy, stages = (
                begin(block),
                self._stages_of(block, self._packing.part_stages, self._packing.stages),
            )
            first = block.part * self._packing.part_stages

            def copy_stage(stage: Index, position: list[ir.Value]) -> Sequence[ir.Value]:
                place, parity = map(Index, position)
                # In the first turn there is nothing to wait for.
                self._empty(place).wait(parity ^ 1)
                copy(first + stage, place * self._schedule.stage_bytes, self._full(place))
                return self._next(place, parity)

            return loop_carried(stages, 1, position, copy_stage, "stage")

        blocks.walk(_first_position(), walk)

    # The warps that multiply

    def _multiply_blocks(self, blocks: Blocks, storing: Storing) -> None:
        turns = self._schedule.alternating_warpgroups
        warpgroup = self._warp // WARPS
        thread = self._thread % WARPGROUP_THREADS if turns else self._thread

        def multiply(block: Block, position: list[ir.Value]) -> Sequence[ir.Value]:
            sums = MatrixSums(self._packing, block, self._filters)
            stored = storing(block)
            results = self._results(sums, stored, thread)
            results[0].prefetch(
                self._schedule.block_rows, thread, self._schedule.multiplying * WARPGROUP_THREADS
            )
            position, turn = position[:_POSITION], position[_POSITION:]
            if turns:
                self._turn(warpgroup).wait(Index(turn[0]))
            zero, together = RunningSums.zero(self._schedule), self._schedule.summed_stages

            def multiply_stages(first: Index, count: int, values: list[ir.Value]) -> list[ir.Value]:
                *current, place, parity, last = values
                sums = zero.at(current)
                for number in range(count):
                    self._full(Index(place)).wait(Index(parity))
                    if self._gathers:
                        # Gathered rows were written as threads write.
                        publish()
                    sums = sums.add(self._steps(Index(place)), ends_block=number == count - 1)
                    # Only products just started are not done.
                    is_later = Condition(True) if number else Index(0).less_than(first)
                    when(is_later, partial(self._release, Index(last)))
                    last, (place, parity) = place, self._next(Index(place), Index(parity))
                return [*sums.values, place, parity, last]

            def multiply_block(number: Index, values: list[ir.Value]) -> list[ir.Value]:
                return multiply_stages(number * together, together, values)

            blocks_of_stages, rest = divmod(self._packing.part_stages, together)
            values = [*zero.values, *position, Index(0).value]
            if blocks_of_stages:
                count = self._stages_of(block, blocks_of_stages, self._packing.stages // together)
                values = loop_carried(count, 1, values, multiply_block, "stages")
            if rest:
                values = multiply_stages(Index(blocks_of_stages * together), rest, values)
            *final, place, parity, last = values
            if turns:
                when(self._lane.less_than(1), self._turn((warpgroup + 1) % turns).arrive)
            row_scale_of = sums.row_scales(self._scales, self._schedule.neighbouring_columns)
            row_scales = [[row_scale_of(row) for row in each.rows] for each in results]
            results[0].begin()
            scalars = zero.at(final).landed()
            self._release(Index(last))
            for number, (each, scales) in enumerate(zip(results, row_scales, strict=True)):
                each.store([self._of_rows(part, number, len(results)) for part in scalars], scales)
            position = [place, parity]
            return [*self._behind_others(position), (Index(turn[0]) ^ 1).value] if turns else position

        if turns:
            blocks = blocks.of_turns(warpgroup, turns)
            # Nobody is before the first one.
            first_turn = select_index(warpgroup.less_than(1), 1, 0).value
            blocks.walk([*self._first_position_of(warpgroup), first_turn], multiply)
        else:
            blocks.walk(_first_position(), multiply)
        if self._schedule.result_bytes is not None:
            # What is copied has to stay, and to be there when this kernel is done.
            wait_for_copies_out(until_read=False)

    def _results(self, sums: MatrixSums, stored: Results, thread: Index) -> list[WarpgroupResults]:
        """Those of each 64 rows of a thread's block; of later ones sums are there while these are stored."""
        count = self._schedule.warpgroup_rows // WARPGROUP_ROWS
        memory = self._result_memory(stored)
        held = self._schedule.sums // count
        return [
            WarpgroupResults(
                sums,
                stored,
                thread + number * WARPGROUP_THREADS,
                self._schedule.registers - (count - 1 - number) * held,
                memory,
            )
            for number in range(count)
        ]

    @staticmethod
    def _of_rows(scalars: Sequence[ir.Value], number: int, count: int) -> Sequence[ir.Value]:
        """Of a thread's sums those of one of so many 64 rows."""
        each = len(scalars) // count
        return scalars[number * each : (number + 1) * each]

    def _first_position_of(self, warpgroup: Index) -> list[ir.Value]:
        """That of a warpgroup's first block, which is behind those of the warpgroups before."""
        stage = warpgroup * self._packing.part_stages
        return [(stage % self._places).value, (stage // self._places % 2).value]

    def _behind_others(self, position: list[ir.Value]) -> list[ir.Value]:
        """The position that is behind a block of each of the other warpgroups."""
        turns = self._schedule.alternating_warpgroups
        assert turns is not None
        rounds, ahead = divmod((turns - 1) * self._packing.part_stages, self._places)
        place, parity = map(Index, position)
        after = place + ahead
        is_inside = after.less_than(self._places)
        parity = parity ^ (rounds % 2)
        return [
            select_index(is_inside, after, after - self._places).value,
            select_index(is_inside, parity, parity ^ 1).value,
        ]

    def _result_memory(self, results: Results) -> ResultMemory | None:
        """For the results of a block, if there is some for these."""
        width, most = results.row_bytes, self._schedule.result_bytes
        if width is None or most is None or width > most:
            return None
        return ResultMemory(self._shared, self._results_place, self._schedule.result_row * width)

    def _steps(self, place: Index) -> list[Step]:
        """What is multiplied of the stage at a place."""
        first = place * self._schedule.stage_bytes
        factors = self._schedule.factors
        own = Index(0) if self._schedule.alternating_warpgroups else self._warp // WARPS
        rows = self._shared.operand(first + own * (WARPGROUP_ROWS * STAGE_ROW_BYTES), factors)
        columns = self._shared.operand(first + self._row_bytes, factors)
        steps, parts = self._schedule.block_reduction // REDUCTION, range(self._schedule.parts)
        return [
            Step(
                [rows.step(part * steps + step) for part in parts],
                [columns.step(part * steps + step) for part in parts],
            )
            for step in range(steps)
        ]

    def _release(self, place: Index) -> None:
        when(self._lane.less_than(1), self._empty(place).arrive)


def _first_position() -> list[ir.Value]:
    return [Index(0).value, Index(0).value]
