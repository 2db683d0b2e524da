"""Rows of an image as numbers of bf16, in the order in which a matrix unit reads them."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.pipelines.cpu.processor.matrix_unit import ROW_BYTES, TILE_CHANNELS, TILE_LANES
from iree.winograd.pipelines.cpu.schedules.tiled import input_step
from iree.winograd.pipelines.emission.buffer import Buffer, clear_elements, copy_elements
from iree.winograd.pipelines.emission.control_flow import loop
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.problems.shape import ConvolutionShape


@dataclass(frozen=True)
class RoundedRow:
    """Row `number` of rows x chunks of channels x columns x 32 channels."""

    shape: ConvolutionShape
    image: Buffer
    staged: Buffer
    number: Index

    def fill(self, source: Index, begin: Index, end: Index) -> None:
        stride = input_step(self.shape, -1) * self.image.known_stride(-2)
        self._clear(Index(0), begin)
        with loop(end - begin, name="column") as number:
            column = begin + number
            self._copy_pixel(source + column * stride, column)
        self._clear(end, Index(self._columns))

    def clear(self) -> None:
        self._clear(Index(0), Index(self._columns))

    @property
    def _columns(self) -> int:
        return self.staged.known_extents[2]

    def _copy_pixel(self, source: Index, column: Index) -> None:
        """Copies the channels of a pixel; those past the last one are zeros."""
        whole, rest = divmod(self.shape.input_channels, TILE_CHANNELS)
        lanes = ROW_BYTES // self.image.number.bytes
        with loop(whole, name="chunk") as chunk:
            target = self.staged.offset([self.number, chunk, column, 0])
            for lane in range(0, TILE_CHANNELS, lanes):
                value = self.image.load(source + chunk * TILE_CHANNELS + lane, lanes)
                self.staged.store(value, target + lane)
        if rest:
            target = self.staged.offset([self.number, whole, column, 0])
            first = source + whole * TILE_CHANNELS
            copy_elements(self.image, first, self.staged, target, Index(rest), TILE_LANES)
            clear_elements(self.staged, target + rest, Index(TILE_CHANNELS - rest), TILE_LANES)

    def _clear(self, begin: Index, end: Index) -> None:
        with loop(self.staged.known_extents[1], name="cleared_chunk") as chunk:
            first = self.staged.offset([self.number, chunk, begin, 0])
            clear_elements(self.staged, first, (end - begin) * TILE_CHANNELS, TILE_LANES)


@dataclass(frozen=True)
class MergedRow:
    """Row `number` of rows x elements of a row, the channels of neighbouring columns side by side."""

    shape: ConvolutionShape
    image: Buffer
    staged: Buffer
    number: Index

    def fill(self, source: Index, begin: Index, end: Index) -> None:
        channels, target = self.shape.input_channels, self._target
        clear_elements(self.staged, target, begin * channels, TILE_LANES)
        stride = self.image.known_stride(-2)
        if stride == channels:
            first, written, count = (
                source + begin * channels,
                target + begin * channels,
                (end - begin) * channels,
            )
            copy_elements(self.image, first, self.staged, written, count, TILE_LANES)
        else:
            with loop(end - begin, name="column") as number:
                column = begin + number
                written = target + column * channels
                read = source + column * stride
                copy_elements(self.image, read, self.staged, written, Index(channels), TILE_LANES)
        rest = Index(self.staged.known_stride(0)) - end * channels
        clear_elements(self.staged, target + end * channels, rest, TILE_LANES)

    def clear(self) -> None:
        clear_elements(self.staged, self._target, Index(self.staged.known_stride(0)), TILE_LANES)

    @property
    def _target(self) -> Index:
        return self.staged.offset([self.number, 0])
