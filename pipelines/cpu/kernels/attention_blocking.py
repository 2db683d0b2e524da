"""How the CPU kernel of attention divides matrices among workgroups, and what these do at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.products.attention import AttentionProblem
from iree.winograd.pipelines.cpu.kernels.column_panels import (
    INDEPENDENT_SUMS,
    ColumnPanels,
    register_block,
)
from iree.winograd.pipelines.cpu.processor.product import RegisterBlock
from iree.winograd.pipelines.cpu.processor.target import ROW_PADDING, CpuTarget
from iree.winograd.pipelines.emission.numbers.f32 import F32

_MOST_ROWS = 64
"""Queries whose scores are computed together."""
_SHARE_OF_CACHE = 0.75
"""Of L2, for all that a workgroup has copies of, and scores."""
_PACKING_ROWS = 8
"""Queries that take as long to attend as keys and values take to be packed, about."""
_BEGINNING_ROWS = 2
"""Queries that take as long to attend as a block of queries takes to begin, about."""
_WEIGHT_CYCLES = 1.5
"""Of a query's weight of a key, about, where two vectors are multiplied in a cycle."""
_KEY_BLOCK_CYCLES = 100
"""Of a query's weights for each further block of keys, whatever its length."""
_RESCALING_CYCLES = 0.2
"""Of an element of a query's mixture."""
_MOST_KEY_BLOCKS = 4096
_FURTHER_BLOCKS = 8
"""Blocks of keys beyond the least number that are looked at: smaller ones leave room for more queries."""
_WORKGROUPS = 4
"""For each thread, where there are several, so that they are done at about the same time."""


@dataclass(frozen=True)
class _Blocks:
    rows: int
    """Queries of a block, whose scores lie beside each other."""
    part_rows: int
    """Queries that share packed keys and values, whole blocks where keys are several."""
    key_blocks: int


@dataclass(frozen=True)
class AttentionBlocking:
    """Blocks of queries and of keys, and panels of these and of values.

    But for panels, `fits` has to hold.
    """

    problem: AttentionProblem
    target: CpuTarget
    threads: int

    @property
    def fits(self) -> bool:
        """Whether a workgroup's memory has room for a block of keys and values, and scores of some queries.

        Rows of fewer keys than a vector has lanes don't.
        """
        return self.problem.scores.columns >= self.target.vector_width and self._best is not None

    @cached_property
    def score_block(self) -> RegisterBlock:
        """The product of queries and a panel of keys."""
        scores = self.problem.scores
        return register_block(scores.rows, scores.columns, self.target, scores.columns)

    @cached_property
    def value_block(self) -> RegisterBlock:
        """The product of weights and a panel of values."""
        mixtures = self.problem.mixtures
        return register_block(mixtures.rows, mixtures.columns, self.target)

    @property
    def key_panels(self) -> ColumnPanels:
        return ColumnPanels(self.problem.scores.columns, self.score_block)

    @property
    def value_panels(self) -> ColumnPanels:
        return ColumnPanels(self.problem.mixtures.columns, self.value_block)

    @property
    def rows(self) -> int:
        """Queries of a block."""
        return self._chosen.rows

    @property
    def part_rows(self) -> int:
        """Queries of a part, which share packed keys and values."""
        return self._chosen.part_rows

    @property
    def key_blocks(self) -> int:
        return self._chosen.key_blocks

    @property
    def block_keys(self) -> int:
        """Of a block, as panels have them."""
        return self._keys_of(self.key_blocks)

    @property
    def stride(self) -> int:
        """From a row of scores to the next."""
        return self.block_keys + ROW_PADDING

    @property
    def matrix_parts(self) -> int:
        """Parts of a matrix of queries."""
        return ceil_div(self.problem.scores.rows, self.part_rows)

    @property
    def parts(self) -> int:
        """Of all matrices."""
        return self.problem.scores.batch * self.matrix_parts

    @property
    def workgroup_parts(self) -> int:
        if self.threads == 1:
            return self.parts
        return ceil_div(self.parts, min(self.parts, _WORKGROUPS * self.threads))

    @property
    def _chosen(self) -> _Blocks:
        assert self._best is not None
        return self._best

    @cached_property
    def _best(self) -> _Blocks | None:
        """What takes the least time, of what fits; None where nothing does."""
        return min(filter(self._has_memory, self._candidates()), key=self._cost, default=None)

    def _candidates(self) -> Iterator[_Blocks]:
        """All keys at once, or blocks of two panels at least: in the least number that fits, or some more."""
        queries, batch = self.problem.scores.rows, self.problem.scores.batch
        most_part = (
            queries if self.threads == 1 else ceil_div(queries, ceil_div(_WORKGROUPS * self.threads, batch))
        )
        sizes = range(1, min(_MOST_ROWS, queries) + 1)
        yield from (_Blocks(rows, max(rows, most_part), 1) for rows in sizes)
        numbers = range(2, min(self.key_panels.count // 2, _MOST_KEY_BLOCKS) + 1)
        least = next((each for each in numbers if self._has_memory(_Blocks(1, 1, each))), None)
        if least is None:
            return
        for key_blocks in range(least, min(least + _FURTHER_BLOCKS, numbers[-1]) + 1):
            for rows in sizes:
                most = max(1, most_part // rows)
                counts = {ceil_div(most, parts) for parts in range(1, most + 1)}
                yield from (_Blocks(rows, rows * count, key_blocks) for count in sorted(counts))

    def _has_memory(self, blocks: _Blocks) -> bool:
        keys, values = self._keys_of(blocks.key_blocks), self.value_panels.count * self.value_block.channels
        floats = keys * (self.problem.scores.reduction + values)
        floats += blocks.rows * (keys + ROW_PADDING + 1)
        if blocks.key_blocks > 1:
            floats += blocks.part_rows * (values + 2)
        return F32.bytes * floats <= _SHARE_OF_CACHE * self.target.workgroup_bytes

    def _keys_of(self, key_blocks: int) -> int:
        return ceil_div(self.key_panels.count, key_blocks) * self.score_block.channels

    def _cost(self, blocks: _Blocks) -> float:
        """The time of all queries of a matrix, in that of a query by one block of all keys.

        Each part packs keys and values, and begins its blocks of queries.
        """
        rows = max(_register_rows(block, blocks.rows) for block in (self.score_block, self.value_block))
        part = ceil_div(blocks.part_rows, blocks.rows) * (rows + _BEGINNING_ROWS) + _PACKING_ROWS
        parts = ceil_div(self.problem.scores.rows, blocks.part_rows)
        mixed = self.problem.mixtures.columns
        products = (self.problem.scores.reduction + mixed) / (2 * self.target.vector_width)
        all_keys = self.problem.scores.columns * (products + _WEIGHT_CYCLES)
        further = (blocks.key_blocks - 1) * (_KEY_BLOCK_CYCLES + _RESCALING_CYCLES * mixed)
        return parts * part * (1 + further / all_keys)


def _register_rows(block: RegisterBlock, rows: int) -> int:
    """Rows that register blocks multiply in the time that they take for so many."""
    rest = rows % block.rows
    return rows - rest + (max(rest, ceil_div(INDEPENDENT_SUMS, block.vectors)) if rest else 0)
