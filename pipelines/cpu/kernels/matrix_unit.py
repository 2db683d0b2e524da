"""The CPU kernel on matrix units: the direct convolution of f32 numbers that are split into bf16 parts."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.processor.matrix_unit import (
    PAIR_BYTES,
    PARTS,
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
from iree.winograd.pipelines.cpu.schedules.matrix_unit import MatrixUnitSchedule
from iree.winograd.pipelines.cpu.schedules.tiled import input_step, split_columns, split_rows
from iree.winograd.pipelines.emission.buffer import Buffer, ScratchMemory
from iree.winograd.pipelines.emission.control_flow import loop, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.vectors import LaneMask, splat
from iree.winograd.pipelines.emission.work import Work

from .tiled import PlacedBlock, TiledInput, TiledKernel
from .tiled_outputs import TiledOutputs


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
        when(
            permitted(),
            lambda: self._emit_on_unit(work, image, filters, output, epilogue),
            lambda: self.without_unit.emit(work, image, filters, output, epilogue),
        )

    def _emit_on_unit(
        self,
        work: Work,
        image: Buffer,
        filters: Buffer,
        output: Buffer,
        epilogue: VectorEpilogue,
    ) -> None:
        schedule, outputs = self.schedule, self._outputs(work)
        image, output, epilogue = self.without_unit.in_lines(image, output, epilogue, outputs.sized)
        block = outputs.tiles
        block.configure()
        inputs = self._input_memory()
        if self._splits_meanwhile:
            self._split_pixels(image, inputs.buffer, outputs, Index(0), Index(0), self._block_chunks(outputs))
        else:
            columns = split_columns(self.shape, outputs.pixels)
            self._stage_rows(image, outputs, lambda row: self._split_row(image, inputs.buffer, row, columns))
        panel = ScratchMemory.of(
            (self._steps, PARTS, schedule.channel_tiles, TILE_ROWS, TILE_LANES), parts_type(), "panel"
        )
        results = self._block_outputs(outputs, output, epilogue)

        parts = inputs.buffer
        row, chunk, part, column = (parts.known_stride(dimension) * PAIR_BYTES for dimension in range(4))
        rows = TiledInput(inputs.address, row, column, chunk, part)

        def compute(placed: PlacedBlock) -> None:
            next_panel = filters.offset([placed.channel_block + 1, 0, 0, 0]) + placed.number * (
                self._lines_ahead * CACHE_LINE_FLOATS
            )

            def meanwhile(tile_step: Index) -> None:
                self._fetch_filters(filters, next_panel, tile_step)
                self._fetch_outputs(results, placed, tile_step)
                if not self._splits_meanwhile:
                    return
                following = (placed.number + 1).minimum(outputs.register_blocks - 1)
                count = outputs.block_pixels * schedule.row_tiles
                when(
                    placed.channel_pass.equals(0),
                    lambda: self._split_pixels(
                        image, inputs.buffer, outputs, following, tile_step * count, count
                    ),
                )

            self._multiply(block, rows, panel.address, outputs, placed, meanwhile)
            block.store(results.sums.address)
            self._finish(block, results, placed)

        def begin(channel_block: Index) -> None:
            self._split_filters(filters, channel_block, panel.buffer)

        self._emit_passes(work.workgroup, outputs, begin, compute)
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
        outputs: TiledOutputs,
        register_block: Index,
        first: Index,
        count: Index,
    ) -> None:
        """Splits `count` chunks of the pixels that a register block reads, of which each reads one.

        They are counted from `first` on, chunk after chunk of pixel after pixel.
        """
        schedule, shape = self.schedule, self.shape
        pixels = outputs.block_pixels
        row_start = register_block // outputs.blocks_of_row * schedule.row_tiles
        pixel_start = register_block % outputs.blocks_of_row * pixels
        row = row_start.minimum((outputs.rows - schedule.row_tiles).maximum(0))
        column = pixel_start.minimum((outputs.pixels - pixels).maximum(0))
        coordinates, _ = self._input_row(outputs, row)
        first_column = (outputs.block.first_pixel + column) * shape.strides[-1]
        source = image.offset([outputs.number, *coordinates, first_column, 0])
        target = parts.offset([row, 0, 0, column, 0])
        row_stride = 0 if shape.spatial_rank == 1 else shape.strides[-2] * image.stride(-3)
        pixel_stride = shape.strides[-1] * image.stride(-2)
        with loop(count, name="split") as i:
            pixel, chunk = (first + i) // self._chunks, (first + i) % self._chunks
            pixel_row, pixel_column = pixel // pixels, pixel % pixels
            if schedule.row_tiles == 1:
                pixel_row, pixel_column = Index(0), pixel
            pixel_row, pixel_column = outputs.moved_in(pixel_row, pixel_column)
            read = source + (pixel_row * row_stride + pixel_column * pixel_stride)
            written = target + (pixel_row * parts.stride(0) + pixel_column * TILE_LANES)
            self.split_chunk(image, read, chunk, parts, written)

    def split_chunk(self, image: Buffer, source: Index, chunk: Index, parts: Buffer, target: Index) -> None:
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

    def _split_row(self, image: Buffer, parts: Buffer, number: Index, columns: Index) -> _SplitRow:
        """A row of the parts of the input."""
        return _SplitRow(self, image, parts, parts.offset([number, 0, 0, 0, 0]), columns)

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

    def _fetch_filters(self, filters: Buffer, next_panel: Index, step: Index) -> None:
        """Fetches, for a tile of the reduction, a part of the filters of the next block of channels, which
        each of the workgroup's register blocks does."""
        ahead = self._lines_ahead
        for line in range(ahead):
            place = step * (self._register_blocks * ahead * CACHE_LINE_FLOATS) + line * CACHE_LINE_FLOATS
            filters.prefetch(next_panel + place, to_l2=True)

    @property
    def _splits_meanwhile(self) -> bool:
        """Whether the unit multiplies pixels while those of the next register block are split: where each is
        read by a single output, all of which exist."""
        return self._taps == 1 and not self.shape.pads

    def _block_chunks(self, outputs: TiledOutputs) -> Index:
        """Chunks of the pixels of a register block."""
        return outputs.tile_pixels * (self._chunks * self.schedule.block.row_tiles)

    @property
    def _lines_ahead(self) -> int:
        """Of the next block's filters, those that a register block fetches for a tile of the reduction."""
        if self.blocks.count == 1:
            return 0
        return ceil_div(TILE_CHANNELS * self.schedule.channel_tiles, self._register_blocks)


