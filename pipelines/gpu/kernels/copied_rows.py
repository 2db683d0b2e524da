"""Rows of half precision that a warpgroup copies to shared memory, beside what others do."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.passes.match.batch_matmul import Matrices
from iree.winograd.pipelines.emission.control_flow import when
from iree.winograd.pipelines.emission.index import Condition, Index, IndexLike
from iree.winograd.pipelines.gpu.device.matrix_unit import COPIED
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer
from iree.winograd.pipelines.gpu.device.warpgroup import COPIED_BYTES, WARPGROUP_THREADS, SharedBytes
from iree.winograd.pipelines.gpu.schedules.attention import SharedChunks
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES

from .batch_matmul import matrix_origin


@dataclass(frozen=True)
class CopiedRows:
    """Rows of a head that the threads of a warpgroup copy by chunks: each thread one chunk of some rows."""

    address: Index
    """Of the first row."""
    row_bytes: int
    count: int
    """Of rows that there are."""
    length: int
    """Chunks of a row."""
    shared: SharedChunks
    thread: Index
    """This thread's number in its warpgroup."""

    @staticmethod
    def of(
        buffer: GlobalBuffer,
        matrices: Matrices,
        row_stride: int,
        head: Index,
        count: int,
        channels: int,
        shared: SharedChunks,
        thread: Index,
    ) -> CopiedRows:
        address = buffer.address + matrix_origin(matrices, head) * HALF_BYTES
        return CopiedRows(address, row_stride * HALF_BYTES, count, channels // COPIED, shared, thread)

    def copy(self, first: Index, memory: SharedBytes, to: IndexLike) -> None:
        """Starts to copy the rows from `first` on; zeros for those behind the last one."""
        together = min(WARPGROUP_THREADS // self.length, self.shared.rows)
        row, chunk = self.thread // self.length, self.thread % self.length
        is_any = Condition(True)
        if together * self.length < WARPGROUP_THREADS:
            is_any = self.thread.less_than(together * self.length)
        are_all = self.count % self.shared.rows == 0

        def copy() -> None:
            for begin in range(0, self.shared.rows, together):
                number = first + row + begin
                exists = Condition(True) if are_all else number.less_than(self.count)
                source = number if are_all else number.minimum(self.count - 1)
                address = self.address + source * self.row_bytes + chunk * COPIED_BYTES
                place = self.shared.place(row + begin, chunk) + to
                is_row = Condition(True)
                if begin + together > self.shared.rows:
                    is_row = (row + begin).less_than(self.shared.rows)
                when(
                    is_row,
                    lambda place=place, address=address, exists=exists: memory.copy_chunk(  # type: ignore[misc]
                        place, address, exists
                    ),
                )

        when(is_any, copy)
