"""How many tiles of channels-first images are transposed together."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.problems.shape import ConvolutionShape

STRIP_BLOCK = 8
"""Elements of a line that are transposed at once: more would ask for more registers than there are."""
STRIP_ELEMENTS = 2048
"""Vectors of a strip, about: an eighth of L2. Rows cut into strips that L1 holds take longer on Zen 4."""


@dataclass(frozen=True)
class StripExtents:
    """A strip of `tiles` neighbours in a row of tiles: `lines` of the image by `columns` of each.

    Neighbours share elements of an image, and cache lines of each channel: a strip is transposed as a whole.
    The columns are those of its tiles, and those beside them that blocks of a line may begin or end with.
    """

    tiles: int
    lines: int
    columns: int

    @property
    def elements(self) -> int:
        """Vectors of channels in the memory that a strip waits in."""
        return self.lines * self.columns


def input_strip(shape: ConvolutionShape) -> StripExtents:
    """That of the images which a channels-first convolution reads."""
    *lines, length = shape.decomposition.alpha
    outputs = shape.decomposition.output_tile[-1]
    tiles = _tiles(shape, prod(lines), outputs)
    beside = shape.padding_low[-1] + 3 * STRIP_BLOCK
    return StripExtents(tiles, prod(lines), tiles * outputs + length - outputs + beside)


def output_strip(shape: ConvolutionShape) -> StripExtents:
    """That of the images which it writes."""
    *lines, outputs = shape.decomposition.output_tile
    tiles = _tiles(shape, prod(lines), outputs)
    return StripExtents(tiles, prod(lines), tiles * outputs + STRIP_BLOCK)


def strip_elements(shape: ConvolutionShape) -> int:
    """Vectors of channels that wait in strips."""
    reading = input_strip(shape).elements if shape.input_channels_first else 0
    return reading + (output_strip(shape).elements if shape.output_channels_first else 0)


def _tiles(shape: ConvolutionShape, lines: int, outputs: int) -> int:
    """A row's, divided evenly into as few strips as that takes, of whole blocks."""
    row = shape.tiles_per_image[-1]
    strips = ceil_div(row * lines * outputs, STRIP_ELEMENTS)
    whole = STRIP_BLOCK // gcd(STRIP_BLOCK, outputs)
    return min(row, ceil_div(row, strips * whole) * whole)
