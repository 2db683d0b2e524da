"""What kernels on matrix units share: which outputs a workgroup computes, block after block of registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.processor.matrix_unit import TILE_BYTES, TILE_LANES, TileBlock
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.channel_blocks import ChannelBlocks
from iree.winograd.pipelines.cpu.schedules.tiled import (
    TileSchedule,
    input_step,
    split_columns,
    split_rows,
)
from iree.winograd.pipelines.cpu.tiles.touched_pixels import TouchedPixels, read_pixels
from iree.winograd.pipelines.emission.buffer import Buffer, ScratchMemory
from iree.winograd.pipelines.emission.control_flow import loop, named, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Condition, Index, IndexLike, ceildiv
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.problems.cache_line import CACHE_LINE_BYTES
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .direct import DirectKernel
from .store import RegisterBlockStore
from .tiled_outputs import TiledOutputs

ScheduleType = TypeVar("ScheduleType", bound=TileSchedule)


@dataclass(frozen=True)
class PlacedBlock:
    """A register block of a workgroup, and the pass over the workgroup's outputs that it is of."""

    channel_pass: Index
    """The number of the pass, one for each of the workgroup's blocks of output channels."""
    channel_block: Index
    row: Index
    """Its first row of outputs in the workgroup."""
    pixel: Index
    """The first of its outputs in a row of the workgroup."""
    number: Index
    """Among the register blocks of a pass, in their order."""


@dataclass(frozen=True)
class BlockOutputs:
    """What becomes of the sums of a workgroup's register blocks."""

    outputs: TiledOutputs
    store: RegisterBlockStore
    sums: ScratchMemory
    """(row_tiles times block_pixels) x channel_block: the unit writes them there."""


@dataclass(frozen=True)
class TiledInput:
    """Where a workgroup reads its input, channels side by side: distances in bytes."""

    address: Index
    """Of what the first output reads first."""
    row: IndexLike
    column: int
    chunk: IndexLike
    """From a tile of channels to the next."""
    part: IndexLike = 0
    """From a part of numbers that are split to the next."""


class StagedRow(Protocol):
    """Memory for a row of the input that a workgroup reads."""

    def fill(self, source: Index, begin: Index, end: Index) -> None:
        """Emits the copying of columns `begin` to `end` of the row that begins at `source`, zeros beside."""

    def clear(self) -> None:
        """Emits the zeroing of all of it."""


