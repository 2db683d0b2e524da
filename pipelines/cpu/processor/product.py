"""The product stage: blocks of sums of products, as a unit of the processor computes them.

All that multiplies matrices does so by a `Product`: the kernels say where its operands lie, and what happens
to its sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.passes.match.element_types import F32, ElementTypes
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop_carried, named
from iree.winograd.pipelines.emission.index import Index, IndexLike
from iree.winograd.pipelines.emission.vectors import broadcast, multiply_add, splat

from .target import CpuTarget

CACHE_LINE = 16
"""f32 elements of one."""
FETCHING_ROWS = 8
"""Rows that take as long to multiply by a line of filters as a line takes to come from memory, about."""


@dataclass(frozen=True)
class Rows:
    """The left operand: `step` elements from one to the next in a row, `stride` from one row to the next."""

    buffer: Buffer
    first: Index
    stride: int
    step: int = 1


@dataclass(frozen=True)
class Panel:
    """The right operand: filters of one block of output channels, from one input channel on.

    They are packed, or `step` elements from one input channel to the next.
    """

    buffer: Buffer
    first: Index
    step: int | None = None


@dataclass(frozen=True)
class ChannelWork:
    """What a product does for one input channel, in instructions on vectors."""

    multiply_adds: int
    loads: int
    independent_sums: int
    """Sums of an output that don't wait for each other."""


class Product(Protocol):
    """sums[i, k] += sum over c of rows[i, c] * panel[c, k], for a block of rows and of output channels."""

    @property
    def rows(self) -> int:
        """Rows of the block: tiles or pixels."""

    @property
    def channels(self) -> int:
        """Output channels of the block."""

    def misfit(self, target: CpuTarget, types: ElementTypes) -> Reason | None:
        """Why this can't be computed on the target or for the types; None where it can."""

    def panel_shape(self, reduction: int) -> tuple[int, ...]:
        """The packed filters of one block of channels, in the order of reading."""

    def summed(self, extent: int) -> int:
        """Products that are summed one after the other where `extent` channels are: what sums round by."""

    @property
    def channel_work(self) -> ChannelWork:
        """What the time is predicted from."""

    def filters_ahead(self, blocks: int) -> int:
        """Of a further panel, the filters that are fetched for each input channel of so many blocks.

        All blocks of rows that share a panel fetch the next one together: the first to multiply with it would
        wait for memory, if it alone did. None where rows are so few that memory keeps them waiting: lines
        that are asked for then come no faster than those that the hardware's prefetcher finds, but slower.
        """

    def zeros(self, extent: int, element: ir.Type) -> list[ir.Value]:
        """The block before `extent` channels are added, with sums of the given type."""

    def add(
        self,
        sums: list[ir.Value],
        rows: Rows,
        panel: Panel,
        extent: IndexLike,
        target: CpuTarget,
        beside: Callable[[Index], None] | None = None,
    ) -> list[ir.Value]:
        """Emits the loop that adds the products of `extent` channels to `sums`.

        `beside` emits what is done for each channel meanwhile: other data, fetched all at once, would keep
        the filters waiting.
        """

    def finished(self, sums: list[ir.Value]) -> list[ir.Value]:
        """The block row by row, as vectors of neighbouring output channels."""


@dataclass(frozen=True)
class RegisterBlock:
    """The product on vectors: `rows` x `vectors` sums of `width` lanes in registers.

    An element of each row, broadcast, is multiplied with a row of filters. `interleaved_sums` of each output
    take channels in turn and are added up at the end. Filters are fetched `filter_prefetch` channels ahead.
    """

    rows: int
    vectors: int
    width: int
    filter_prefetch: int
    interleaved_sums: int = 1

    @staticmethod
    def most_rows(vectors: int, target: CpuTarget) -> int:
        """Rows that registers hold: one is for the broadcast element, one each for the filter vectors."""
        return max(1, (target.vector_registers - vectors - 1) // vectors)

    @property
    def channels(self) -> int:
        return self.width * self.vectors

    def misfit(self, target: CpuTarget, types: ElementTypes) -> Reason | None:
        if self.width > target.vector_width:
            return f"vectors of {self.width} lanes exceed the target's of {target.vector_width}"
        return None if types == F32 else f"vectors of {F32} don't multiply {types}"

    def panel_shape(self, reduction: int) -> tuple[int, int]:
        """reduction x channels."""
        return (reduction, self.channels)

    def summed(self, extent: int) -> int:
        return -(-extent // self.interleaved_sums)

    @property
    def channel_work(self) -> ChannelWork:
        return ChannelWork(self._sums, self.rows + self.vectors, self.interleaved_sums)

    def filters_ahead(self, blocks: int) -> int:
        return -(-self.channels // blocks) if blocks * self.rows >= FETCHING_ROWS else 0

    def zeros(self, extent: int, element: ir.Type) -> list[ir.Value]:
        """One set of sums, or as many as are interleaved if these divide `extent`."""
        interleaved = self.interleaved_sums if extent % self.interleaved_sums == 0 else 1
        return [splat(0.0, self.width, element)] * (interleaved * self._sums)

    def add(
        self,
        sums: list[ir.Value],
        rows: Rows,
        panel: Panel,
        extent: IndexLike,
        target: CpuTarget,
        beside: Callable[[Index], None] | None = None,
    ) -> list[ir.Value]:
        interleaved = len(sums) // self._sums

        def add_channels(c: Index, sums: list[ir.Value]) -> list[ir.Value]:
            added: list[ir.Value] = []
            for i in range(interleaved):
                own = sums[i * self._sums : (i + 1) * self._sums]
                added += self._add_channel(c + i, own, rows, panel, target, beside)
            return added

        return loop_carried(extent, interleaved, sums, add_channels, "c")

    def _add_channel(
        self,
        c: Index,
        sums: list[ir.Value],
        rows: Rows,
        panel: Panel,
        target: CpuTarget,
        beside: Callable[[Index], None] | None,
    ) -> list[ir.Value]:
        step = self.channels if panel.step is None else panel.step
        first = panel.first + c * step
        with named("filter"):
            filters = [panel.buffer.load(first + v * self.width, self.width) for v in range(self.vectors)]
        for lane in range(0, self.channels, CACHE_LINE):
            panel.buffer.prefetch(first + (lane + self.filter_prefetch * step))
        if beside is not None:
            beside(c)
        position = rows.first + c * rows.step
        added = []
        for i in range(self.rows):
            with named("element"):
                element = broadcast(rows.buffer.load_scalar(position + i * rows.stride), self.width)
            with named("sum"):
                for v, filter_vector in enumerate(filters):
                    total = sums[i * self.vectors + v]
                    added.append(multiply_add(element, filter_vector, total, target.fused_multiply_add))
        return added

    def finished(self, sums: list[ir.Value]) -> list[ir.Value]:
        total = sums[: self._sums]
        with named("sum"):
            for first in range(self._sums, len(sums), self._sums):
                others = sums[first : first + self._sums]
                total = [arith.addf(one, other) for one, other in zip(total, others, strict=True)]
        return total

    @property
    def _sums(self) -> int:
        return self.rows * self.vectors
