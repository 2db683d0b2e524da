"""The tiles that a workgroup transforms, one by one or by strips."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from iree.winograd.pipelines.emission.control_flow import loop
from iree.winograd.pipelines.emission.index import Index, IndexLike, ceildiv, select_index
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.tiles import Tile, locate_tile


@dataclass(frozen=True)
class Strip:
    """Tiles of a block that are neighbours in a row of tiles: those of its rows from `begin` to `end`.

    `first` is the first tile of the strip, which the block may lack; it would be of row `first_row`. Rows
    past tile number `last` repeat it.
    """

    first: Tile
    first_row: Index
    begin: Index
    end: Index
    last: Index

    def number(self, row: Index) -> Index:
        """Of a row's tile within the strip."""
        return (row - self.first_row).minimum(self.last)


@dataclass(frozen=True)
class TileBlock:
    """`count` tiles from `first` on of all `tiles` that there are, each a row of what a workgroup works on.

    Rows past the last tile, which may be all of them, repeat it: they write what is written anyway.
    """

    shape: SizedShape
    first: Index
    count: IndexLike
    tiles: Index
    is_within: bool
    """Whether none of its rows is past the last tile."""

    def tile(self, row: Index) -> Tile:
        """The tile of a row."""
        number = self.first + row
        return locate_tile(self.shape, number if self.is_within else number.minimum(self.tiles - 1))

    @contextmanager
    def rows(self) -> Iterator[tuple[Index, Tile]]:
        """A loop over the rows, with their tiles."""
        with loop(self.count, name="row") as row:
            yield row, self.tile(row)

    @contextmanager
    def strips(self, longest: int) -> Iterator[Strip]:
        """A loop over the strips that rows of tiles are divided into: of `longest` tiles, or the rest."""
        row_tiles = self.shape.tiles_per_image[-1]
        per_row = ceildiv(row_tiles, longest)
        end = (self.first + self.count).minimum(self.tiles)

        def strip_of(tile: Index) -> Index:
            return tile // row_tiles * per_row + tile % row_tiles // longest

        first = strip_of(self.first.minimum(self.tiles - 1))
        count = strip_of(end - 1) - first + 1
        with loop(count, name="strip") as i:
            row, part = (first + i) // per_row, (first + i) % per_row
            before = part * longest
            of_row = locate_tile(self.shape, row * row_tiles)
            outputs = before * self.shape.decomposition.output_tile[-1]
            first_row = row * row_tiles + before - self.first
            tiles = (row_tiles - before).minimum(longest)
            yield Strip(
                first=replace(of_row, first_output=(*of_row.first_output[:-1], outputs)),
                first_row=first_row,
                begin=first_row.maximum(0),
                end=select_index(i.equals(count - 1), self.count, first_row + tiles),
                last=tiles - 1,
            )
