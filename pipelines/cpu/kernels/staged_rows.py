"""Rows of an image as numbers of bf16, in the order in which a matrix unit reads them.

Memory is that of several parts of each number, or of one: a buffer for each, which rounds to that part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu.processor.matrix_unit import ROW_BYTES, TILE_CHANNELS, TILE_LANES
from iree.winograd.pipelines.cpu.schedules.tiled import input_step
from iree.winograd.pipelines.emission.buffer import Buffer, clear_elements, copy_elements
from iree.winograd.pipelines.emission.control_flow import loop
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.vectors import LaneMask, splat
from iree.winograd.pipelines.problems.shape import ConvolutionShape


@dataclass(frozen=True)
class RoundedRow:
    """Row `number` of rows x chunks of channels x parts x columns x 32 channels.

    Where rows are joined it is of chunks x parts x rows x columns x 32 channels.
    """

    shape: ConvolutionShape
    image: Buffer
    staged: Sequence[Buffer]
    number: Index
    columns: Index
    """Those of them that are read."""
    joins_rows: bool

    def fill(self, source: Index, begin: Index, end: Index) -> None:
        stride = input_step(self.shape, -1) * self.image.known_stride(-2)
        self._clear(Index(0), begin)
        with loop(end - begin, name="column") as number:
            column = begin + number
            self._copy_pixel(source + column * stride, column)
        self._clear(end, self.columns)

    def clear(self) -> None:
        self._clear(Index(0), self.columns)

    def _copy_pixel(self, source: Index, column: Index) -> None:
        """Copies the channels of a pixel; those past the last one are zeros."""
        whole, rest = divmod(self.shape.input_channels, TILE_CHANNELS)
        lanes = ROW_BYTES // self.image.number.bytes

        def copy_chunk(chunk: Index, valid: int) -> None:
            for lane in range(0, TILE_CHANNELS, lanes):
                value = self._loaded(source + chunk * TILE_CHANNELS + lane, valid - lane, lanes)
                for part, staged in enumerate(self.staged):
                    staged.store(value, self._place(staged, chunk, part, column) + lane)

        with loop(whole, name="chunk") as chunk:
            copy_chunk(chunk, TILE_CHANNELS)
        if rest:
            copy_chunk(Index(whole), rest)

    def _place(self, staged: Buffer, chunk: Index, part: int, column: Index) -> Index:
        """Of a part of a chunk of a column's channels."""
        outer = (chunk, part, self.number) if self.joins_rows else (self.number, chunk, part)
        return staged.offset([*outer, column, 0])

    def _loaded(self, first: Index, valid: int, lanes: int) -> ir.Value:
        """So many elements, zeros in place of those that aren't valid."""
        if valid >= lanes:
            return self.image.load(first, lanes)
        if valid <= 0:
            return splat(0.0, lanes, self.image.computed)
        return self.image.load_lanes(first, LaneMask.between(0, valid, lanes))

    def _clear(self, begin: Index, end: Index) -> None:
        with loop(self.staged[0].extents[0 if self.joins_rows else 1], name="cleared_chunk") as chunk:
            for part, staged in enumerate(self.staged):
                first = self._place(staged, chunk, part, begin)
                clear_elements(staged, first, (end - begin) * TILE_CHANNELS, TILE_LANES)


@dataclass(frozen=True)
class MergedRow:
    """Row `number` of rows x parts x elements of a row, the channels of neighbouring columns side by side."""

    shape: ConvolutionShape
    image: Buffer
    staged: Sequence[Buffer]
    number: Index
    elements: Index
    """Those of them that are read."""

    def fill(self, source: Index, begin: Index, end: Index) -> None:
        for part, staged in enumerate(self.staged):
            self._fill(staged, staged.offset([self.number, part, 0]), source, begin, end)

    def _fill(self, staged: Buffer, target: Index, source: Index, begin: Index, end: Index) -> None:
        channels = self.shape.input_channels
        clear_elements(staged, target, begin * channels, TILE_LANES)
        stride = self.image.known_stride(-2)
        if stride == channels:
            first, written, count = (
                source + begin * channels,
                target + begin * channels,
                (end - begin) * channels,
            )
            copy_elements(self.image, first, staged, written, count, TILE_LANES)
        else:
            with loop(end - begin, name="column") as number:
                column = begin + number
                written = target + column * channels
                read = source + column * stride
                copy_elements(self.image, read, staged, written, Index(channels), TILE_LANES)
        rest = self.elements - end * channels
        clear_elements(staged, target + end * channels, rest, TILE_LANES)

    def clear(self) -> None:
        for part, staged in enumerate(self.staged):
            target = staged.offset([self.number, part, 0])
            clear_elements(staged, target, self.elements, TILE_LANES)
