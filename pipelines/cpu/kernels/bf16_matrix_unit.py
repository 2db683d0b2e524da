"""The CPU kernel on matrix units for numbers of bf16: the direct convolution, with sums in f32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np
from iree.winograd.dialect.algebra.bf16 import BITS, bf16_bits
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import memref
from iree.winograd.passes.match.constants import Array
from iree.winograd.pipelines.cpu.processor.emulated_matrix_unit import EmulatedBlock
from iree.winograd.pipelines.cpu.processor.matrix_unit import (
    ROW_BYTES,
    TILE_BYTES,
    TILE_CHANNELS,
    TILE_LANES,
    TILE_ROWS,
    TileBlock,
    permitted,
)
from iree.winograd.pipelines.cpu.schedules.matrix_unit import (
    Bf16MatrixUnitSchedule,
    input_step,
    merged_chunks,
    merged_row,
    merged_taps,
    split_columns,
    split_rows,
)
from iree.winograd.pipelines.emission.buffer import (
    Buffer,
    ScratchMemory,
    clear_elements,
    copy_elements,
)
from iree.winograd.pipelines.emission.control_flow import loop, named, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Index, ceildiv
from iree.winograd.pipelines.emission.numbers.bf16 import BF16
from iree.winograd.pipelines.emission.work import Work
from iree.winograd.pipelines.problems.cache_line import CACHE_LINE_BYTES

from .staging import OutputBlock
from .store import RegisterBlockStore
from .tiled import TiledKernel

FETCHED_VECTORS = 4
"""Of outputs, for each tile of the reduction, up to which they are fetched ahead: more take longer than they
gain."""


@dataclass(frozen=True)
class _Rows:
    """Where a workgroup reads its input, channels side by side: distances in elements of bf16."""

    address: Index
    """In bytes, of what the first output reads first."""
    row: int
    column: int
    chunk: int
    """From one to the next 32 channels."""


@dataclass(frozen=True)
class Bf16MatrixUnitKernel(TiledKernel[Bf16MatrixUnitSchedule]):
    """One kernel on the matrix unit, of products of bf16 that are summed in f32.

    An image of bf16 without padding, whose channels fill tiles, is multiplied where it is. Of another one a
    workgroup copies the elements that it needs, between zeros, and rounds them if they are f32. Filters are
    rounded and packed as the unit reads them while compiling. Of few channels the taps of a row are summed as
    channels of a single one: a tile has elements behind the last tap, whose filters are zeros. A process that
    may not use the unit does the same on vectors.
    """

    @property
    def packed_filter_shape(self) -> tuple[int, ...]:
        """channel blocks x (taps, row-major, times chunks of 32 channels) x tiles x 16 pairs of input
        channels x 16 output channels; a pair of bf16 has the place of an f32."""
        return (self.blocks.count, self._steps, self.schedule.channel_tiles, TILE_ROWS, TILE_LANES)

    @property
    def _merged(self) -> int:
        return merged_taps(self.shape)

    @property
    def _chunks(self) -> int:
        return merged_chunks(self.shape)

    @property
    def _taps(self) -> int:
        """Of which each is summed in tiles of its own."""
        return prod(self.shape.kernel_size) // self._merged

    @property
    def filter_part(self) -> int:
        parts = min(self.schedule.channel_splits, self.blocks.count)
        return self.blocks.part_size(parts) * prod(self.packed_filter_shape[1:])

    def pack_filters(self, weights: Array) -> Array:
        """Filters of f32, 1 x (views times input channels) x output channels, as `packed_filter_shape`."""
        shape, blocks = self.shape, self.blocks
        by_view = weights.reshape(len(self.view_order), shape.input_channels, -1)[self.view_order]
        by_tap = by_view.reshape(self._taps, self._merged * shape.input_channels, -1)
        padded = np.zeros((self._taps, self._chunks * TILE_CHANNELS, by_tap.shape[-1]), np.uint16)
        padded[:, : by_tap.shape[1]] = bf16_bits(by_tap)
        pairs = padded.reshape(self._steps, TILE_ROWS, 2, -1).astype(np.uint32)
        joined = pairs[:, :, 0] | pairs[:, :, 1] << BITS
        packed = np.zeros(self.packed_filter_shape, np.uint32)
        for number, block in enumerate(packed):
            first = blocks.first(Index(number)).known
            assert first is not None
            own = joined[..., first : first + blocks.size]
            for tile in range(self.schedule.channel_tiles):
                # Lanes past the last channel stay zero.
                lanes = own[..., tile * TILE_LANES : (tile + 1) * TILE_LANES]
                block[:, tile, :, : lanes.shape[-1]] = lanes
        return packed.view(np.float32)

    def emit(
        self,
        work: Work,
        image: Buffer,
        filters: Buffer,
        output: Buffer,
        epilogue: VectorEpilogue,
    ) -> None:
        """Emits the work of one workgroup at the insertion point.

        `image` is N x H... x C, `filters` is `packed_filter_shape`, `output` is N x OH... x K.
        """
        schedule = self.schedule
        image, output, epilogue = self.without_unit.in_lines(image, output, epilogue)
        with named("first_output"):
            outputs = self._outputs(work.workgroup[0])
        rows = self._rows(image, outputs)
        accumulator = self.shape.element_types.accumulator_type
        store = RegisterBlockStore.of(
            output,
            epilogue,
            (1, schedule.channel_tiles, TILE_LANES),
            accumulator,
            channels=self.shape.output_channels,
        )
        pixels = schedule.pixel_tiles * schedule.tile_pixels
        sums = ScratchMemory.of(
            (schedule.row_tiles, pixels, schedule.channel_block), accumulator, "block_sums"
        )
        emulated = EmulatedBlock(schedule.block, sums.buffer, self.target.fused_multiply_add)

        def multiply_by(block: TileBlock) -> Callable[[], None]:
            return lambda: self._emit_blocks(work, block, rows, filters, sums, store, outputs)

        when(permitted(), multiply_by(schedule.block), multiply_by(emulated))

    def _emit_blocks(
        self,
        work: Work,
        block: TileBlock,
        rows: _Rows,
        filters: Buffer,
        sums: ScratchMemory,
        store: RegisterBlockStore,
        outputs: OutputBlock,
    ) -> None:
        """Emits the register blocks of all channels of a workgroup."""
        schedule = self.schedule
        pixels = schedule.pixel_tiles * schedule.tile_pixels
        parts = min(schedule.channel_splits, self.blocks.count)
        block.configure()
        with loop(self.blocks.steps(work.workgroup[1], parts), name="channel_block") as step:
            channel_block = self.blocks.at(work.workgroup[1], parts, step)
            with (
                loop(schedule.row_block, schedule.row_tiles, "row") as row_start,
                loop(schedule.pixel_block, pixels, "pixel") as pixel_start,
            ):
                row = row_start.minimum(schedule.row_block - schedule.row_tiles)
                pixel = pixel_start.minimum(schedule.pixel_block - pixels)
                number = row_start // schedule.row_tiles * self._blocks_of_row + pixel_start // pixels

                def meanwhile(
                    tile_step: Index,
                    number: Index = number,
                    channel_block: Index = channel_block,
                    place: tuple[Index, Index] = (row, pixel),
                ) -> None:
                    if isinstance(block, EmulatedBlock):
                        return
                    if self._output_vectors <= FETCHED_VECTORS * self._steps:
                        self._fetch_outputs(store, outputs, channel_block, place, tile_step)
                    self._fetch_filters(filters, channel_block, number, tile_step)

                self._multiply(block, rows, filters, channel_block, (row, pixel), meanwhile)
                block.store(sums.address)
                self._finish(sums.buffer, store, outputs, channel_block, (row, pixel))
        block.release()

    def _multiply(
        self,
        block: TileBlock,
        rows: _Rows,
        filters: Buffer,
        channel_block: Index,
        place: tuple[Index, Index],
        beside: Callable[[Index], None],
    ) -> None:
        """The sums of a register block, whose row and first pixel in the workgroup are its `place`.

        `beside` emits what is done for each tile of the reduction meanwhile.
        """
        schedule, shape = self.schedule, self.shape
        of_outer = shape.spatial_rank > 1
        row_step = shape.strides[-2] // input_step(shape, -2) if of_outer else 1
        row_dilation = shape.dilations[-2] if of_outer else 1
        pixel_step = shape.strides[-1] // input_step(shape, -1) * rows.column
        first = rows.address + (place[0] * (row_step * rows.row) + place[1] * pixel_step) * BF16.bytes
        panel = _address(filters) + filters.offset([channel_block, 0, 0, 0, 0]) * filters.number.bytes
        block.clear()
        taps_of_row = shape.kernel_size[-1] // self._merged
        with loop(self._taps, name="tap") as tap, loop(self._chunks, name="chunk") as chunk:
            tap_row, tap_column = tap // taps_of_row, tap % taps_of_row
            of_tap = tap_row * (row_dilation * rows.row) + tap_column * (shape.dilations[-1] * rows.column)
            begin = first + (of_tap + chunk * rows.chunk) * BF16.bytes
            step = tap * self._chunks + chunk
            tiles = panel + step * (schedule.channel_tiles * TILE_BYTES)

            def row_address(tile: int, begin: Index = begin) -> Index:
                row_tile, pixel_tile = divmod(tile, schedule.pixel_tiles)
                within = row_tile * row_step * rows.row + pixel_tile * schedule.tile_pixels * pixel_step
                return begin + within * BF16.bytes

            def filter_address(tile: int, tiles: Index = tiles) -> Index:
                return tiles + tile * TILE_BYTES

            block.add_rounded(row_address, pixel_step * BF16.bytes, filter_address)
            beside(step)

    def _fetch_filters(self, filters: Buffer, channel_block: Index, number: Index, step: Index) -> None:
        """Fetches, for a tile of the reduction of a register block of this number, a part of the filters of
        the next block of channels."""
        if self.blocks.count == 1:
            return
        lines = ceil_div(self.schedule.channel_tiles * TILE_BYTES // CACHE_LINE_BYTES, self._register_blocks)
        floats = CACHE_LINE_BYTES // filters.number.bytes
        place = filters.offset([channel_block + 1, 0, 0, 0, 0]) + number * (lines * floats)
        for line in range(lines):
            of_step = step * (self._register_blocks * lines * floats)
            filters.prefetch(place + of_step + line * floats, to_l2=True)

    @property
    def _output_vectors(self) -> int:
        """Of a register block."""
        block = self.schedule.block
        return block.row_tiles * block.tile_rows * block.channel_tiles

    def _rows(self, image: Buffer, outputs: OutputBlock) -> _Rows:
        """The input of a workgroup, where it is or a copy of it."""
        if self._reads_in_place(image):
            return self._in_place(image, outputs)
        return self._stage(image, outputs)

    def _reads_in_place(self, image: Buffer) -> bool:
        """Whether tiles are loaded from the image itself."""
        fills_tiles = self.shape.input_channels % TILE_CHANNELS == 0
        return image.number.name == BF16.name and fills_tiles and not self.shape.pads

    def _in_place(self, image: Buffer, outputs: OutputBlock) -> _Rows:
        """The input where it is: steps are those of what `_multiply` takes for the next element."""
        shape = self.shape
        column = input_step(shape, -1) * image.known_stride(-2)
        row, position = 0, [outputs.first_pixel * shape.strides[-1]]
        if shape.spatial_rank > 1:
            row = input_step(shape, -2) * image.known_stride(-3)
            position = [outputs.first_row * shape.strides[-2], *position]
        outer = [Index(0)] * (shape.spatial_rank - len(position))
        first = image.offset([outputs.number, *outer, *position, 0])
        return _Rows(_address(image) + first * BF16.bytes, row, column, TILE_CHANNELS)

    def _stage(self, image: Buffer, outputs: OutputBlock) -> _Rows:
        """A copy of the input of a workgroup: rows x chunks of channels x columns x 32 channels, or, where
        taps are merged, rows x elements of a row, side by side."""
        shape = self.shape
        columns = split_columns(shape, self.schedule.pixel_block)
        rows = split_rows(shape, self.schedule.row_block)
        extents: tuple[int, ...] = (rows, self._chunks, columns, TILE_CHANNELS)
        if self._merged > 1:
            extents = (rows, merged_row(shape, self.schedule.pixel_block))
        memory = ScratchMemory.of(extents, BF16.type, "staged_input")
        # What is bf16 is copied bit by bit.
        numbers = {} if image.number.name == BF16.name else self.target.numbers
        image, staged = image.with_numbers(numbers), memory.buffer.with_numbers(numbers)
        step = input_step(shape, -1)
        first_column = outputs.first_pixel * shape.strides[-1] - shape.padding_low[-1]
        begin = ceildiv((Index(0) - first_column).maximum(0), step).minimum(columns)
        behind = (Index(shape.input_size[-1]) - first_column).maximum(0)
        end = ceildiv(behind, step).minimum(columns).maximum(begin)
        with loop(rows, name="input_row") as row:
            coordinates, exists = self._input_row(outputs, row)
            source = image.offset([outputs.number, *coordinates, first_column, 0])

            def copy_row(row: Index = row, source: Index = source) -> None:
                if self._merged > 1:
                    self._copy_elements(image, source, staged, row, begin, end)
                    return
                self._clear(staged, row, Index(0), begin)
                with loop(end - begin, name="column") as number:
                    column = begin + number
                    read = source + column * (step * image.known_stride(-2))
                    self._copy_pixel(image, read, staged, row, column)
                self._clear(staged, row, end, Index(columns))

            when(exists, copy_row, partial(self._clear, staged, row, Index(0), Index(columns)))
        if self._merged > 1:
            return _Rows(memory.address, staged.known_stride(0), shape.input_channels, TILE_CHANNELS)
        first, second, third = (staged.known_stride(dimension) for dimension in range(3))
        return _Rows(memory.address, first, third, second)

    def _copy_pixel(self, image: Buffer, source: Index, staged: Buffer, row: Index, column: Index) -> None:
        """Copies the channels of a pixel; those past the last one are zeros."""
        whole, rest = divmod(self.shape.input_channels, TILE_CHANNELS)
        lanes = ROW_BYTES // image.number.bytes
        with loop(whole, name="chunk") as chunk:
            target = staged.offset([row, chunk, column, 0])
            for lane in range(0, TILE_CHANNELS, lanes):
                value = image.load(source + chunk * TILE_CHANNELS + lane, lanes)
                staged.store(value, target + lane)
        if rest:
            target = staged.offset([row, whole, column, 0])
            first = source + whole * TILE_CHANNELS
            copy_elements(image, first, staged, target, Index(rest), TILE_LANES)
            clear_elements(staged, target + rest, Index(TILE_CHANNELS - rest), TILE_LANES)

    def _copy_elements(
        self, image: Buffer, source: Index, staged: Buffer, row: Index, begin: Index, end: Index
    ) -> None:
        """Copies the columns of a row from `begin` to `end`, side by side, and zeros before and behind."""
        channels, target = self.shape.input_channels, staged.offset([row, 0])
        clear_elements(staged, target, begin * channels, TILE_LANES)
        stride = image.known_stride(-2)
        if stride == channels:
            place = source + begin * channels
            copy_elements(
                image, place, staged, target + begin * channels, (end - begin) * channels, TILE_LANES
            )
        else:
            with loop(end - begin, name="column") as number:
                column = begin + number
                copied = target + column * channels
                copy_elements(image, source + column * stride, staged, copied, Index(channels), TILE_LANES)
        rest = Index(staged.known_stride(0)) - end * channels
        clear_elements(staged, target + end * channels, rest, TILE_LANES)

    def _clear(self, staged: Buffer, row: Index, begin: Index, end: Index) -> None:
        """Has the columns from `begin` to `end` of a row be zero."""
        if self._merged > 1:
            clear_elements(staged, staged.offset([row, 0]), Index(staged.known_stride(0)), TILE_LANES)
            return
        with loop(self._chunks, name="cleared_chunk") as chunk:
            first = staged.offset([row, chunk, begin, 0])
            clear_elements(staged, first, (end - begin) * TILE_CHANNELS, TILE_LANES)


def _address(buffer: Buffer) -> Index:
    """In bytes, of the memory whose first element has offset zero."""
    return Index(memref.extract_aligned_pointer_as_index(buffer.memref))