@dataclass(frozen=True)
class TiledKernel(Generic[ScheduleType]):
    """A kernel whose workgroups compute `row_block` rows of `pixel_block` outputs.

    Register blocks overlap rather than be cut short, and so do workgroups: what is computed twice is computed
    alike. Of images of unknown sizes workgroups compute what is left, in tiles of as many rows.
    """

    shape: ConvolutionShape
    """`in_lines`."""
    schedule: ScheduleType
    target: CpuTarget

    @property
    def without_unit(self) -> DirectKernel:
        """The direct kernel of the same workgroups and blocks of channels."""
        return DirectKernel(self.shape, self.schedule.without_unit, self.target)

    @property
    def blocks(self) -> ChannelBlocks:
        """Passes over the pixels, one per block of output channels."""
        return self.without_unit.blocks

    @property
    def packed_filter_shape(self) -> tuple[int, ...]:
        """channel blocks x 1 x (taps, row-major, times input channels) x channel_block."""
        return self.without_unit.packed_filter_shape

    @property
    def filter_part(self) -> int:
        """Elements of the packed filters that a part of the output channels has."""
        return self.without_unit.filter_part

    @property
    def view_order(self) -> list[int]:
        """The order of views along the packed filters' reduction dimension."""
        return self.without_unit.view_order

    @property
    def writes_once(self) -> bool:
        """Whether no blocks overlap: at some sizes they do where a call tells them."""
        schedule, shape = self.schedule, self.shape
        if shape.unknown_sizes:
            return False
        divided = (
            (shape.output_rows, schedule.row_block),
            (shape.output_size[-1], schedule.pixel_block),
            (schedule.row_block, schedule.block_rows),
            (schedule.pixel_block, schedule.row_pixels),
            (shape.output_channels, schedule.channel_block),
        )
        return all(whole % part == 0 for whole, part in divided)

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of outputs of all images, and parts of the output channels."""
        return self.without_unit.workgroups(sizes)

    def touched_pixels(self, number: int) -> TouchedPixels:
        """Those of the workgroups of an x coordinate, with the unit or without it."""
        outputs = TiledOutputs.of(SizedShape.of(self.shape), self.schedule, Index(number))
        with_unit = outputs.block.pixels(self.shape, self.schedule.pixel_block)
        without = self.without_unit.touched_pixels(number).written
        written = range(min(with_unit.start, without.start), max(with_unit.stop, without.stop))
        return TouchedPixels(read_pixels(self.shape, written), written)

    def _outputs(self, work: Work) -> TiledOutputs:
        """The outputs of a workgroup."""
        with named("first_output"):
            return TiledOutputs.of(self.without_unit.sized(work.sizes), self.schedule, work.workgroup[0])

    def _input_row(self, outputs: TiledOutputs, row: Index) -> tuple[list[Index], Condition]:
        """The outer coordinates of a row that is split, and whether it is one of the image."""
        shape = self.shape
        if shape.spatial_rank == 1:
            return [], Condition(True)
        coordinate = (
            outputs.block.first_row * shape.strides[-2] - shape.padding_low[-2] + row * input_step(shape, -2)
        )
        outer = [Index(0)] * (shape.spatial_rank - 2)
        return [*outer, coordinate], coordinate.within(outputs.sized.input_size[-2])

    def _stage_rows(self, image: Buffer, outputs: TiledOutputs, staged: Callable[[Index], StagedRow]) -> None:
        """Copies the rows of the input that a workgroup reads to what `staged` gives by a row's number.

        What lies outside of the image is zeros.
        """
        shape = self.shape
        columns = split_columns(shape, outputs.pixels)
        step = input_step(shape, -1)
        first_column = outputs.block.first_pixel * shape.strides[-1] - shape.padding_low[-1]
        begin = ceildiv((Index(0) - first_column).maximum(0), step).minimum(columns)
        behind = (outputs.sized.input_size[-1] - first_column).maximum(0)
        end = ceildiv(behind, step).minimum(columns).maximum(begin)
        with loop(split_rows(shape, outputs.rows), name="input_row") as number:
            row = staged(number)
            coordinates, exists = self._input_row(outputs, number)
            source = image.offset([outputs.number, *coordinates, first_column, 0])
            when(exists, partial(row.fill, source, begin, end), row.clear)

    def _block_outputs(
        self, outputs: TiledOutputs, output: Buffer, epilogue: VectorEpilogue, buffers: int = 1
    ) -> BlockOutputs:
        """With memory for the sums of as many register blocks as there are `buffers`."""
        schedule, accumulator = self.schedule, self.shape.element_types.accumulator_type
        block = (1, schedule.channel_tiles, TILE_LANES)
        store = RegisterBlockStore.of(
            output, epilogue, block, accumulator, channels=self.shape.output_channels
        )
        extents = (buffers * schedule.block.row_tiles * outputs.tiles.tile_rows, schedule.channel_block)
        return BlockOutputs(outputs, store, ScratchMemory.of(extents, accumulator, "block_sums"))

    def _emit_passes(
        self,
        workgroup: tuple[Index, ...],
        outputs: TiledOutputs,
        begin: Callable[[Index], None],
        compute: Callable[[PlacedBlock], None],
    ) -> None:
        """Emits the passes of a workgroup over its outputs, one for each of its blocks of output channels.

        `begin` emits what comes before those of a block of channels, `compute` the outputs of a register
        block.
        """
        schedule, pixels = self.schedule, outputs.row_pixels
        parts = min(schedule.channel_splits, self.blocks.count)
        with loop(self.blocks.steps(workgroup[1], parts), name="channel_block") as step:
            channel_block = self.blocks.at(workgroup[1], parts, step)
            begin(channel_block)
            with (
                loop(outputs.lines, outputs.block_rows, "row") as row_start,
                loop(outputs.line_pixels, pixels, "pixel") as pixel_start,
            ):
                # Register blocks overlap, too, rather than be cut short.
                row = row_start.minimum((outputs.lines - outputs.block_rows).maximum(0))
                pixel = pixel_start.minimum((outputs.line_pixels - pixels).maximum(0))
                number = row_start // outputs.block_rows * outputs.blocks_of_row + pixel_start // pixels
                compute(PlacedBlock(step, channel_block, row, pixel, number))

    def _multiply(
        self,
        block: TileBlock,
        rows: TiledInput,
        panel: Index,
        outputs: TiledOutputs,
        placed: PlacedBlock,
        beside: Callable[[Index], None],
    ) -> None:
        """Emits the sums of a register block; `panel` is the address of the filters of its channels.

        `beside` emits what is done for each tile of the reduction meanwhile: the unit works by itself.
        """
        schedule = self.schedule
        row_step, pixel_step = self._row_step(rows), self._pixel_step(rows)
        first, channel_tiles = self._first_input(rows, placed), schedule.channel_tiles
        block.clear()
        chunks_first, taps, chunks = schedule.takes_chunks_first(self.shape), self._taps, self._chunks
        first_name, second_name = ("chunk", "tap") if chunks_first else ("tap", "chunk")
        first_count, second_count = (chunks, taps) if chunks_first else (taps, chunks)
        with loop(first_count, name=first_name) as outer, loop(second_count, name=second_name) as inner:
            tap, chunk = (inner, outer) if chunks_first else (outer, inner)
            begin = first + (self._tap_distance(rows, tap) + chunk * rows.chunk)
            step = outer * second_count + inner
            tiles = panel + step * (schedule.parts * channel_tiles * TILE_BYTES)

            def row_address(part: int, tile: int, begin: Index = begin) -> Index:
                row, pixel = outputs.place_of_tile(tile)
                within = row * row_step + pixel * pixel_step
                return begin + (rows.part * part + within)

            def filter_address(part: int, tile: int, tiles: Index = tiles) -> Index:
                return tiles + (part * channel_tiles + tile) * TILE_BYTES

            block.add(row_address, pixel_step, filter_address, schedule.part_products)
            beside(step)

    def _row_step(self, rows: TiledInput) -> IndexLike:
        """From what an output reads first to what the one in the next row does, in bytes."""
        if self.shape.spatial_rank == 1:
            return rows.row
        return rows.row * (self.shape.strides[-2] // input_step(self.shape, -2))

    def _pixel_step(self, rows: TiledInput) -> int:
        """The same of the next output in a row."""
        return self.shape.strides[-1] // input_step(self.shape, -1) * rows.column

    def _first_input(self, rows: TiledInput, placed: PlacedBlock) -> Index:
        """The address of what a register block reads first."""
        return rows.address + (placed.row * self._row_step(rows) + placed.pixel * self._pixel_step(rows))

    def _tap_distance(self, rows: TiledInput, tap: Index) -> Index:
        """From what the first tap reads to what this one does, in bytes."""
        shape, row_taps = self.shape, self.schedule.row_taps(self.shape)
        row_dilation = rows.row if shape.spatial_rank == 1 else rows.row * shape.dilations[-2]
        return tap // row_taps * row_dilation + tap % row_taps * (shape.dilations[-1] * rows.column)

    def _fetch_outputs(self, results: BlockOutputs, placed: PlacedBlock, step: Index) -> None:
        """Fetches, for a tile of the reduction, a part of what a register block writes.

        Its lines lie as far apart as pixels, so that the processor doesn't foresee them.
        """
        vectors, pixels = self.schedule.channel_tiles, results.outputs.row_pixels
        count = pixels * (results.outputs.block_rows * vectors)
        of_step = ceil_div(self._written_vectors, self._steps)
        for number in range(of_step):
            vector = (step * of_step + number).minimum(count - 1)
            position = results.outputs.fetched(placed.row, placed.pixel, vector // vectors)
            first = self.blocks.first(placed.channel_block)
            results.store.prefetch(results.outputs.number, position, first, vector % vectors)

    def _finish(
        self, block: TileBlock, results: BlockOutputs, placed: PlacedBlock, *, fetches_next: bool = False
    ) -> None:
        """Makes outputs of the sums of a register block, one pixel after the other.

        With `fetches_next` what the next one of the row writes is fetched meanwhile.
        """
        outputs = results.outputs

        def finish(sums: Index, within: Index, row: Index, pixel: Index) -> None:
            if fetches_next:
                self._fetch_next(results, placed, row, within)
            self._finish_pixel(results, placed, sums, row, pixel)

        def after() -> None:
            if results.store.epilogue.calls_functions:
                block.stay_awake()

        outputs.for_each(placed.row, placed.pixel, finish, after)

    def _fetch_next(self, results: BlockOutputs, placed: PlacedBlock, row: Index, within: Index) -> None:
        """Fetches what the next register block of a row writes at the same of its pixels, and what its
        epilogue reads there.

        It is as far away as a register block takes.
        """
        self._fetch_pixel(results, placed, results.outputs.fetched_next(row, placed.pixel, within))

    def _fetch_pixel(self, results: BlockOutputs, placed: PlacedBlock, position: tuple[Index, ...]) -> None:
        """Fetches what a register block writes of the pixel at a position, and what its epilogue reads."""
        first = self.blocks.first(placed.channel_block)
        vectors_of_line = CACHE_LINE_BYTES // (results.store.output.number.bytes * TILE_LANES)
        for vector in range(0, self.schedule.channel_tiles, vectors_of_line):
            results.store.prefetch(results.outputs.number, position, first, Index(vector))

    def _finish_pixel(
        self, results: BlockOutputs, placed: PlacedBlock, number: Index, row: Index, pixel: Index
    ) -> None:
        """Makes outputs of the sums of that number of a register block, at a place in the workgroup."""
        outputs, sums = results.outputs, results.sums.buffer
        values = [
            sums.load(sums.offset([number, v * TILE_LANES]), TILE_LANES)
            for v in range(self.schedule.channel_tiles)
        ]
        first = self.blocks.first(placed.channel_block)
        results.store.emit(values, outputs.number, outputs.position(row, pixel), first, pixel)

    @property
    def _taps(self) -> int:
        return self.schedule.taps(self.shape)

    @property
    def _chunks(self) -> int:
        return self.schedule.chunks(self.shape)

    @property
    def _steps(self) -> int:
        return self.schedule.reduction_tiles(self.shape)

    @property
    def _register_blocks(self) -> int:
        """Of a workgroup, for one block of channels, if images have the sizes that are expected."""
        schedule = self.schedule
        rows = ceil_div(schedule.row_block, schedule.block_rows)
        return rows * ceil_div(schedule.pixel_block, schedule.row_pixels)

    @property
    def _written_vectors(self) -> int:
        """Of such a register block."""
        return self.schedule.block_rows * self.schedule.row_pixels * self.schedule.channel_tiles
