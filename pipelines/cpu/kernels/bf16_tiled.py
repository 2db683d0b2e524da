"""What kernels that multiply bf16 share: packed filters, and the input where it is or between zeros."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Generic, TypeVar

import numpy as np
from iree.winograd.dialect.algebra.bf16 import BITS, bf16_bits, bf16_numbers
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import memref
from iree.winograd.passes.match.values.constants import Array
from iree.winograd.pipelines.cpu.processor.matrix_unit import (
    TILE_BYTES,
    TILE_CHANNELS,
    TILE_LANES,
    TILE_ROWS,
)
from iree.winograd.pipelines.cpu.schedules.tiled import (
    Bf16TileSchedule,
    input_step,
    merged_taps,
    split_columns,
    split_rows,
)
from iree.winograd.pipelines.emission.buffer import Buffer, ScratchMemory
from iree.winograd.pipelines.emission.index import Index, IndexLike
from iree.winograd.pipelines.emission.numbers.bf16 import BF16, PARTS
from iree.winograd.pipelines.problems.cache_line import CACHE_LINE_BYTES

from .staged_rows import MergedRow, RoundedRow
from .tiled import PlacedBlock, StagedRow, TiledInput, TiledKernel
from .tiled_outputs import JoinedOutputs, TiledOutputs

Bf16Schedule = TypeVar("Bf16Schedule", bound=Bf16TileSchedule)


@dataclass(frozen=True)
class Bf16TiledKernel(TiledKernel[Bf16Schedule], Generic[Bf16Schedule]):
    """A kernel of products of bf16 that are summed in f32.

    An image of bf16 without padding is multiplied where it is, if the kernel can read its channels there. Of
    another one a workgroup copies the elements that it needs, between zeros, and rounds them if they are f32.
    Filters are rounded and packed while compiling. Of few channels the taps of a row are summed as channels
    of a single one: a tile has elements behind the last tap, whose filters are zeros.
    """

    @property
    def packed_filter_shape(self) -> tuple[int, ...]:
        """channel blocks x (taps, row-major, times chunks of 32 channels, or chunks times taps) x (parts
        times tiles) x 16 pairs of input channels x 16 output channels; a pair of bf16 has the place of an
        f32."""
        tiles = self.schedule.parts * self.schedule.channel_tiles
        return (self.blocks.count, self._steps, tiles, TILE_ROWS, TILE_LANES)

    @property
    def _merged(self) -> int:
        return merged_taps(self.shape)

    @property
    def filter_part(self) -> int:
        parts = min(self.schedule.channel_splits, self.blocks.count)
        return self.blocks.part_size(parts) * prod(self.packed_filter_shape[1:])

    def pack_filters(self, weights: Array) -> Array:
        """Filters of f32, 1 x (views times input channels) x output channels, as `packed_filter_shape`."""
        shape, blocks = self.shape, self.blocks
        by_view = weights.reshape(len(self.view_order), shape.input_channels, -1)[self.view_order]
        rest = by_view.reshape(self._taps, self._merged * shape.input_channels, -1).astype(np.float32)
        packed = np.zeros(self.packed_filter_shape, np.uint32)
        for part in range(self.schedule.parts):
            bits = bf16_bits(rest)
            rest = rest - bf16_numbers(bits)
            padded = np.zeros((self._taps, self._chunks * TILE_CHANNELS, rest.shape[-1]), np.uint16)
            padded[:, : rest.shape[1]] = bits
            tiles = padded.reshape(self._taps, self._chunks, TILE_CHANNELS, -1)
            if self.schedule.takes_chunks_first(self.shape):
                tiles = tiles.swapaxes(0, 1)
            pairs = tiles.reshape(self._steps, TILE_ROWS, 2, -1).astype(np.uint32)
            joined = pairs[:, :, 0] | pairs[:, :, 1] << BITS
            for number, block in enumerate(packed):
                first = blocks.first(Index(number)).known
                assert first is not None
                own = joined[..., first : first + blocks.size]
                for tile in range(self.schedule.channel_tiles):
                    # Lanes past the last channel stay zero.
                    lanes = own[..., tile * TILE_LANES : (tile + 1) * TILE_LANES]
                    block[:, part * self.schedule.channel_tiles + tile, :, : lanes.shape[-1]] = lanes
        return packed.view(np.float32)

    def _fetch_filters(self, filters: Buffer, placed: PlacedBlock, step: Index, register_blocks: int) -> None:
        """Fetches, for a tile of the reduction of a register block, a part of the filters of the next block
        of channels: as many register blocks fetch all of them."""
        if self.blocks.count == 1:
            return
        tiles = self.schedule.parts * self.schedule.channel_tiles
        lines = ceil_div(tiles * TILE_BYTES // CACHE_LINE_BYTES, register_blocks)
        floats = CACHE_LINE_BYTES // filters.number.bytes
        following = filters.offset([placed.channel_block + 1, 0, 0, 0, 0])
        place = following + placed.number * (lines * floats)
        for line in range(lines):
            of_step = step * (register_blocks * lines * floats)
            filters.prefetch(place + of_step + line * floats, to_l2=True)

    def _rows(self, image: Buffer, outputs: TiledOutputs) -> TiledInput:
        """The input of a workgroup, where it is or a copy of it."""
        if self._reads_in_place(image):
            return self._in_place(image, outputs)
        return self._stage(image, outputs)

    def _reads_in_place(self, image: Buffer) -> bool:
        """Whether the image itself is multiplied."""
        multiplied = self.schedule.multiplied_type == BF16.name == image.number.name
        return multiplied and self._takes_channels and not self.shape.pads

    @property
    def _takes_channels(self) -> bool:
        """Whether channels can be read where they are: they fill tiles."""
        return self.shape.input_channels % TILE_CHANNELS == 0

    def _in_place(self, image: Buffer, outputs: TiledOutputs) -> TiledInput:
        """The input where it is: distances are those of what `_multiply` takes for the next element."""
        shape = self.shape
        column = input_step(shape, -1) * image.known_stride(-2)
        row, position = Index(0), [outputs.block.first_pixel * shape.strides[-1]]
        if shape.spatial_rank > 1:
            row = Index.of(image.stride(-3)) * input_step(shape, -2)
            position = [outputs.block.first_row * shape.strides[-2], *position]
        outer = [Index(0)] * (shape.spatial_rank - len(position))
        first = image.offset([outputs.number, *outer, *position, 0])
        return _tiled(address_of(image) + first * BF16.bytes, row, column, TILE_CHANNELS)

    def _stage(self, image: Buffer, outputs: TiledOutputs) -> TiledInput:
        """A copy of the input of a workgroup: rows x chunks of channels x parts x columns x 32 channels, or,
        where taps are merged, rows x parts x elements of a row, side by side. Rows that are joined lie behind
        each other: chunks x parts x rows x columns x 32 channels."""
        shape = self.shape
        columns = split_columns(shape, self.schedule.pixel_block)
        rows = self.schedule.staged_rows(shape)
        parts = self.schedule.parts
        joins_rows = self.schedule.joins(shape)
        chunks = (self._chunks, parts)
        outer = (*chunks, rows) if joins_rows else (rows, *chunks)
        extents: tuple[int, ...] = (*outer, columns, TILE_CHANNELS)
        if self._merged > 1:
            extents = (rows, parts, self.schedule.merged_row(shape, self.schedule.pixel_block))
        memory = ScratchMemory.of(extents, BF16.type, "staged_input")
        # What is bf16 is copied bit by bit.
        numbers = {} if parts == 1 and image.number.name == BF16.name else self.target.numbers
        image, copied = image.with_numbers(numbers), memory.buffer
        if isinstance(outputs, JoinedOutputs):
            # As many rows as are read, behind each other: what is left of memory is behind the last one.
            extent = split_rows(shape, outputs.rows), outputs.columns, TILE_CHANNELS
            copied = replace(copied, extents=(*chunks, *extent))
        staged = [copied.with_numbers(numbers)]
        if parts > 1:
            staged = [copied.with_numbers({BF16.name: part}) for part in PARTS]

        def staged_row(number: Index) -> StagedRow:
            if self._merged > 1:
                elements = self.schedule.merged_row(shape, outputs.pixels)
                return MergedRow(shape, image, staged, number, elements)
            columns = split_columns(shape, outputs.pixels)
            return RoundedRow(shape, image, staged, number, columns, joins_rows)

        self._stage_rows(image, outputs, staged_row)
        strides = [staged[0].stride(dimension) for dimension in range(len(extents) - 1)]
        if self._merged > 1:
            row, part = strides
            return _tiled(memory.address, row, shape.input_channels, TILE_CHANNELS, part)
        row, chunk, part, _ = (strides[i] for i in ((2, 0, 1, 3) if joins_rows else range(4)))
        return _tiled(memory.address, row, TILE_CHANNELS, chunk, part)


def _tiled(address: Index, row: IndexLike, column: int, chunk: IndexLike, part: IndexLike = 0) -> TiledInput:
    """Input of bf16, of distances in elements."""
    row, chunk, part = (each * BF16.bytes for each in (row, chunk, part))
    return TiledInput(address, row, column * BF16.bytes, chunk, part)


def address_of(buffer: Buffer) -> Index:
    """In bytes, of the memory whose first element has offset zero."""
    return Index(memref.extract_aligned_pointer_as_index(buffer.memref))
