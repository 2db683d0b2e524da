"""Workgroups that have a ring of an image's rows in shared memory: how these come, and how results leave."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir, llvm, memref, vector
from iree.winograd.pipelines.emission.control_flow import loop, loop_carried, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Condition, Index, IndexLike, ceildiv, select_index
from iree.winograd.pipelines.emission.vectors import vector_type
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.early_launch import wait_for_kernels_ahead
from iree.winograd.pipelines.gpu.device.matrix_unit import WARP_THREADS
from iree.winograd.pipelines.gpu.device.memory import (
    OCTET,
    QUAD,
    GlobalBuffer,
    barrier,
    lane,
    thread_id,
)
from iree.winograd.pipelines.gpu.device.mma import StageMemory
from iree.winograd.pipelines.gpu.device.pointers import GLOBAL, pointer
from iree.winograd.pipelines.gpu.device.warpgroup import (
    COPIED_BYTES,
    SharedBytes,
    commit_copies,
    wait_for_copies,
)
from iree.winograd.pipelines.gpu.schedules.image_ring import ImageRingTiling
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES

WORD = 32
"""Bits."""


def ring_workgroups(tiling: ImageRingTiling, sizes: Sizes) -> tuple[Index, ...]:
    """Groups of channels of sections of some images."""
    return (sizes.batch // tiling.schedule.images * (tiling.sections * tiling.groups),)


@dataclass(frozen=True)
class _Share:
    """Of so many warps, of a row's pixels."""

    number: Index
    count: int


