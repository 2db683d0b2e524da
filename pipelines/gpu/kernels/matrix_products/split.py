"""Products at fp32's accuracy on matrix units: of operands that are split into two fp16 numbers each.

    x y = high high' + 2^-11 (high low' + low high'),  three products of fp16 with sums in fp32

The product of the low parts is below fp32's roundoff. The small products have sums of their own: matrix
units truncate when they add, so added to the large ones they would lose what they are for. (Ootomo and
Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak
performance", IJHPCA 2022.)

Stages of both operands are copied to shared memory (`stage_copies.py`); while one is multiplied, the next
ones are on their way. What a warp multiplies at once, the matrix units say (`fragments.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, product

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.control_flow import loop_carried
from iree.winograd.pipelines.emission.index import Index, select_index
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer, thread_id
from iree.winograd.pipelines.gpu.packing.split import SPLIT
from iree.winograd.pipelines.gpu.schedules.split import WarpSchedule

from .fragments import ENGINES, Sums
from .matrix_sums import MatrixSums
from .products import Block, Blocks, Results, Storing
from .split_operands import OfSplitOperands
from .stage_copies import Operand


@dataclass(frozen=True)
class SplitProduct(OfSplitOperands):
    """Three products of fp16 numbers for each of fp32, or one of rounded numbers, fp16 or bf16."""

    schedule: WarpSchedule
    """That of the packing."""

    @property
    def walking_workgroups(self) -> None:
        return None

    def emit(
        self, blocks: Blocks, sizes: Sizes, left: GlobalBuffer, filters: GlobalBuffer, storing: Storing
    ) -> None:
        """Emits what a workgroup does for its block."""
        del sizes
        block = blocks.only()
        _Workgroup(self, block, left, filters).emit(storing(block))


class _Workgroup:
    """One workgroup of the kernel, as one of its threads sees it."""

    def __init__(self, kernel: SplitProduct, block: Block, left: GlobalBuffer, filters: GlobalBuffer) -> None:
        packing, schedule = kernel.packing, kernel.schedule
        self._packing, self._schedule, self._block = packing, schedule, block
        self._left, self._filters = left, filters
        copies, fragments = ENGINES[schedule.unit.name]
        operands = (
            Operand(left, packing.input_stage(block.row_block, block.product), schedule.block_rows),
            Operand(filters, packing.filter_stage(block.first_column, block.product), schedule.block_columns),
        )
        self._copies = copies(schedule, operands, packing.stages)
        self._fragments = fragments(schedule, self._copies, thread_id())

    def emit(self, results: Results) -> None:
        stages = self._packing.stages
        sums = [self._fragments.no_sums() for _ in range(self._sets * self._tiles)]
        sums = self._in_memory_at_once(sums) if stages <= self._schedule.stages else self._in_turns(sums)
        self._finish(sums[: self._tiles], sums[self._tiles :], results)

    @property
    def _sets(self) -> int:
        """Of sums: small products have their own where they aren't added to the large ones."""
        return 1 if self._schedule.unit.joins_sums else self._schedule.parts

    # The main loop

    def _in_memory_at_once(self, sums: list[Sums]) -> list[Sums]:
        """All stages have a place of their own."""
        stages, together = self._packing.stages, self._schedule.summed_stages
        for stage in range(stages):
            self._copy(stage)

        def multiply(stage: int, sums: list[Sums]) -> list[Sums]:
            self._copies.wait(stages - 1 - stage)
            return self._multiply(Index(stage * self._copies.stage_size), sums)

        for first in range(0, stages, together):
            block = range(first, min(first + together, stages))
            sums = self._sum_block([partial(multiply, stage) for stage in block], sums)
        return sums

    def _in_turns(self, sums: list[Sums]) -> list[Sums]:
        """While one stage is multiplied, the others are copied."""
        count, size = self._schedule.stages, self._copies.stage_size
        together = self._schedule.summed_stages
        for stage in range(count - 1):
            self._copy(stage)

        def following(place: Index) -> Index:
            after = place + size
            return select_index(after.less_than(count * size), after, 0)

        def multiply_stages(first: Index, stages: int, values: list[ir.Value]) -> list[ir.Value]:
            *current, read_first, written_first = values
            read, written = Index(read_first), Index(written_first)

            def multiply(stage: int, sums: list[Sums]) -> list[Sums]:
                nonlocal read, written
                self._copies.wait(count - 2)
                begun = self._copies.begin(first + (stage + count - 1), written)
                sums = self._multiply(read, sums)
                self._copies.end(begun, written)
                read, written = following(read), following(written)
                return sums

            block = [partial(multiply, stage) for stage in range(stages)]
            multiplied = self._sum_block(block, _tiles_of(current, len(sums)))
            return [*chain(*multiplied), read.value, written.value]

        def multiply_block(number: Index, values: list[ir.Value]) -> list[ir.Value]:
            return multiply_stages(number * together, together, values)

        values = [*chain(*sums), Index(0).value, Index((count - 1) * size).value]
        blocks, rest = divmod(self._packing.stages, together)
        if blocks:
            values = loop_carried(blocks, 1, values, multiply_block, "block")
        if rest:
            values = multiply_stages(Index(blocks * together), rest, values)
        return _tiles_of(values[:-2], len(sums))

    def _copy(self, stage: int) -> None:
        """A stage to its first place."""
        place = Index(stage * self._copies.stage_size)
        self._copies.end(self._copies.begin(Index(stage), place), place)

    def _sum_block(
        self, stages: Sequence[Callable[[list[Sums]], list[Sums]]], sums: list[Sums]
    ) -> list[Sums]:
        """Adds the products of stages to the sums; of sums in blocks those of large products at the end."""
        fragments, low = self._fragments, self._tiles
        in_blocks = self._packing.has_blocks_of_sums
        before, sums = sums[:low], list(sums)
        if in_blocks:
            sums[:low] = [fragments.no_sums() for _ in range(low)]
        for multiply in stages:
            sums = multiply(sums)
        if in_blocks:
            sums[:low] = map(fragments.add, before, sums[:low])
        return sums

    def _multiply(self, place: Index, sums: list[Sums]) -> list[Sums]:
        """Adds the products of the stage at `place` to the sums."""
        fragments, low, sums = self._fragments, self._tiles, list(sums)
        for step in range(self._schedule.block_reduction // fragments.reduction):
            high_rows, high_columns = self._rows(place, step, 0), self._columns(place, step, 0)
            if not self._schedule.unit.joins_sums:
                self._add(sums, 0, high_rows, high_columns)
            if self._schedule.parts == 2:
                first = len(sums) - low
                self._add(sums, first, high_rows, self._columns(place, step, 1))
                self._add(sums, first, self._rows(place, step, 1), high_columns)
            if self._schedule.unit.joins_sums:
                self._add(sums, 0, high_rows, high_columns)
        return sums

    def _rows(self, place: Index, step: int, part: int) -> list[list[ir.Value]]:
        """The warp's fragments of the left operand."""
        return [self._fragments.rows(place, tile, step, part) for tile in range(self._tiles_down)]

    def _columns(self, place: Index, step: int, part: int) -> list[list[ir.Value]]:
        """The warp's fragments of the right operand."""
        return [self._fragments.columns(place, tile, step, part) for tile in range(self._tiles_across)]

    def _add(
        self, sums: list[Sums], first: int, rows: list[list[ir.Value]], columns: list[list[ir.Value]]
    ) -> None:
        for i, j in product(range(self._tiles_down), range(self._tiles_across)):
            position = first + i * self._tiles_across + j
            sums[position] = self._fragments.multiply(rows[i], columns[j], sums[position])

    @property
    def _tiles_down(self) -> int:
        """Of 16 rows."""
        return self._schedule.warp_rows // MATRIX_ROWS

    @property
    def _tiles_across(self) -> int:
        return self._schedule.warp_columns // MATRIX_ROWS

    @property
    def _tiles(self) -> int:
        return self._tiles_down * self._tiles_across

    # The results

    def _finish(self, large: list[Sums], small: list[Sums], results: Results) -> None:
        """Joins the sums, scales them back, and stores them."""
        columns = self._fragments.thread_columns
        sums = MatrixSums(self._packing, self._block, self._filters)
        column_scales = [sums.column_scale(column) for column in columns]
        is_scaled = self._schedule.scales_operands
        row_scale = sums.row_scales(self._left.viewed_as(SPLIT.type) if is_scaled else None)
        for i in range(self._tiles_down):
            across = slice(i * self._tiles_across, (i + 1) * self._tiles_across)
            rows = self._fragments.thread_rows(i)
            scales = [row_scale(row) for row in rows]
            quads = [self._fragments.quads(each[across]) for each in (large, small) if each]
            for row, column in product(range(len(rows)), range(len(columns))):
                own, *others = (each[row][column] for each in quads)
                joined = sums.joined(own, others[0] if others else None)
                restored = sums.restored(joined, scales[row], column_scales[column])
                results.store(rows[row], columns[column], restored)


def _tiles_of(values: Sequence[ir.Value], count: int) -> list[Sums]:
    """What a loop carries of so many sums of 16 x 16."""
    size = len(values) // count
    return [list(values[first : first + size]) for first in range(0, len(values), size)]
