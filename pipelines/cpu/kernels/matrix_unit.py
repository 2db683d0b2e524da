"""The CPU kernel on matrix units: the direct convolution of f32 numbers that are split into bf16 parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.processor.matrix_unit import (
    PARTS,
    ROW_BYTES,
    TILE_BYTES,
    TILE_CHANNELS,
    TILE_LANES,
    TILE_ROWS,
    parts_type,
    permitted,
    split,
    store_parts,
    zero_parts,
)
from iree.winograd.pipelines.cpu.processor.product import CACHE_LINE_FLOATS
from iree.winograd.pipelines.cpu.schedules.matrix_unit import (
    MatrixUnitSchedule,
    input_step,
    split_columns,
    split_rows,
)
from iree.winograd.pipelines.emission.buffer import Buffer, ScratchMemory
from iree.winograd.pipelines.emission.control_flow import loop, named, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Index, ceildiv
from iree.winograd.pipelines.emission.vectors import LaneMask, splat
from iree.winograd.pipelines.emission.work import Work

from .staging import OutputBlock
from .store import RegisterBlockStore
from .tiled import TiledKernel


@dataclass(frozen=True)
class MatrixUnitKernel(TiledKernel[MatrixUnitSchedule]):
    """One kernel on the matrix unit: a workgroup computes `row_block` rows of `pixel_block` outputs.

    The elements of the input that it needs are split once, between zeros where the convolution pads, and the
    filters of a block of output channels before its pixels are multiplied with them: what is read from memory
    is f32. Register blocks overlap rather than be cut short, and so do workgroups: what is computed twice is
    computed alike. A process that may not use the unit computes the same outputs by the direct kernel.
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
        image, output, epilogue = self.without_unit.in_lines(image, output, epilogue)
        when(
            permitted(),
            lambda: self._emit_on_unit(work.workgroup, image, filters, output, epilogue),
            lambda: self.without_unit.emit(work, image, filters, output, epilogue),
        )

    def _emit_on_unit(
        self,
        workgroup: tuple[Index, ...],
        image: Buffer,
        filters: Buffer,
        output: Buffer,
        epilogue: VectorEpilogue,
    ) -> None:
        schedule = self.schedule
        block = schedule.block
        block.configure()
        with named("first_output"):
            outputs = self._outputs(workgroup[0])
        inputs = self._input_memory()
        if self._splits_meanwhile:
            self._split_pixels(image, inputs.buffer, outputs, Index(0), Index(0), self._block_chunks)
        else:
            self._split_input(image, inputs.buffer, outputs)
        panel = ScratchMemory.of(
            (self._steps, PARTS, schedule.channel_tiles, TILE_ROWS, TILE_LANES), parts_type(), "panel"
        )
        store = RegisterBlockStore.of(
            output,
            epilogue,
            (1, schedule.channel_tiles, TILE_LANES),
            self.shape.element_types.accumulator_type,
            channels=self.shape.output_channels,
        )
        pixels = schedule.pixel_tiles * schedule.tile_pixels
        pixels_of_block = schedule.row_tiles * pixels
        sums = ScratchMemory.of(
            (schedule.row_tiles, pixels, schedule.channel_block),
            self.shape.element_types.accumulator_type,
            "block_sums",
        )
        parts = min(schedule.channel_splits, self.blocks.count)
        with loop(self.blocks.steps(workgroup[1], parts), name="channel_block") as step:
            channel_block = self.blocks.at(workgroup[1], parts, step)
            self._split_filters(filters, channel_block, panel.buffer)
            with (
                loop(schedule.row_block, schedule.row_tiles, "row") as row_start,
                loop(schedule.pixel_block, pixels, "pixel") as pixel_start,
            ):
                # Register blocks overlap, too, rather than be cut short.
                row = row_start.minimum(schedule.row_block - schedule.row_tiles)
                pixel = pixel_start.minimum(schedule.pixel_block - pixels)
                number = row_start // schedule.row_tiles * self._blocks_of_row + pixel_start // pixels

                def meanwhile(
                    tile_step: Index,
                    step: Index = step,
                    number: Index = number,
                    channel_block: Index = channel_block,
                    place: tuple[Index, Index] = (row, pixel),
                ) -> None:
                    self._fetch_outputs(store, outputs, channel_block, place, tile_step)
                    if not self._splits_meanwhile:
                        return
                    following = (number + 1).minimum(self._register_blocks - 1)
                    when(
                        step.equals(0),
                        lambda: self._split_pixels(
                            image,
                            inputs.buffer,
                            outputs,
                            following,
                            tile_step * pixels_of_block,
                            pixels_of_block,
                        ),
                    )

                self._multiply(inputs, panel, filters, channel_block, (row, pixel), number, meanwhile)
                block.store(sums.address)
                self._finish(sums.buffer, store, outputs, channel_block, (row, pixel))
        block.release()

    def _input_memory(self) -> ScratchMemory:
        """That of the parts of the input: rows x chunks of channels x parts x columns x 16 pairs."""
        columns = split_columns(self.shape, self.schedule.pixel_block)
        rows = split_rows(self.shape, self.schedule.row_block)
        return ScratchMemory.of((rows, self._chunks, PARTS, columns, TILE_LANES), parts_type(), "split_input")

    def _split_pixels(
        self,
        image: Buffer,
        parts: Buffer,
        outputs: OutputBlock,
        register_block: Index,
        first: Index,
        count: int,
    ) -> None:
        """Splits `count` chunks of the pixels that a register block reads, of which each reads one.

        They are counted from `first` on, chunk after chunk of pixel after pixel.
        """
        schedule, shape = self.schedule, self.shape
        pixels = schedule.pixel_tiles * schedule.tile_pixels
        row_start = register_block // self._blocks_of_row * schedule.row_tiles
        pixel_start = register_block % self._blocks_of_row * pixels
        row = row_start.minimum(schedule.row_block - schedule.row_tiles)
        column = pixel_start.minimum(schedule.pixel_block - pixels)
        coordinates, _ = self._input_row(outputs, row)
        first_column = (outputs.first_pixel + column) * shape.strides[-1]
        source = image.offset([outputs.number, *coordinates, first_column, 0])
        target = parts.offset([row, 0, 0, column, 0])
        row_stride = 0 if shape.spatial_rank == 1 else shape.strides[-2] * image.stride(-3)
        pixel_stride = shape.strides[-1] * image.stride(-2)
        with loop(count, name="split") as i:
            pixel, chunk = (first + i) // self._chunks, (first + i) % self._chunks
            pixel_row, pixel_column = pixel // pixels, pixel % pixels
            if schedule.row_tiles == 1:
                pixel_row, pixel_column = Index(0), pixel
            read = source + (pixel_row * row_stride + pixel_column * pixel_stride)
            written = target + (pixel_row * parts.stride(0) + pixel_column * TILE_LANES)
            self._split_chunk(image, read, chunk, parts, written)

    def _split_chunk(self, image: Buffer, source: Index, chunk: Index, parts: Buffer, target: Index) -> None:
        """Splits one chunk of the channels of a pixel; those past the last one are zeros."""
        first = chunk * TILE_CHANNELS
        values = []
        for half in range(0, TILE_CHANNELS, TILE_LANES):
            place = source + first + half
            if self.shape.input_channels % TILE_CHANNELS == 0:
                values.append(image.load(place, TILE_LANES))
            else:
                valid = Index(self.shape.input_channels - half) - first
                values.append(image.load_lanes(place, LaneMask.between(0, valid, TILE_LANES)))
        store_parts(split(*values), parts, target + chunk * parts.stride(1), parts.stride(2))

    def _split_input(self, image: Buffer, parts: Buffer, outputs: OutputBlock) -> None:
        """Splits the elements that the workgroup needs, between zeros where the convolution pads."""
        shape = self.shape
        columns = split_columns(shape, self.schedule.pixel_block)
        rows = split_rows(shape, self.schedule.row_block)
        step = input_step(shape, -1)
        first_column = outputs.first_pixel * shape.strides[-1] - shape.padding_low[-1]
        begin = ceildiv((Index(0) - first_column).maximum(0), step).minimum(columns)
        behind = (Index(shape.input_size[-1]) - first_column).maximum(0)
        end = ceildiv(behind, step).minimum(columns).maximum(begin)
        with loop(rows, name="input_row") as row:
            target = parts.offset([row, 0, 0, 0, 0])
            coordinates, exists = self._input_row(outputs, row)
            source = image.offset([outputs.number, *coordinates, first_column, 0])

            def split_row(source: Index = source, target: Index = target) -> None:
                self._clear(parts, target, Index(0), begin)
                with (
                    loop(end - begin, name="column") as column,
                    loop(self._chunks, name="chunk") as chunk,
                ):
                    read = source + (begin + column) * (step * image.stride(-2))
                    self._split_chunk(image, read, chunk, parts, target + (begin + column) * TILE_LANES)
                self._clear(parts, target, end, Index(columns))

            when(exists, split_row, partial(self._clear, parts, target, Index(0), Index(columns)))

    def _clear(self, parts: Buffer, target: Index, begin: Index, end: Index) -> None:
        """Has the columns from `begin` to `end` of a row be zero."""
        with (
            loop(self._chunks * PARTS, name="part") as part,
            loop(end - begin, name="column") as column,
        ):
            parts.store(zero_parts(), target + part * parts.stride(2) + (begin + column) * TILE_LANES)

    def _split_filters(self, filters: Buffer, channel_block: Index, panel: Buffer) -> None:
        """Splits the filters of a block of channels; those past the last input channel are zeros."""
        channels = self.shape.input_channels
        whole, rest = divmod(channels, TILE_CHANNELS)
        origin = filters.offset([channel_block, 0, 0, 0])
        with loop(self._taps, name="tap") as tap:

            def split_chunk(number: Index, valid: int, tap: Index = tap) -> None:
                first = origin + (tap * channels + number * TILE_CHANNELS) * self.schedule.channel_block
                target = panel.offset([tap * self._chunks + number, 0, 0, 0, 0])
                self._split_filter_rows(filters, first, valid, panel, target)

            with loop(whole, name="chunk") as number:
                split_chunk(number, TILE_CHANNELS)
            if rest:
                split_chunk(Index(whole), rest)

    def _split_filter_rows(
        self, filters: Buffer, first: Index, valid: int, panel: Buffer, target: Index
    ) -> None:
        """Splits the filters of a chunk of input channels, of which `valid` exist."""
        both, one = max(0, valid - TILE_LANES), min(valid, TILE_LANES)
        zeros = splat(0.0, TILE_LANES, filters.element)
        size = self.schedule.channel_block

        def split_rows_of(begin: int, end: int) -> None:
            with loop(end - begin, name="filter_row") as number:
                row = number + begin
                for tile in range(self.schedule.channel_tiles):
                    place = first + row * size + tile * TILE_LANES
                    upper = filters.load(place, TILE_LANES) if begin < one else zeros
                    lower = filters.load(place + TILE_LANES * size, TILE_LANES) if begin < both else zeros
                    within = row * TILE_LANES + tile * panel.stride(2)
                    store_parts(split(upper, lower), panel, target + within, panel.stride(1))

        for begin, end in ((0, both), (both, one), (one, TILE_ROWS)):
            if begin < end:
                split_rows_of(begin, end)

    def _multiply(
        self,
        inputs: ScratchMemory,
        panel: ScratchMemory,
        filters: Buffer,
        channel_block: Index,
        position: tuple[Index, Index],
        number: Index,
        beside: Callable[[Index], None],
    ) -> None:
        """The sums of a register block, whose row and first pixel in the workgroup are its `position`.

        `beside` emits what is done for each tile of the reduction meanwhile: the unit works by itself. Each
        of the workgroup's register blocks, of which this is the given `number`, fetches a part of the filters
        of the next block of channels.
        """
        schedule, shape, block = self.schedule, self.shape, self.schedule.block
        parts = inputs.buffer
        row, pixel = position
        ahead = self._lines_ahead
        next_panel = filters.offset([channel_block + 1, 0, 0, 0]) + number * (ahead * CACHE_LINE_FLOATS)
        row_steps = [1, 1]
        if shape.spatial_rank > 1:
            row_steps = [shape.strides[-2] // input_step(shape, -2), shape.dilations[-2]]
        pixel_step = shape.strides[-1] // input_step(shape, -1)
        taps_of_row = shape.kernel_size[-1]
        first = inputs.address + (row * row_steps[0] * parts.stride(0) + pixel * pixel_step * TILE_LANES) * 4
        block.clear()
        with loop(self._taps, name="tap") as tap, loop(self._chunks, name="chunk") as chunk:
            tap_row, tap_column = tap // taps_of_row, tap % taps_of_row
            of_tap = tap_row * (row_steps[1] * parts.stride(0))
            of_tap = of_tap + tap_column * (shape.dilations[-1] * TILE_LANES)
            rows = first + (of_tap + chunk * parts.stride(1)) * 4
            step = tap * self._chunks + chunk
            panel_tiles = panel.address + step * (panel.buffer.stride(0) * 4)

            def row_address(part: int, tile: int, rows: Index = rows) -> Index:
                row_tile, pixel_tile = divmod(tile, schedule.pixel_tiles)
                within = row_tile * row_steps[0] * parts.stride(0)
                within += pixel_tile * schedule.tile_pixels * pixel_step * TILE_LANES
                return rows + (part * parts.stride(2) + within) * 4

            def filter_address(part: int, tile: int, panel_tiles: Index = panel_tiles) -> Index:
                return panel_tiles + (part * schedule.channel_tiles + tile) * TILE_BYTES

            block.add(row_address, pixel_step * ROW_BYTES, filter_address)
            for line in range(ahead):
                place = step * (self._register_blocks * ahead * CACHE_LINE_FLOATS) + line * CACHE_LINE_FLOATS
                filters.prefetch(next_panel + place, to_l2=True)
            beside(step)

    @property
    def _splits_meanwhile(self) -> bool:
        """Whether the unit multiplies pixels while those of the next register block are split: where each is
        read by a single output, all of which exist."""
        return self._taps == 1 and not self.shape.pads

    @property
    def _block_chunks(self) -> int:
        """Chunks of the pixels of a register block."""
        return self._chunks * self.schedule.block.row_tiles * self.schedule.tile_pixels

    @property
    def _lines_ahead(self) -> int:
        """Of the next block's filters, those that a register block fetches for a tile of the reduction."""
        if self.blocks.count == 1:
            return 0
        return ceil_div(TILE_CHANNELS * self.schedule.channel_tiles, self._register_blocks)
