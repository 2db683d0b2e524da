"""The product stage: blocks of sums of products, as a unit of the processor computes them.

All that multiplies matrices does so by a `Product`: the kernels say where its operands lie, and what happens
to its sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir, vector
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop_carried, named
from iree.winograd.pipelines.emission.index import Index, IndexLike
from iree.winograd.pipelines.emission.vectors import broadcast, multiply_add, splat
from iree.winograd.pipelines.problems.cache_line import CACHE_LINE_BYTES

from .target import CpuTarget

CACHE_LINE_FLOATS = CACHE_LINE_BYTES // 4
FETCHING_ROWS = 8
"""Rows that take as long to multiply by a line of filters as a line takes to come from memory, about."""


@dataclass(frozen=True)
class Rows:
    """The left operand: `step` elements from one to the next in a row, `stride` from one row to the next."""

    buffer: Buffer
    first: Index
    stride: IndexLike
    step: IndexLike = 1


@dataclass(frozen=True)
class Panel:
    """The right operand: filters of one block of output channels, from one input channel on.

    They are packed, or `step` elements from one input channel to the next.
    """

    buffer: Buffer
    first: Index
    step: IndexLike | None = None


@dataclass(frozen=True)
class ChannelWork:
    """What a product does for one input channel, in instructions on vectors."""

    multiply_adds: int
    loads: int


class Product(Protocol):
    """sums[i, k] += sum over c of rows[i, c] * panel[c, k], for a block of rows and of output channels."""

    @property
    def rows(self) -> int:
        """Rows of the block: tiles or pixels."""

    @property
    def channels(self) -> int:
        """Output channels of the block."""

    def misfit(self, target: CpuTarget) -> Reason | None:
        """Why this can't be computed on the target; None where it can."""

    def panel_shape(self, reduction: int) -> tuple[int, ...]:
        """The packed filters of one block of channels, in the order of reading."""

    @property
    def channel_work(self) -> ChannelWork:
        """What the time is predicted from."""

    def filters_ahead(self, blocks: int) -> int:
        """Of a further panel, the filters that are fetched for each input channel of so many blocks.

        All blocks of rows that share a panel fetch the next one together: the first to multiply with it would
        wait for memory, if it alone did. None where rows are so few that memory keeps them waiting: lines
        that are asked for then come no faster than those that the hardware's prefetcher finds, but slower.
        """

    def zeros(self, element: ir.Type) -> list[ir.Value]:
        """The block before anything is added: row by row, vectors of neighbouring output channels."""

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


@dataclass(frozen=True)
class RegisterBlock:
    """The product on vectors: `rows` x `vectors` sums of `width` lanes in registers.

    An element of each row, broadcast, is multiplied with a row of filters. Filters are fetched
    `filter_prefetch` channels ahead.
    """

    rows: int
    vectors: int
    width: int
    filter_prefetch: int

    @staticmethod
    def most_rows(vectors: int, target: CpuTarget, sum_registers: int = 1) -> int:
        """Rows that registers hold, with so many for each sum.

        The others are for broadcast elements, and one each for the filter vectors.
        """
        free = target.vector_registers - vectors - target.instruction_set.element_registers
        return max(1, free // (vectors * sum_registers))

    @property
    def channels(self) -> int:
        return self.width * self.vectors

    def misfit(self, target: CpuTarget) -> Reason | None:
        if self.width > target.vector_width:
            return f"vectors of {self.width} lanes exceed the target's of {target.vector_width}"
        return None

    def panel_shape(self, reduction: int) -> tuple[int, int]:
        """reduction x channels."""
        return (reduction, self.channels)

    @property
    def channel_work(self) -> ChannelWork:
        return ChannelWork(self._sums, self.rows + self.vectors)

    def filters_ahead(self, blocks: int) -> int:
        return ceil_div(self.channels, blocks) if blocks * self.rows >= FETCHING_ROWS else 0

    def zeros(self, element: ir.Type) -> list[ir.Value]:
        return [splat(0.0, self.width, element)] * self._sums

    def add(
        self,
        sums: list[ir.Value],
        rows: Rows,
        panel: Panel,
        extent: IndexLike,
        target: CpuTarget,
        beside: Callable[[Index], None] | None = None,
    ) -> list[ir.Value]:
        lanes = self._element_lanes(rows, extent, target)
        together = Index.of(extent).known or 0
        together -= together % lanes

        def add_channel(c: Index, sums: list[ir.Value]) -> list[ir.Value]:
            return self._add_products(c, sums, self._elements(rows, c), panel, target, beside)

        def add_channels(c: Index, sums: list[ir.Value]) -> list[ir.Value]:
            position = rows.first + c
            with named("elements"):
                loaded = [rows.buffer.load(position + i * rows.stride, lanes) for i in range(self.rows)]
            for lane in range(lanes):
                elements = [vector.extract(each, [], [lane]) for each in loaded]
                sums = self._add_products(c + lane, sums, elements, panel, target, beside)
            return sums

        if lanes == 1:
            return loop_carried(extent, 1, sums, add_channel, "c")
        sums = loop_carried(together, lanes, sums, add_channels, "c")
        if together == extent:
            return sums
        return loop_carried(extent - together, 1, sums, lambda c, sums: add_channel(c + together, sums), "c")

    def _elements(self, rows: Rows, c: Index) -> Iterator[ir.Value]:
        """One of each row, loaded when it is asked for: it needs a register from then on."""
        position = rows.first + c * rows.step
        for i in range(self.rows):
            with named("element"):
                element = rows.buffer.load_scalar(position + i * rows.stride)
            yield element

    def _element_lanes(self, rows: Rows, extent: IndexLike, target: CpuTarget) -> int:
        """The elements of a row that are loaded together, for so many channels, if registers hold them."""
        lanes = target.instruction_set.element_lanes
        known = Index.of(extent).known
        has_them = known is not None and known >= lanes and Index.of(rows.step).known == 1
        return lanes if has_them and self._sums + self.rows + self.vectors <= target.vector_registers else 1

    def _add_products(
        self,
        c: Index,
        sums: list[ir.Value],
        elements: Iterable[ir.Value],
        panel: Panel,
        target: CpuTarget,
        beside: Callable[[Index], None] | None,
    ) -> list[ir.Value]:
        """Those of one channel, of which there is an element for each row."""
        step = self.channels if panel.step is None else panel.step
        first = panel.first + c * step
        with named("filter"):
            filters = [panel.buffer.load(first + v * self.width, self.width) for v in range(self.vectors)]
        for lane in range(0, self.channels, CACHE_LINE_BYTES // panel.buffer.number.bytes):
            panel.buffer.prefetch(first + (lane + self.filter_prefetch * step))
        if beside is not None:
            beside(c)
        added = []
        for i, scalar in enumerate(elements):
            with named("element"):
                element = broadcast(scalar, self.width)
            with named("sum"):
                for v, filter_vector in enumerate(filters):
                    total = sums[i * self.vectors + v]
                    added.append(multiply_add(element, filter_vector, total, target.fused_multiply_add))
        return added

    @property
    def _sums(self) -> int:
        return self.rows * self.vectors