class ImageRingWorkgroup(ABC):
    """One workgroup, as one of its threads sees it.

    Strips of rows come to shared memory as they lie in the device's, beside the computation of those before.
    Results leave by way of shared memory.
    """

    shares_rows: ClassVar[bool] = False
    """Whether several warps have a row where there are more of them, for which threads need registers."""

    def __init__(
        self,
        tiling: ImageRingTiling,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        self._shape, self._schedule = tiling.shape, tiling.schedule
        self._ring_tiling, self._image, self._output, self._epilogue = tiling, image, output, epilogue
        self._filters = filters
        schedule, thread = self._schedule, thread_id()
        self._thread, self._lane, self._warp = thread, thread % WARP_THREADS, thread // WARP_THREADS
        self._unit = self._warp % schedule.units
        number = work.workgroup[0] // tiling.groups
        self._first_channel = work.workgroup[0] % tiling.groups * schedule.channels
        self._first_image = number // tiling.sections * schedule.images
        self._first_row = number % tiling.sections * schedule.rows
        height = self._shape.output_size[0]
        is_whole = height % schedule.rows == 0
        self._rows = (
            Index(schedule.rows) if is_whole else (Index(height) - self._first_row).minimum(schedule.rows)
        )
        self._channel = self._first_channel + self._unit * schedule.unit_channels
        elements = tiling.bytes(output.number.bytes) // HALF_BYTES
        self._memory = StageMemory.allocate(elements, "rows", schedule.factors.type)
        self._ring = SharedBytes(Index(memref.extract_aligned_pointer_as_index(self._memory.memref)))
        self._results = SharedBytes(self._ring.address + tiling.ring_bytes)

    @abstractmethod
    def _request_taps(self) -> Callable[[], None]:
        """Requests taps; gives what leaves them in shared memory."""

    @abstractmethod
    def _prepare(self) -> None:
        """What is done once, while the first rows are on their way."""

    def _begin(self) -> list[ir.Value]:
        """What the first strip has of one before it, of rows that are there."""
        return []

    @abstractmethod
    def _compute(self, strip: Index, kept: Sequence[ir.Value]) -> Sequence[ir.Value]:
        """Computes a strip of outputs, and leaves results in shared memory.

        Gives what it keeps for the next one.
        """

    def emit(self) -> None:
        tiling = self._ring_tiling
        ahead, held = tiling.first_strips, tiling.section_rows if tiling.holds_section else None
        leave_taps = self._request_taps()
        if self._filters.is_constant:
            wait_for_kernels_ahead()
        for strip in range(ahead):
            left = tiling.strip_step if held is None else held - strip * tiling.strip_step
            self._load(Index(strip), min(left, tiling.strip_step))
        self._read = self._epilogue_operands()
        self._clear_padding()
        leave_taps()
        self._prepare()

        def compute(strip: Index, kept: list[ir.Value]) -> Sequence[ir.Value]:
            self._wait()
            if held is None:
                self._load(strip + ahead, tiling.strip_step)
            else:
                # Groups are counted from the last one.
                commit_copies()
            when(strip.at_least(1), lambda: self._copy_out(strip - 1))
            return self._compute(strip, kept)

        strips = ceildiv(self._rows, self._schedule.strip_rows) if tiling.section_strips > 1 else Index(1)
        loop_carried(strips, 1, self._begin(), compute, "strip")
        barrier()
        self._copy_out(strips - 1)

    def _wait(self) -> None:
        """Until all rows are there that the next strip reads, and results of the one before."""
        wait_for_copies(self._ring_tiling.first_strips - self._ring_tiling.strips_read)
        barrier()

    # The image

    def _place_of(self, column: Index, ahead: int = 0) -> Index:
        """Where the column so many ahead lies in its image's part of a row of the ring."""
        return column + ahead

    def _ring_row(self, number: Index) -> Index:
        """Where a row of the section lies."""
        tiling = self._ring_tiling
        return number if tiling.holds_section else number % tiling.ring_rows

    def _load(self, strip: Index, rows: int) -> None:
        """Starts to copy rows of a strip of the image, zeros above and below it, and groups them."""
        tiling, shape = self._ring_tiling, self._shape
        above, beside = shape.padding_low

        def copy(row: Index, image: Index, share: _Share) -> None:
            number = strip * tiling.strip_step + row
            place = self._first_row * tiling.stride + number - above
            exists = place.within(shape.input_size[0])
            exists = exists & number.less_than((self._rows - 1) * tiling.stride + shape.kernel_size[0])
            to = self._ring_row(number) * tiling.row_columns + image * tiling.image_columns

            def copy_unit(first: Index, ahead: int, unit: Index) -> None:
                channel = self._first_channel + unit * self._schedule.unit_channels
                column = to + self._place_of(first + beside, ahead)
                position = [self._first_image + image, place, first + ahead, channel]
                self._copy((column * tiling.slots + unit) * tiling.slot_bytes, position, exists)

            self._each_unit(share, tiling.loaded_columns, self._schedule.units, copy_unit)

        self._each_row(rows, copy)
        commit_copies()

    def _copy(self, to: Index, position: Sequence[Index], exists: Condition) -> None:
        image, factors = self._image, self._schedule.factors
        is_as_it_is = image.by_quads and image.number.name == factors.name
        width = self._ring_tiling.slot_bytes
        if is_as_it_is and (width < COPIED_BYTES or image.begins_rows_at(self._schedule.unit_channels)):
            source = image.address + image.offset(position) * image.number.bytes
            self._ring.copy_chunk(to, source, exists, width)
            return
        first, row, pixel, channel = position
        row = row.moved_into(self._shape.input_size[0])
        for begin in range(0, self._schedule.unit_channels, QUAD):
            loaded = image.load(image.offset([first, row, pixel, channel + begin]), QUAD, exists)
            self._ring.store(factors.narrowed(loaded), to + begin * HALF_BYTES)

    def _each_row(self, rows: int, do: Callable[[Index, Index, _Share], None]) -> None:
        """Has warps do something for so many rows of all images, by their number and image, and for which
        share of them."""
        images, warps = self._schedule.images, self._schedule.warps
        shares = max(1, warps // (rows * images)) if self.shares_rows else 1
        together = ceil_div(warps, shares)
        share = _Share(self._warp % shares, shares)
        for first in range(0, rows * images, together):
            number = self._warp // shares + first

            def do_row(number: Index = number) -> None:
                do(number // images, number % images, share)

            is_all = first + together <= rows * images
            when(Condition(True) if is_all else number.less_than(rows * images), do_row)

    def _each_unit(
        self, share: _Share, pixels: int, units: int, do: Callable[[Index, int, Index], None]
    ) -> None:
        """Has lanes do something for each unit of each of a row's pixels that are a warp's share.

        By a lane's first pixel, how far ahead of it that pixel is, and the unit.
        """
        together = max(1, WARP_THREADS // units)
        step = together * share.count
        for first_unit in range(0, units, WARP_THREADS):
            unit, first = self._lane % units + first_unit, self._lane // units
            lanes = min(units - first_unit, WARP_THREADS)
            is_any = Condition(True)
            if units > WARP_THREADS:
                unit, first = self._lane + first_unit, Index(0)
                is_any = Condition(True) if lanes == WARP_THREADS else self._lane.less_than(lanes)
            elif WARP_THREADS % units:
                is_any = first.less_than(together)
            first = first + share.number * together

            def do_all(unit: Index = unit, first: Index = first) -> None:
                for begin in range(0, pixels, step):
                    is_all = begin + step <= pixels
                    exists = Condition(True) if is_all else (first + begin).less_than(pixels)
                    when(exists, partial(do, first, begin, unit))

            when(is_any, do_all)

    def _clear_padding(self) -> None:
        """Writes zeros beside the images, which stay there."""
        tiling = self._ring_tiling
        low, loaded = self._shape.padding_low[1], tiling.loaded_columns
        cleared = tiling.image_columns - loaded
        if cleared == 0:
            return
        type_ = words(tiling.slot_bytes)
        zeros = vector.broadcast(type_, arith.constant(ir.VectorType(type_).element_type, 0))

        def clear(row: Index) -> None:
            first = row // self._schedule.images * tiling.row_columns
            first = first + row % self._schedule.images * tiling.image_columns

            def clear_unit(begin: Index, ahead: int, unit: Index) -> None:
                number = begin + ahead
                column = select_index(number.less_than(low), number, number + loaded)
                place = first + self._place_of(column)
                self._ring.store(zeros, (place * tiling.slots + unit) * tiling.slot_bytes)

            self._each_unit(_Share(Index(0), 1), cleared, self._schedule.units, clear_unit)

        rows, warps = tiling.ring_rows * self._schedule.images, self._schedule.warps
        with loop(rows, warps, "cleared") as first:
            row = first + self._warp
            when(Condition(True) if rows % warps == 0 else row.less_than(rows), lambda: clear(row))

    # The results

    def _epilogue_operands(self) -> list[ir.Value] | None:
        """What the epilogue reads of all outputs, of a thread's channels; None where each has its own."""
        if self._epilogue.image_operands > 0:
            return None
        position = Index(0), Index(0)
        return self._epilogue.load(self._first_image, position, self._epilogue_channel, self._epilogue_width)

    @property
    def _epilogue_channel(self) -> Index:
        return self._channel

    @property
    def _epilogue_width(self) -> int:
        return self._schedule.unit_channels

    def _finished(self, sums: ir.Value, strip: Index, image: Index, row: Index, column: Index) -> ir.Value:
        """Those of an output of the strip, of a thread's channels; of outputs that don't exist others'."""
        if self._read is not None:
            return self._epilogue.applied(sums, self._read)
        position = self._first_row + strip * self._schedule.strip_rows + row, column
        height, width = self._shape.output_size
        existing = position[0].minimum(height - 1), position[1].minimum(width - 1)
        return self._epilogue.emit(sums, self._first_image + image, existing, self._epilogue_channel)

    def _leave(
        self,
        finished: ir.Value,
        strip: Index,
        image: Index,
        row: Index,
        column: Index,
        channel: IndexLike,
    ) -> None:
        """Writes results of an output to shared memory, from one of the workgroup's channels on."""
        place = row * self._ring_tiling.result_pitch + image * self._ring_tiling.result_columns + column
        self._results.store(
            self._output.number.narrowed(finished), self._result_offset(strip, place, channel)
        )

    def _result_offset(self, strip: Index, place: IndexLike, channel: IndexLike) -> Index:
        """Of a pixel's results from a channel on, in the memory for them: strips have its halves in turn."""
        per_pixel = self._ring_tiling.slots * self._schedule.unit_channels
        width = self._output.number.bytes
        half = strip % 2 * self._ring_tiling.strip_bytes(width)
        return (Index.of(place) * per_pixel + channel) * width + half

    def _copy_out(self, strip: Index) -> None:
        """Stores the results of a strip."""
        tiling, together = self._ring_tiling, self._stored_together

        def store(row: Index, image: Index, share: _Share) -> None:
            below = strip * self._schedule.strip_rows + row

            def store_chunk(first: Index, ahead: int, chunk: Index) -> None:
                pixel = first + ahead
                place = row * tiling.result_pitch + image * tiling.result_columns + pixel
                position = [self._first_image + image, self._first_row + below, pixel]
                offset = self._output.offset([*position, self._first_channel + chunk * together])
                self._store(self._result_offset(strip, place, chunk * together), offset)

            def store_all() -> None:
                chunks = self._schedule.channels // together
                self._each_unit(share, self._shape.output_size[1], chunks, store_chunk)

            is_all = self._shape.output_size[0] % self._schedule.strip_rows == 0
            when(Condition(True) if is_all else below.less_than(self._rows), store_all)

        self._each_row(self._schedule.strip_rows, store)

    @cached_property
    def _stored_together(self) -> int:
        """Channels that a thread stores at once: eight of half precision where all such lie so in memory."""
        output = self._output
        is_half = output.number.bytes == HALF_BYTES and self._schedule.channels % OCTET == 0
        return OCTET if is_half and output.begins_rows_at(OCTET) else QUAD

    def _store(self, place: Index, offset: Index) -> None:
        output = self._output
        if self._stored_together == QUAD:
            stored = self._results.load(vector_type(QUAD, output.number.type), place)
            output.store(output.number.widened(stored), offset)
            return
        # Slots of quads are at multiples of these.
        width = min(COPIED_BYTES, self._schedule.unit_channels * HALF_BYTES)
        loaded = [
            (self._results.load(words(width), place + begin), number)
            for begin in range(0, COPIED_BYTES, width)
            for number in range(width * 8 // WORD)
        ]
        target = output.address + offset * output.number.bytes
        chunk = vector.from_elements(words(COPIED_BYTES), [lane(part, number) for part, number in loaded])
        llvm.StoreOp(chunk, pointer(target, GLOBAL))


def words(size: int) -> ir.VectorType:
    """So many bytes, in words of 32 bits."""
    return vector_type(size * 8 // WORD, ir.IntegerType.get_signless(WORD))
