"""The CPU kernel on matrix units for half precision: the direct convolution, with sums in f32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.processor.emulated_matrix_unit import EmulatedBlock
from iree.winograd.pipelines.cpu.processor.matrix_unit import (
    PAIR_BYTES,
    ROW_BYTES,
    TILE_BYTES,
    TileBlock,
    permitted,
)
from iree.winograd.pipelines.cpu.schedules.matrix_unit import Bf16MatrixUnitSchedule, F16MatrixUnitSchedule
from iree.winograd.pipelines.cpu.schedules.tiled import split_columns
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.work import Work
from iree.winograd.pipelines.problems.cache_line import CACHE_LINE_BYTES

from .bf16_tiled import Bf16TiledKernel, address_of
from .tiled import BlockOutputs, PlacedBlock, TiledInput

FETCHED_VECTORS = 4
"""Of outputs, for each tile of the reduction, up to which they are fetched while these are multiplied: more
take longer than they gain, and are fetched while those of the register block before are finished."""
NEAR_FILTER_BYTES = 1 << 19
"""Of all filters of a pointwise layer, up to which they stay in L2 while all of its outputs are computed."""
_BUFFERS = 2
"""Of sums: those of a register block are finished while the unit computes those of the next one."""


@dataclass(frozen=True)
class HalfMatrixUnitKernel(Bf16TiledKernel[Bf16MatrixUnitSchedule | F16MatrixUnitSchedule]):
    """One kernel on the matrix unit. A process that may not use the unit does the same on vectors.

    While the unit multiplies the tiles of a register block, vectors finish the outputs of the one before. By
    functions, and of images of unknown sizes, they are finished before the next ones are multiplied.
    """

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
        outputs = self._outputs(work)
        image, output, epilogue = self.without_unit.in_lines(image, output, epilogue, outputs.sized)
        rows = self._rows(image, outputs)
        results = self._block_outputs(outputs, output, epilogue, _BUFFERS)
        emulated = EmulatedBlock(outputs.tiles, results.sums.buffer, self.target.fused_multiply_add)

        def multiply_by(block: TileBlock) -> Callable[[], None]:
            return lambda: self._emit_by(block, work.workgroup, rows, filters, results)

        when(permitted(), multiply_by(outputs.tiles), multiply_by(emulated))

    def _emit_by(
        self,
        block: TileBlock,
        workgroup: tuple[Index, ...],
        rows: TiledInput,
        filters: Buffer,
        results: BlockOutputs,
    ) -> None:
        """Emits the passes of a workgroup, on the unit or as it does."""
        # Functions take longer than products: the unit would fall asleep.
        waits = self.shape.unknown_sizes or results.store.epilogue.calls_functions
        overlaps = block.works_beside and not waits
        block.configure()
        (self._emit_overlapping if overlaps else self._emit_in_turns)(
            block, workgroup, rows, filters, results
        )
        block.release()

    def _emit_overlapping(
        self,
        block: TileBlock,
        workgroup: tuple[Index, ...],
        rows: TiledInput,
        filters: Buffer,
        results: BlockOutputs,
    ) -> None:
        """Each register block is finished while the next one is multiplied, the last one at the end."""
        outputs = results.outputs
        of_step = ceil_div(self._outputs_of_block, self._steps)
        parts = min(self.schedule.channel_splits, self.blocks.count)
        count = self.blocks.steps(workgroup[1], parts) * outputs.register_blocks

        pixels_first = parts == 1 and self._takes_pixels_first

        def placed_block(number: Index) -> PlacedBlock:
            if pixels_first:
                within, step = number // self.blocks.count, number % self.blocks.count
            else:
                step, within = number // outputs.register_blocks, number % outputs.register_blocks
            row = within // outputs.blocks_of_row * outputs.block_rows
            pixel = within % outputs.blocks_of_row * outputs.row_pixels
            row = row.minimum(outputs.lines - outputs.block_rows)
            pixel = pixel.minimum(outputs.line_pixels - outputs.row_pixels)
            return PlacedBlock(step, self.blocks.at(workgroup[1], parts, step), row, pixel, within)

        with loop(count, name="register_block") as number:
            before = (number - 1).maximum(0)
            placed, placed_before = placed_block(number), placed_block(before)

            def meanwhile(tile_step: Index) -> None:
                if pixels_first:
                    # The first pixels meet filters that are far.
                    fetch = partial(self._fetch_filters, filters, placed, tile_step, 1)
                    when(placed.number.equals(0), fetch)
                else:
                    self._fetch_filters(filters, placed, tile_step, self._register_blocks)
                first = tile_step * of_step
                with loop(
                    (Index(self._outputs_of_block) - first).minimum(of_step), name="finished"
                ) as within:
                    each = first + within
                    self._fetch_output(results, placed, each)
                    finish = partial(self._finish_output, results, placed_before, before, each)
                    when(number.equals(0), lambda: None, finish)

            self._multiply(block, rows, self._panel(filters, placed), outputs, placed, meanwhile)
            block.store(results.sums.address + number % _BUFFERS * (self._sums_of_block * ROW_BYTES))

        def finish_last() -> None:
            last = count - 1
            placed = placed_block(last)
            with loop(self._outputs_of_block, name="finished") as each:
                self._finish_output(results, placed, last, each)

        # A part of the channels may have none.
        when(count.at_least(1), finish_last)

    @property
    def _takes_pixels_first(self) -> bool:
        """Whether all channels of a register block's pixels are computed before the next pixels: where there
        are more outputs to write, line after line, than inputs to read, and L2 holds all filters."""
        shape, filters = self.shape, prod(self.packed_filter_shape) * PAIR_BYTES
        widens = self._taps == 1 and shape.output_channels > shape.input_channels
        return widens and filters <= NEAR_FILTER_BYTES

    def _emit_in_turns(
        self,
        block: TileBlock,
        workgroup: tuple[Index, ...],
        rows: TiledInput,
        filters: Buffer,
        results: BlockOutputs,
    ) -> None:
        """Each register block is finished before the next one is multiplied."""
        written = self._outputs_of_block * self.schedule.channel_tiles
        fetches_meanwhile = written <= FETCHED_VECTORS * self._steps

        def compute(placed: PlacedBlock) -> None:
            def meanwhile(tile_step: Index) -> None:
                if not block.works_beside:
                    return
                if fetches_meanwhile:
                    self._fetch_outputs(results, placed, tile_step)
                self._fetch_filters(filters, placed, tile_step, self._register_blocks)

            self._multiply(block, rows, self._panel(filters, placed), results.outputs, placed, meanwhile)
            block.store(results.sums.address)
            fetches_next = block.works_beside and not fetches_meanwhile
            self._finish(block, results, placed, fetches_next=fetches_next)

        self._emit_passes(workgroup, results.outputs, lambda channel_block: None, compute)

    def _fetch_filters(self, filters: Buffer, placed: PlacedBlock, step: Index, register_blocks: int) -> None:
        """Fetches as other kernels do, or, where a single register block reads a filter, those that it reads
        soon: of the next block of channels all would have to stay in L2 until it is done."""
        if register_blocks > 1:
            super()._fetch_filters(filters, placed, step, register_blocks)
            return
        tiles = self.schedule.parts * self.schedule.channel_tiles
        floats = CACHE_LINE_BYTES // filters.number.bytes
        tile_floats = TILE_BYTES // filters.number.bytes
        first = filters.offset([placed.channel_block, 0, 0, 0, 0]) + step * (tiles * tile_floats)
        ahead = first + self.schedule.filter_prefetch * tile_floats
        for line in range(tiles * TILE_BYTES // CACHE_LINE_BYTES):
            filters.prefetch(ahead + line * floats, to_l2=True)

    def _panel(self, filters: Buffer, placed: PlacedBlock) -> Index:
        """The address of the filters of a register block's channels."""
        return address_of(filters) + filters.offset([placed.channel_block, 0, 0, 0, 0]) * filters.number.bytes

    @property
    def _outputs_of_block(self) -> int:
        """Pixels of a register block."""
        return self.schedule.block_rows * self.schedule.row_pixels

    @property
    def _sums_of_block(self) -> int:
        """Vectors of its sums, those of joined rows that aren't outputs among them."""
        block = self.schedule.block
        return block.row_tiles * block.tile_rows * block.channel_tiles

    def _place_of_output(self, placed: PlacedBlock, number: Index) -> tuple[Index, Index, Index]:
        """Row and pixel in the workgroup of an output of a register block, and which of its sums it has."""
        schedule = self.schedule
        row, within = number // schedule.row_pixels, number % schedule.row_pixels
        of_row = (
            split_columns(self.shape, schedule.pixel_block) if schedule.joins_rows else schedule.block_pixels
        )
        return placed.row + row, placed.pixel + within, row * of_row + within

    def _fetch_output(self, results: BlockOutputs, placed: PlacedBlock, number: Index) -> None:
        """Fetches what an output of a register block overwrites, and what its epilogue reads."""
        row, pixel, _ = self._place_of_output(placed, number)
        self._fetch_pixel(results, placed, results.outputs.position(row, pixel))

    def _finish_output(
        self, results: BlockOutputs, placed: PlacedBlock, block_number: Index, number: Index
    ) -> None:
        """Makes an output of its sums, which lie in one of the buffers by the number of their block."""
        row, pixel, sums = self._place_of_output(placed, number)
        rows = self._sums_of_block // self.schedule.channel_tiles
        self._finish_pixel(results, placed, block_number % _BUFFERS * rows + sums, row, pixel)
