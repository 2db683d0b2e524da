"""Sums while warpgroups add products to them: by matrix units alone, or by these in blocks.

Matrix units truncate when they add, all of them towards zero, which shows in long sums. Where large products
are summed in blocks, a thread adds the sum of one to those before, rounded to nearest, while matrix units
multiply the small ones of this block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_SUMS
from iree.winograd.pipelines.gpu.device.memory import zero_scalar
from iree.winograd.pipelines.gpu.device.warpgroup import (
    WARPGROUP_ROWS,
    WARPGROUP_THREADS,
    HeldRows,
    Operand,
    WarpgroupSums,
    begin_products,
    commit_products,
    landed_sums,
    settled_sums,
    wait_for_products,
)
from iree.winograd.pipelines.gpu.schedules.matrix import MatrixSchedule


@dataclass(frozen=True)
class Step:
    """Rows and columns that are multiplied at once: high parts and, of split numbers, low ones."""

    rows: Sequence[Operand | HeldRows]
    columns: Sequence[Operand]


@dataclass(frozen=True)
class RunningSums:
    """A thread's sums of large products, and of small ones where numbers are split."""

    large: WarpgroupSums
    """With `in_blocks` those of the last block, whose registers the next one takes."""
    small: WarpgroupSums | None
    in_blocks: bool
    rounded: Sequence[ir.Value] | None = None
    """The sums of all blocks so far, one by one. None where there are none."""
    are_set: bool = True
    """Whether there are any yet."""
    is_within_block: bool = False
    """Whether more large products are added to those of the last block."""

    @staticmethod
    def none(schedule: MatrixSchedule, columns: int | None = None) -> RunningSums:
        """Those of so many columns, or of a block of them, of which nothing is multiplied yet."""
        unset = WarpgroupSums.unset(schedule.block_columns if columns is None else columns)
        small = unset if schedule.parts == 2 else None
        return RunningSums(unset, small, schedule.summed_block is not None, are_set=False)

    @staticmethod
    def of(schedule: MatrixSchedule, scalars: Sequence[Sequence[ir.Value]]) -> RunningSums:
        """Those that are known one by one, of large products and of small ones."""
        large, *others = scalars
        small = WarpgroupSums.of(others[0]) if others else None
        if schedule.summed_block is None:
            row_blocks = schedule.warpgroup_rows // WARPGROUP_ROWS
            sums = WarpgroupSums.of(large, schedule.columns_at_once, row_blocks)
            return RunningSums(sums, small, in_blocks=False)
        unset = WarpgroupSums.unset(len(large) * WARPGROUP_THREADS // WARPGROUP_ROWS)
        return RunningSums(unset, small, in_blocks=True, rounded=large)

    @staticmethod
    def zero(schedule: MatrixSchedule) -> RunningSums:
        """Zeros, for a loop to carry."""
        zero = zero_scalar(MATRIX_SUMS.type)
        count = schedule.warpgroup_rows * schedule.block_columns // WARPGROUP_THREADS
        return RunningSums.of(schedule, [[zero] * count for _ in range(schedule.parts)])

    @property
    def values(self) -> list[ir.Value]:
        """What a loop carries."""
        large = [self.large.value] if self.rounded is None else self.rounded
        return [*large, *([self.small.value] if self.small is not None else [])]

    def at(self, values: Sequence[ir.Value]) -> RunningSums:
        """The same sums later on."""
        count = len(values) - (self.small is not None)
        small = self.small and self.small.at(values[-1])
        if self.rounded is None:
            return replace(self, large=self.large.at(values[0]), small=small)
        return replace(self, rounded=values[:count], small=small)

    def add(self, steps: Sequence[Step], *, ends_block: bool = True) -> RunningSums:
        """Starts products, with which a block may end; all that were started before are done then."""
        begin_products()
        large, small = self.large, self.small
        rounds = self.in_blocks and ends_block
        begins_block = self.in_blocks and not self.is_within_block
        for number, step in enumerate(steps):
            begins = number == 0 and (begins_block or not self.are_set)
            large = large.add(step.rows[0], step.columns[0], begins=begins)
        if small is not None:
            if rounds:
                commit_products()
            for number, step in enumerate(steps):
                (high_rows, low_rows), (high_columns, low_columns) = step.rows, step.columns
                begins = number == 0 and not self.are_set
                small = small.add(high_rows, low_columns, begins=begins).add(low_rows, high_columns)
        commit_products()
        if not rounds:
            wait_for_products(pending=1)
            return replace(self, large=large, small=small, are_set=True, is_within_block=True)
        (block,) = landed_sums([large], pending=0 if small is None else 1)
        rounded = block
        if self.rounded is not None:
            added = [arith.addf(before, each) for before, each in zip(self.rounded, block, strict=True)]
            rounded = settled_sums(added)
        return RunningSums(WarpgroupSums.of(block), small, in_blocks=True, rounded=rounded)

    def landed(self) -> list[list[ir.Value]]:
        """The sums one by one, when all products are done: of large ones, then of small ones."""
        small = [] if self.small is None else [self.small]
        if self.rounded is None:
            return landed_sums([self.large, *small])
        return [list(self.rounded), *landed_sums(small)]
