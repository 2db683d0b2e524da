"""What the transforms of tiles ask of an image's layout."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.recipe import Load, Store
from iree.winograd.pipelines.emission.tiles import Positions, Tile

LoadTile = Callable[[Index], Load]
"""From a channel to what loads a tile's elements, of each a vector of channels from that one on."""
StoreTile = Callable[[Index], AbstractContextManager[Store]]
"""From a channel to what stores a tile's outputs, of each a vector of channels from that one on.

They are stored when the block of the context ends, by then all of them.
"""


class TileReader(Protocol):
    """Reads tiles of an image; what is emitted once for a tile is emitted by the call."""

    def inside(self, tile: Tile, positions: list[Positions]) -> LoadTile:
        """For tiles all of whose elements exist."""

    def on_the_edge(self, tile: Tile, positions: list[Positions]) -> LoadTile:
        """For any tile: elements that don't exist are zeros."""


class TileWriter(Protocol):
    """Applies the epilogue to tiles of outputs and writes them; what is emitted once is so by the call."""

    def inside(self, tile: Tile, positions: list[Positions]) -> StoreTile:
        """For tiles all of whose outputs exist."""

    def on_the_edge(self, tile: Tile, positions: list[Positions]) -> StoreTile:
        """For any tile: outputs that don't exist aren't written."""
