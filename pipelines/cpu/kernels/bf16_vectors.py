"""The CPU kernel on vectors of pairs of bf16 (AVX512_BF16): the direct convolution, with sums in f32."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu.processor.bf16_pairs import add_pair_products, load_pairs, load_same_pair
from iree.winograd.pipelines.cpu.processor.matrix_unit import (
    PAIR_BYTES,
    ROW_BYTES,
    TILE_BYTES,
    TILE_CHANNELS,
    TILE_LANES,
)
from iree.winograd.pipelines.cpu.schedules.bf16_vectors import Bf16VectorSchedule
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop_carried, named, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.numbers.number import Number
from iree.winograd.pipelines.emission.work import Work
from iree.winograd.pipelines.problems.cache_line import CACHE_LINE_BYTES

from .bf16_tiled import Bf16TiledKernel, address_of
from .store import RegisterBlockStore
from .tiled import PlacedBlock, TiledInput
from .tiled_outputs import TiledOutputs

SMALLER_PART = 3
"""Of a register block: as large are those of rows that are shorter than it, or of one output."""


@dataclass(frozen=True)
class Bf16VectorKernel(Bf16TiledKernel[Bf16VectorSchedule]):
    """One kernel on vectors: sums stay in registers from the first tap to the last.

    A pair of neighbouring channels of a pixel is multiplied with a vector of pairs of filters. Of images of
    unknown sizes rows may be shorter than a register block: these have smaller ones.
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

        def emit_by(block_pixels: int) -> None:
            kernel = replace(self, schedule=replace(self.schedule, tile_pixels=block_pixels))
            kernel._emit_blocks(work, rows, filters, output, epilogue, outputs)

        _emit_by_fitting(self._block_pixels, outputs.line_pixels, emit_by)

    @property
    def _block_pixels(self) -> Sequence[int]:
        """Outputs of a register block, and of those for ever shorter rows where these are unknown."""
        pixels = self.schedule.tile_pixels
        if not self.shape.unknown_sizes:
            return [pixels]
        return [pixels, *sorted({ceil_div(pixels, SMALLER_PART), 1} - {pixels}, reverse=True)]

    def _emit_blocks(
        self,
        work: Work,
        rows: TiledInput,
        filters: Buffer,
        output: Buffer,
        epilogue: VectorEpilogue,
        outputs: TiledOutputs,
    ) -> None:
        """Emits the passes of a workgroup, in register blocks that are no longer than a row."""
        if self.shape.unknown_sizes:
            outputs = replace(outputs, tile_pixels=Index(self.schedule.tile_pixels))
        store = RegisterBlockStore.of(
            output,
            epilogue,
            (self.schedule.tile_pixels, self.schedule.channel_tiles, TILE_LANES),
            self.shape.element_types.accumulator_type,
            channels=self.shape.output_channels,
        )

        def compute(placed: PlacedBlock) -> None:
            position = outputs.position(placed.row, placed.pixel)
            channel = self.blocks.first(placed.channel_block)

            def fetch(step: Index) -> None:
                for vector in self._fetched_vectors(step, output.number):
                    store.prefetch(outputs.number, position, channel, vector)

            sums = self._sums(rows, filters, placed, fetch)
            store.emit(sums, outputs.number, position, channel, placed.pixel)

        self._emit_passes(work.workgroup, outputs, lambda channel_block: None, compute)

    def _fetched_vectors(self, step: Index, number: Number) -> Iterator[Index]:
        """Of a register block's outputs, those whose lines are fetched for a tile of the reduction: what is
        overwritten, and what the epilogue reads there."""
        vectors = self.schedule.channel_tiles
        of_line = CACHE_LINE_BYTES // (number.bytes * TILE_LANES)
        lines = ceil_div(vectors, of_line)
        count = self.schedule.tile_pixels * lines
        of_step = ceil_div(count, self._steps)
        for fetched in range(of_step):
            line = (step * of_step + fetched).minimum(count - 1)
            yield line // lines * vectors + line % lines * of_line

    def _sums(
        self, rows: TiledInput, filters: Buffer, placed: PlacedBlock, fetch: Callable[[Index], None]
    ) -> list[ir.Value]:
        """Emits the sums of a register block: pixel by pixel, vectors of neighbouring output channels.

        `fetch` emits what is fetched for a tile of the reduction.
        """
        schedule, accumulator = self.schedule, self.shape.element_types.accumulator_type
        panel = filters.offset([placed.channel_block, 0, 0, 0, 0]) * filters.number.bytes
        tiles, first = address_of(filters) + panel, self._first_input(rows, placed)
        whole, rest = divmod(self._merged * self.shape.input_channels, TILE_CHANNELS)

        def add_tap(tap: Index, sums: list[ir.Value]) -> list[ir.Value]:
            begin = first + self._tap_distance(rows, tap)

            def add_chunk(chunk: Index, sums: list[ir.Value], pairs: int = TILE_LANES) -> list[ir.Value]:
                step = tap * self._chunks + chunk
                self._fetch_filters(filters, placed, step, self._register_blocks)
                fetch(step)
                tile = tiles + step * (schedule.channel_tiles * TILE_BYTES)
                return self._add_pairs(sums, begin + chunk * rows.chunk, self._pixel_step(rows), tile, pairs)

            if whole:
                sums = loop_carried(whole, 1, sums, add_chunk, "chunk")
            return add_chunk(Index(whole), sums, ceil_div(rest, 2)) if rest else sums

        return loop_carried(self._taps, 1, schedule.product.zeros(accumulator), add_tap, "tap")

    def _add_pairs(
        self, sums: list[ir.Value], row: Index, pixel_step: int, tiles: Index, pairs: int
    ) -> list[ir.Value]:
        """Emits the adding of the products of so many pairs of channels of each pixel."""
        pixels, vectors = self.schedule.tile_pixels, self.schedule.channel_tiles

        def add_pair(pair: Index, sums: list[ir.Value]) -> list[ir.Value]:
            with named("filter"):
                filters = [load_pairs(tiles + (v * TILE_BYTES + pair * ROW_BYTES)) for v in range(vectors)]
            added = []
            for pixel in range(pixels):
                with named("element"):
                    element = load_same_pair(row + (pair * PAIR_BYTES + pixel * pixel_step))
                with named("sum"):
                    for v, each in enumerate(filters):
                        added.append(add_pair_products(sums[pixel * vectors + v], element, each))
            return added

        return loop_carried(pairs, 1, sums, add_pair, "pair")

    @property
    def _takes_channels(self) -> bool:
        return self.schedule.takes_channels(self.shape)


def _emit_by_fitting(block_pixels: Sequence[int], line_pixels: Index, emit_by: Callable[[int], None]) -> None:
    """Emits blocks of the first of `block_pixels` that a row has, or else of the last."""
    largest, *smaller = block_pixels
    if not smaller:
        emit_by(largest)
        return
    fits = line_pixels.at_least(largest)
    when(fits, lambda: emit_by(largest), lambda: _emit_by_fitting(smaller, line_pixels, emit_by))
