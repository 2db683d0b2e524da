"""The part of an image that a tile of a direct convolution reads, as it lies in shared memory.

Tiles are 64 outputs, 8 x 8 or in a line. Eight numbers of 16 bytes are a cell, and what eight neighbouring
outputs multiply by a tap are cells in a row, wherever the tap is. So matrix units read them there, 16 numbers
along the reduction dimension at a time, two cells: they take the distance between these, and that to the next
eight outputs, as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.emission.index import Index, IndexLike, ceildiv
from iree.winograd.pipelines.emission.numbers.bf16 import BF16
from iree.winograd.pipelines.emission.numbers.number import Number
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.device.warpgroup import REDUCTION, WARPGROUP_THREADS
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .matrix import HALF_BYTES

CELL = 8
"""Numbers of half precision."""
CELL_BYTES = CELL * HALF_BYTES
_LINE = 8
"""Outputs whose cells lie side by side."""
_SQUARE_TILE, _LINE_TILE = (8, 8), (1, 64)


@dataclass(frozen=True)
class Patch(ABC):
    """That of a convolution in two dimensions, in so many parts: high and low ones, or rounded numbers."""

    shape: ConvolutionShape
    parts: int
    channel_blocks: int
    """It has the channels of one of so many blocks at a time."""
    factors: Number
    """The type of its numbers."""

    @staticmethod
    def of(shape: ConvolutionShape, parts: int, channel_blocks: int, factors: Number) -> Patch | None:
        """The one that suits a convolution, or None."""
        if shape.transform_size != 1 or len(shape.output_size) != 2 or shape.groups != 1:
            return None
        if prod(shape.kernel_size) < prod(shape.strides):
            # Nothing reads most of what would be between its pixels.
            return None
        if shape.input_channels <= QUAD:
            is_by_pixels = channel_blocks == 1 and shape.strides[1] <= 2 and set(shape.dilations) == {1}
            return PixelPatch(shape, parts, channel_blocks, factors) if is_by_pixels else None
        patch = ChannelPatch(shape, parts, channel_blocks, factors)
        return patch if patch.channels % (channel_blocks * REDUCTION) == 0 else None

    @property
    def holds_image(self) -> bool:
        """Whether its numbers are the image's own, not scaled ones: bf16 has the exponents of all."""
        numbers = self.shape.exact_type or self.shape.element_types.input
        return self.factors is BF16 or (self.parts == 1 and numbers == self.factors.name)

    @property
    def slots(self) -> int:
        """Patches that a warpgroup has room for.

        One is copied while another is multiplied, where cells are in the image as they are here.
        """
        return 1

    @property
    def is_copied(self) -> bool:
        """Whether that is so of the image as it is stored."""
        return self.slots > 1 and self.shape.element_types.input == self.factors.name

    # Tiles

    @property
    def is_pointwise(self) -> bool:
        """Whether images are lines of pixels, whatever their width."""
        return False

    @property
    def tile(self) -> tuple[int, int]:
        """Outputs down and across."""
        return _SQUARE_TILE

    def plane(self, size: Sequence[IndexLike]) -> tuple[Index, Index]:
        """An image of this size as it is divided: tiles divide the plane of its outputs."""
        height, width = size
        return Index.of(height), Index.of(width)

    def tiles_per_image(self, output_size: Sequence[IndexLike]) -> tuple[Index, Index]:
        """Tiles down and across."""
        (height, width), (down, across) = self.plane(output_size), self.tile
        return ceildiv(height, down), ceildiv(width, across)

    @property
    def expected_tiles(self) -> int:
        """Those of an image of the size that is expected."""
        tiles = [each.known for each in self.tiles_per_image(self.shape.output_size)]
        return prod(each for each in tiles if each is not None)

    # Memory

    @property
    @abstractmethod
    def extents(self) -> tuple[int, int]:
        """Pixels down and across."""

    @property
    @abstractmethod
    def pair_bytes(self) -> int:
        """From the first cell of 16 numbers along the reduction dimension to the second."""

    @property
    @abstractmethod
    def line_bytes(self) -> int:
        """From eight outputs to the next eight."""

    @property
    @abstractmethod
    def part_bytes(self) -> int:
        """From high parts to low ones."""

    @property
    def channels(self) -> int:
        """Of all blocks, with those that are zeros."""
        return ceil_div(self.shape.input_channels, QUAD) * QUAD

    @property
    def channel_quads(self) -> int:
        """Quads of channels of a block."""
        return self.channels // (self.channel_blocks * QUAD)

    def whole_columns(self, units: int) -> int:
        """Columns that the threads of a warpgroup share evenly where they bring so many units of a pixel."""
        pixels = WARPGROUP_THREADS // units
        return self.extents[1] // pixels * pixels if pixels * units == WARPGROUP_THREADS else 0

    @property
    def loads(self) -> int:
        """Quads that a thread loads of a block."""
        return ceil_div(prod(self.extents) * self.channel_quads, WARPGROUP_THREADS)

    @property
    def scattered_loads(self) -> int:
        """Those that don't have the same columns in each row, and so places of their own."""
        columns = self.extents[1] - self.whole_columns(self.channel_quads)
        return ceil_div(self.extents[0] * columns * self.channel_quads, WARPGROUP_THREADS)

    @property
    def bytes(self) -> int:
        return self.parts * self.part_bytes

    @abstractmethod
    def places(self, row: Index, column: Index, quad: Index) -> list[Index]:
        """The bytes at which a quad of channels of a pixel lies."""

    # The reduction dimension

    @property
    @abstractmethod
    def reduction(self) -> int:
        """Numbers along it, a multiple of 16."""

    @property
    def row_taps(self) -> int | None:
        """Of a row of taps, with those that are zero, where these are next to each other along the reduction
        dimension; None where that numbers views, then channels."""
        return None

    @abstractmethod
    def steps(self, block: int) -> list[tuple[int, int]]:
        """Of a block of channels, steps of 16 along it, and where the first cell is that the first output
        multiplies in each."""

    def _height(self) -> int:
        reach = max(view[0] for view in self.shape.decomposition.views)
        return (self.tile[0] - 1) * self.shape.strides[0] + reach + 1


