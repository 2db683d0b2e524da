"""Panels of the columns of a matrix that kernels of attention and of batched products multiply rows by."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu.processor.product import RegisterBlock
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import named
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.vectors import LaneMask

_MOST_VECTORS = 4
"""Of a row of a register block."""
INDEPENDENT_SUMS = 8
"""Vectors of sums that multiply-adds take in turns in order not to wait for each other."""
_LOAD = 0.25
"""What a load takes beside multiply-adds, of the time of one of these."""
_PREFETCH = 8


@dataclass(frozen=True)
class ColumnPanels:
    """As many columns in each as a register block has channels: the last panel overlaps its neighbour.

    A single panel may have lanes beyond all columns, which are left out.
    """

    columns: int
    block: RegisterBlock

    @property
    def count(self) -> int:
        return ceil_div(self.columns, self.block.channels)

    @property
    def are_whole(self) -> bool:
        """Whether they have all columns without overlapping."""
        return self.columns % self.block.channels == 0

    def first(self, panel: Index) -> Index:
        """The first column of a panel."""
        channels, columns = self.block.channels, self.columns
        column = panel * channels
        return column if columns <= channels or self.are_whole else column.minimum(columns - channels)

    def load(self, buffer: Buffer, offset: Index, lane: int) -> ir.Value:
        """The vector of a row of a panel from `lane` on, which is at `offset`; zeros beyond all columns."""
        mask = self._mask(lane)
        return buffer.load(offset, self.block.width) if mask is None else buffer.load_lanes(offset, mask)

    def store(self, value: ir.Value, buffer: Buffer, offset: Index, lane: int) -> None:
        """Writes such a vector, as far as there are columns."""
        if lane >= self.columns:
            return
        mask = self._mask(lane)
        if mask is None:
            buffer.store(value, offset)
        else:
            buffer.store_lanes(value, offset, mask)

    def _mask(self, lane: int) -> LaneMask | None:
        """Which lanes of a vector from `lane` on are columns, where it isn't all."""
        rest = self.columns - lane
        if self.columns >= self.block.channels or rest >= self.block.width:
            return None
        with named("columns"):
            return LaneMask.between(0, rest, self.block.width)


def register_block(
    rows: int, columns: int, target: CpuTarget, most_channels: int | None = None
) -> RegisterBlock:
    """That by which `rows` x `columns` sums take the fewest vectors, and few loads.

    It has no more than `most_channels` channels, if that is given, which is a vector's lanes or more. Else a
    single panel may have more than there are columns.
    """
    width = target.vector_width
    while width >= 2 * columns:
        width //= 2
    most_vectors = ceil_div(columns, width) if most_channels is None else most_channels // width

    def cost(block: RegisterBlock) -> float:
        work = block.channel_work
        blocks = ceil_div(columns, block.channels) * ceil_div(rows, block.rows)
        return blocks * (max(work.multiply_adds, work.loads, INDEPENDENT_SUMS) + _LOAD * work.loads)

    candidates = (
        RegisterBlock(count, vectors, width, _PREFETCH)
        for vectors in range(1, min(_MOST_VECTORS, most_vectors) + 1)
        for count in range(1, min(rows, RegisterBlock.most_rows(vectors, target)) + 1)
    )
    return min(candidates, key=cost)
