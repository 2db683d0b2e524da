"""The pixels of a warpgroup in shared memory, as rows of products: copied there, or copied and split."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.vectors import broadcast, vector_type
from iree.winograd.pipelines.gpu.device.memory import QUAD, GlobalBuffer, thread_id
from iree.winograd.pipelines.gpu.device.shuffles import over_threads
from iree.winograd.pipelines.gpu.device.warpgroup import (
    COPIED_BYTES,
    REDUCTION,
    SWIZZLED_ROWS,
    WARPGROUP_ROWS,
    WARPGROUP_THREADS,
    Operand,
    SharedBytes,
    commit_copies,
    index_here,
    publish,
    wait_for_copies,
    warpgroup_barrier,
)
from iree.winograd.pipelines.gpu.packing.split import SPLIT
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES, STAGE_ROW_BYTES
from iree.winograd.pipelines.gpu.schedules.pointwise_pair import PointwisePairSchedule

from .splitting import largest_magnitude, parts_of, scales_for

ROW_CHUNKS = STAGE_ROW_BYTES // COPIED_BYTES
_TILE_BYTES = WARPGROUP_ROWS * STAGE_ROW_BYTES
"""Of 128 bytes of each of 64 rows."""
_ROW_THREADS = WARPGROUP_THREADS // WARPGROUP_ROWS
"""That split a pixel."""


@dataclass(frozen=True)
class Pixels(ABC):
    """64 pixels of `image`, of so many channels, from a place in `shared` on. There are `count` of them."""

    schedule: PointwisePairSchedule
    channels: int
    image: GlobalBuffer
    count: Index
    shared: SharedBytes
    place: Index
    warpgroup: Index

    @property
    def _thread(self) -> Index:
        """Of the warpgroup."""
        return thread_id() % WARPGROUP_THREADS

    def begin(self, first: Index) -> None:
        """Begins to copy those from `first` on, zeros for what is behind the last one.

        No warp may multiply what is there any more.
        """
        width, chunks = self.image.number.bytes, self.channels * self.image.number.bytes // COPIED_BYTES
        origin = Index.of(self.image.offset([0] * len(self.image.extents)))
        pitch = Index.of(self.image.stride(-2)) * width
        row, within = self._thread // ROW_CHUNKS, self._thread % ROW_CHUNKS
        own = first + row
        source = self.image.address + origin * width + own * pitch + within * COPIED_BYTES
        to = self._copied_place + row * STAGE_ROW_BYTES + _swizzled(row, within)
        # Places that are some constants apart.
        for tile in range(0, chunks, ROW_CHUNKS):
            for ahead in range(0, WARPGROUP_ROWS, WARPGROUP_THREADS // ROW_CHUNKS):
                exists = (own + ahead).less_than(self.count)
                if tile + ROW_CHUNKS > chunks:
                    exists = exists & (within + tile).less_than(chunks)
                self.shared.copy_chunk(
                    to + (tile // ROW_CHUNKS * _TILE_BYTES + ahead * STAGE_ROW_BYTES),
                    source + pitch * ahead + tile * COPIED_BYTES,
                    exists,
                )
        commit_copies()

    @property
    @abstractmethod
    def _copied_place(self) -> Index:
        """Where they are copied to."""

    @abstractmethod
    def end(self) -> None:
        """Waits until all threads of the warpgroup have them as rows of products."""

    def scales(self, rows: list[Index]) -> list[ir.Value | None]:
        """Those of rows, as quads of equal elements; None where they have none."""
        return [None for _ in rows]

    def operands(self, step: int) -> list[Operand]:
        """16 channels of them, by parts."""
        steps = self.schedule.chunk // REDUCTION
        rows = self.shared.operand(self.place + step // steps * _TILE_BYTES, self.schedule.widening.factors)
        return [rows.step(part * steps + step % steps) for part in range(self.schedule.parts)]


class HalfPixels(Pixels):
    """Numbers of half precision, multiplied as they are."""

    @property
    def _copied_place(self) -> Index:
        return self.place

    def end(self) -> None:
        wait_for_copies()
        publish()
        warpgroup_barrier(self.warpgroup)


class SplitPixels(Pixels):
    """Numbers of f32, which two threads of a pixel split by its scale: high and low parts in a row.

    Behind the rows is what is copied, then the scales of pixels.
    """

    @property
    def _copied_place(self) -> Index:
        return self.place + self.schedule.row_bytes(self.channels)

    @property
    def _scales_place(self) -> Index:
        return self._copied_place + ceil_div(self.channels * SPLIT.bytes, STAGE_ROW_BYTES) * _TILE_BYTES

    def end(self) -> None:
        wait_for_copies()
        # Each reads what others copied.
        warpgroup_barrier(self.warpgroup)
        # Places are computed for each block, not kept in registers.
        thread = index_here(self._thread)
        row, first = thread // _ROW_THREADS, thread % _ROW_THREADS
        own = [first + begin for begin in range(0, self.channels // QUAD, _ROW_THREADS)]
        quads = [self._load(row, quad) for quad in own]
        largest = over_threads(largest_magnitude(quads), _ROW_THREADS, arith.maxui)
        scale, inverse = scales_for(largest, growth=0)
        self.shared.store(scale, self._scales_place + row * SPLIT.bytes)
        for quad, loaded in zip(own, quads, strict=True):
            parts = parts_of(arith.mulf(loaded, broadcast(inverse, QUAD)), self.schedule.widening)
            for number, part in enumerate(parts):
                self.shared.store(part, self._part_place(row, quad, number))
        publish()
        warpgroup_barrier(self.warpgroup)

    def _load(self, row: Index, quad: Index) -> ir.Value:
        tile, within = quad // ROW_CHUNKS, quad % ROW_CHUNKS
        place = self._copied_place + tile * _TILE_BYTES + row * STAGE_ROW_BYTES + _swizzled(row, within)
        return self.shared.load(vector_type(QUAD, SPLIT.type), place)

    def _part_place(self, row: Index, quad: Index, part: int) -> Index:
        """Where a part of a quad of channels lies in the rows."""
        channel = quad * QUAD
        stage, position = channel // self.schedule.chunk, channel % self.schedule.chunk
        byte = (position + part * self.schedule.chunk) * HALF_BYTES
        chunk, within = byte // COPIED_BYTES, byte % COPIED_BYTES
        return self.place + stage * _TILE_BYTES + row * STAGE_ROW_BYTES + _swizzled(row, chunk) + within

    def scales(self, rows: list[Index]) -> list[ir.Value | None]:
        return [
            broadcast(self.shared.load(SPLIT.type, self._scales_place + row * SPLIT.bytes), QUAD)
            for row in rows
        ]


def _swizzled(row: Index, chunk: Index) -> Index:
    """Where a chunk of a row lies in that."""
    return (chunk ^ (row % SWIZZLED_ROWS)) * COPIED_BYTES
