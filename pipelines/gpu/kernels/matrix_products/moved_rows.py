"""Rows of half precision that all threads of a workgroup move to shared memory through their registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir, memref
from iree.winograd.passes.match.products.batch_matmul import Matrices
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Condition, Index, IndexLike
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.gpu.device.matrix_unit import COPIED
from iree.winograd.pipelines.gpu.device.memory import (
    QUAD,
    GlobalBuffer,
    lane,
    quad_of,
    quad_or_zero,
    thread_id,
)
from iree.winograd.pipelines.gpu.device.warpgroup import COPIED_BYTES, SharedBytes, settled_sums
from iree.winograd.pipelines.gpu.schedules.attention import SharedChunks

from .batch_matmul import matrix_origin


@dataclass(frozen=True)
class MovedRows:
    """Rows of a head that the threads of a workgroup move by chunks: each thread one chunk of some rows.

    Through registers: copies beside the computation take two cycles for each chunk, as they aren't neighbours
    in shared memory.
    """

    chunks: ir.Value
    """The tensor, as chunks."""
    first: Index
    """The first of the head."""
    row_chunks: int
    """Chunks from a row to the next."""
    count: int
    """Of rows that there are."""
    length: int
    """Chunks of a row."""
    shared: SharedChunks
    threads: int

    @staticmethod
    def of(
        buffer: GlobalBuffer,
        matrices: Matrices,
        row_stride: int,
        head: Index,
        count: int,
        channels: int,
        shared: SharedChunks,
        threads: int,
    ) -> MovedRows:
        """Raises ValueError as `span` does."""
        chunks = buffer.viewed_as(F32.type, QUAD)
        origin = matrix_origin(matrices, head) // COPIED
        return MovedRows(chunks, origin, row_stride // COPIED, count, channels // COPIED, shared, threads)

    @property
    def _together(self) -> int:
        """Rows that all threads move at once."""
        return min(self.threads // self.length, self.shared.rows)

    @property
    def loads(self) -> int:
        """Of a thread."""
        return ceil_div(self.shared.rows, self._together)

    @property
    def _place(self) -> tuple[Index, Index]:
        """This thread's first row, and its chunk of all of them."""
        return thread_id() // self.length, thread_id() % self.length

    def load(self, first: Index) -> list[ir.Value]:
        """This thread's chunks of the rows from `first` on, as numbers of f32; zeros behind the last one."""
        row, chunk = self._place
        are_all = self.count % self.shared.rows == 0
        quads = []
        for begin in range(0, self.loads * self._together, self._together):
            number = first + row + begin
            offset = self.first + number.minimum(self.count - 1) * self.row_chunks + chunk
            exists = Condition(True) if are_all else number.less_than(self.count)
            quads.append(quad_or_zero(exists, memref.load(self.chunks, [offset.value])))
        # The compiler would load them where they are stored.
        return settled_sums([lane(quad, i) for quad in quads for i in range(QUAD)])

    def store(self, loaded: Sequence[ir.Value], memory: SharedBytes, to: IndexLike) -> None:
        """Leaves them in shared memory."""
        row, chunk = self._place
        place = self.shared.place(row, chunk) + to
        moving, rows = self._together * self.length, self.shared.rows
        is_any = Condition(True) if moving == self.threads else thread_id().less_than(moving)
        for number in range(self.loads):
            begin, quad = number * self._together, quad_of(loaded[number * QUAD : (number + 1) * QUAD])
            is_row = Condition(True) if begin + self._together <= rows else (row + begin).less_than(rows)

            def store(quad: ir.Value = quad, begin: int = begin) -> None:
                memory.store(quad, place + begin * COPIED_BYTES)

            when(is_any & is_row, store)
