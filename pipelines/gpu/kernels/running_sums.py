"""Sums while warpgroups add products to them: by matrix units alone, or by these in blocks.

Matrix units truncate when they add, all of them towards zero, which shows in long sums. Where large products
are summed in blocks, a thread adds the sum of one to those before, rounded to nearest, while matrix units
multiply the small ones of this block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.gpu.device.memory import constant_quad, lane
from iree.winograd.pipelines.gpu.device.warpgroup import (
    WARPGROUP_ROWS,
    WARPGROUP_THREADS,
    Operand,
    WarpgroupSums,
    begin_products,
    commit_products,
    landed_sums,
    wait_for_products,
)
from iree.winograd.pipelines.gpu.schedules.matrix import MatrixSchedule


@dataclass(frozen=True)
class Step:
    """Rows and columns that are multiplied at once: high parts and, of split numbers, low ones."""

    rows: Sequence[Operand]
    columns: Sequence[Operand]


@dataclass(frozen=True)
class RunningSums:
    """A thread's sums of large products, and of small ones where numbers are split."""

    large: WarpgroupSums | None
    """None where they are summed in blocks."""
    small: WarpgroupSums | None
    block: WarpgroupSums | None
    """What was there before the sums of a block, whose registers these take. None without blocks."""
    rounded: Sequence[ir.Value] = ()
    """The sums of the blocks so far, one by one."""

    @staticmethod
    def of(schedule: MatrixSchedule, scalars: Sequence[Sequence[ir.Value]]) -> RunningSums:
        """Those that are known one by one, of large products and of small ones."""
        large, *others = scalars
        small = WarpgroupSums.of(others[0]) if others else None
        if schedule.summed_block is None:
            return RunningSums(WarpgroupSums.of(large), small, None)
        return RunningSums(None, small, WarpgroupSums.zero(schedule.block_columns), large)

    @property
    def values(self) -> list[ir.Value]:
        """What a loop carries."""
        return [*self.rounded, *(each.value for each in (self.large, self.small) if each is not None)]

    def at(self, values: Sequence[ir.Value]) -> RunningSums:
        """The same sums later on."""
        count = len(self.rounded)
        rest = iter(values[count:])
        large, small = (each and each.at(next(rest)) for each in (self.large, self.small))
        return replace(self, large=large, small=small, rounded=values[:count])

    def add(self, steps: Sequence[Step]) -> RunningSums:
        """Starts the products of a block; all that were started before are done then."""
        begin_products()
        large = self._add_large(steps)
        small = self.small
        if small is not None:
            if self.block is not None:
                commit_products()
            for step in steps:
                (high_rows, low_rows), (high_columns, low_columns) = step.rows, step.columns
                small = small.add(high_rows, low_columns).add(low_rows, high_columns)
        commit_products()
        if self.block is None:
            wait_for_products(pending=1)
            return replace(self, large=large, small=small)
        (block,) = landed_sums([large], pending=0 if small is None else 1)
        rounded = [arith.addf(before, each) for before, each in zip(self.rounded, block, strict=True)]
        return RunningSums(None, small, WarpgroupSums.of(block), rounded)

    def _add_large(self, steps: Sequence[Step]) -> WarpgroupSums:
        sums = self.large if self.block is None else self.block
        assert sums is not None
        for number, step in enumerate(steps):
            begins = self.block is not None and number == 0
            sums = sums.add(step.rows[0], step.columns[0], begins=begins)
        return sums

    def landed(self) -> list[list[ir.Value]]:
        """The sums one by one, when all products are done: of large ones, then of small ones."""
        started = landed_sums([each for each in (self.large, self.small) if each is not None])
        return started if self.block is None else [list(self.rounded), *started]


def no_sums(schedule: MatrixSchedule) -> list[list[ir.Value]]:
    """A thread's sums one by one, of large products and of small ones, before there are any."""
    zero = lane(constant_quad(0.0), 0)
    count = WARPGROUP_ROWS * schedule.block_columns // WARPGROUP_THREADS
    return [[zero] * count for _ in range(schedule.parts)]