@dataclass(frozen=True)
class ChannelPatch(Patch):
    """Cells of eight channels of a pixel, those behind the image's in whole sixteens zeros.

    patch [part, c / 8, y, x % stride, x / stride, c % 8], multiplied in the order (tap, c)
    """

    @property
    def slots(self) -> int:
        has_zeros = self.channels != self.shape.input_channels
        return 2 if self.holds_image and not has_zeros and not self.shape.input_channels_first else 1

    @property
    def channels(self) -> int:
        return ceil_div(self.shape.input_channels, REDUCTION) * REDUCTION

    @property
    def is_pointwise(self) -> bool:
        shape = self.shape
        return prod(shape.kernel_size) == 1 and set(shape.strides) == {1} and not shape.pads

    @property
    def tile(self) -> tuple[int, int]:
        return _LINE_TILE if self.is_pointwise else _SQUARE_TILE

    def plane(self, size: Sequence[IndexLike]) -> tuple[Index, Index]:
        height, width = super().plane(size)
        return (Index(1), height * width) if self.is_pointwise else (height, width)

    @property
    def extents(self) -> tuple[int, int]:
        reach = max(view[1] for view in self.shape.decomposition.views)
        return self._height(), (self.tile[1] - 1) * self.shape.strides[1] + reach + 1

    @property
    def _phase_columns(self) -> int:
        """Of a row those whose number has the same rest by the stride."""
        return ceil_div(self.extents[1], self.shape.strides[1])

    @property
    def _pitch(self) -> int:
        return self._phase_columns * self.shape.strides[1]

    @property
    def pair_bytes(self) -> int:
        """An odd number of cells, so that those of a pixel are in different banks."""
        return CELL_BYTES * (self.extents[0] * self._pitch | 1)

    @property
    def line_bytes(self) -> int:
        if self.is_pointwise:
            return _LINE * CELL_BYTES
        return self.shape.strides[0] * self._pitch * CELL_BYTES

    @property
    def part_bytes(self) -> int:
        return self._channels // CELL * self.pair_bytes

    @property
    def _channels(self) -> int:
        """Of a block."""
        return self.channels // self.channel_blocks

    def places(self, row: Index, column: Index, quad: Index) -> list[Index]:
        quads = CELL // QUAD
        cell = quad // quads * self.pair_bytes + self._pixel(row, column)
        return [cell + quad % quads * (QUAD * HALF_BYTES)]

    def _pixel(self, row: Index, column: Index) -> Index:
        stride = self.shape.strides[1]
        return (row * self._pitch + column % stride * self._phase_columns + column // stride) * CELL_BYTES

    @property
    def reduction(self) -> int:
        return len(self.shape.decomposition.views) * self.channels

    def steps(self, block: int) -> list[tuple[int, int]]:
        steps = []
        for number, (row, column) in enumerate(self.shape.decomposition.views):
            pixel = self._pixel(Index(row), Index(column)).known
            assert pixel is not None
            first = number * self.channels + block * self._channels
            for channel in range(0, self._channels, REDUCTION):
                steps.append(((first + channel) // REDUCTION, channel // CELL * self.pair_bytes + pixel))
        return steps


@dataclass(frozen=True)
class PixelPatch(Patch):
    """Cells of two neighbouring pixels of up to four channels: those of images themselves.

    patch [part, y, cell, x % 2, c], multiplied in the order (row of taps, tap, c), taps in whole fours

    With a stride of two a cell begins at every second pixel, else at each, which then is in two cells.
    """

    @property
    def row_taps(self) -> int:
        taps = REDUCTION // QUAD
        return ceil_div(self.shape.kernel_size[1], taps) * taps

    @property
    def _cells_per_pair(self) -> int:
        """From one pair of taps to the next."""
        return 2 // self.shape.strides[1]

    @property
    def _cells(self) -> int:
        """Of a row, those that are multiplied."""
        return self.tile[1] + self._cells_per_pair * (self.row_taps // 2 - 1)

    @property
    def _pitch(self) -> int:
        # Where they overlap, the first pixel is in one before them, too, and the last one in one behind.
        return self._cells + (2 if self._overlaps else 0)

    @property
    def _overlaps(self) -> bool:
        return self.shape.strides[1] == 1

    @property
    def extents(self) -> tuple[int, int]:
        return self._height(), self.shape.strides[1] * (self._cells - 1) + 2

    @property
    def pair_bytes(self) -> int:
        return self._cells_per_pair * CELL_BYTES

    @property
    def line_bytes(self) -> int:
        return self.shape.strides[0] * self._pitch * CELL_BYTES

    @property
    def part_bytes(self) -> int:
        return self.extents[0] * self._pitch * CELL_BYTES

    def places(self, row: Index, column: Index, quad: Index) -> list[Index]:
        del quad
        half = QUAD * HALF_BYTES
        if not self._overlaps:
            return [(row * self._pitch + column // 2) * CELL_BYTES + column % 2 * half]
        before = (row * self._pitch + column) * CELL_BYTES
        return [before + half, before + CELL_BYTES]

    @property
    def reduction(self) -> int:
        return self.shape.kernel_size[0] * self.row_taps * QUAD

    def steps(self, block: int) -> list[tuple[int, int]]:
        leading = 1 if self._overlaps else 0
        steps = []
        for step in range(self.reduction // REDUCTION):
            row, first = divmod(step * REDUCTION // QUAD, self.row_taps)
            cell = row * self._pitch + first // 2 * self._cells_per_pair + leading
            steps.append((step, cell * CELL_BYTES))
        return steps