@dataclass(frozen=True)
class _SplitRow:
    """A row of the parts of the input, which begins at `target`."""

    kernel: MatrixUnitKernel
    image: Buffer
    parts: Buffer
    target: Index
    columns: Index
    """Those of it that are read."""

    def fill(self, source: Index, begin: Index, end: Index) -> None:
        shape, schedule = self.kernel.shape, self.kernel.schedule
        step = input_step(shape, -1) * self.image.stride(-2)
        self._clear(Index(0), begin)
        with (
            loop(end - begin, name="column") as column,
            loop(schedule.chunks(shape), name="chunk") as chunk,
        ):
            read = source + (begin + column) * step
            written = self.target + (begin + column) * TILE_LANES
            self.kernel.split_chunk(self.image, read, chunk, self.parts, written)
        self._clear(end, self.columns)

    def clear(self) -> None:
        self._clear(Index(0), self.columns)

    def _clear(self, begin: Index, end: Index) -> None:
        chunks = self.kernel.schedule.chunks(self.kernel.shape)
        with (
            loop(chunks * PARTS, name="part") as part,
            loop(end - begin, name="column") as column,
        ):
            zeros = zero_parts()
            place = self.target + part * self.parts.stride(2) + (begin + column) * TILE_LANES
            self.parts.store(zeros, place)
