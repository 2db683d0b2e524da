"""The fused CPU kernel: input transform, products and output transform of a block of tiles, all within L2."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.algebra.transforms import transforms
from iree.winograd.pipelines.convolution import ConvolutionShape
from iree.winograd.pipelines.emit import Buffer, Index, ceildiv, loop, scratch
from iree.winograd.pipelines.tiles import Tile, locate_tile

from .channel_blocks import ChannelBlocks
from .gemm import emit_products
from .schedules import FusedSchedule
from .target import CpuTarget
from .transforms import Epilogue, emit_input_transform, emit_output_transform

ROW_PADDING = 16
"""f32 elements after each row of transformed tiles: rows a power of two apart would share few sets of the
cache."""


@dataclass(frozen=True)
class FusedKernel:
    """One fused kernel: a convolution, how to compute it, and for which CPU."""

    shape: ConvolutionShape
    schedule: FusedSchedule
    target: CpuTarget

    @property
    def blocks(self) -> ChannelBlocks:
        """Passes over the transformed tiles, one per block of output channels."""
        return ChannelBlocks(self.shape.output_channels, self.shape.groups, self.schedule.channel_block)

    @property
    def packed_filter_shape(self) -> tuple[int, int, int, int]:
        """channel blocks x A x reduction x channel_block: the order in which the kernel reads the filters."""
        return (
            self.blocks.count,
            self.shape.transform_size,
            self.shape.reduction,
            self.schedule.channel_block,
        )

    @property
    def view_order(self) -> list[int]:
        """The order of views along the packed filters' reduction dimension."""
        return list(range(len(self.shape.decomposition.views)))

    def workgroups(self, batch: Index) -> tuple[Index, Index]:
        """Blocks of tiles of all images, and parts of the output channels."""
        return ceildiv(self._tiles(batch), self.schedule.tile_block), Index(self._channel_parts)

    def emit(
        self,
        workgroup: tuple[Index, Index],
        batch: Index,
        image: Buffer,
        filters: Buffer,
        output: Buffer,
        epilogue: Epilogue,
    ) -> None:
        """Emits the work of one workgroup at the insertion point.

        `image` is N x H... x C, `filters` is `packed_filter_shape`, `output` is N x OH... x K.
        """
        shape, schedule = self.shape, self.schedule
        decomposition = shape.decomposition
        recipes = [
            transforms(m, p) for m, p in zip(decomposition.output_tile, decomposition.part_size, strict=True)
        ]
        columns = shape.groups * shape.reduction + ROW_PADDING
        transformed = scratch((schedule.tile_block, shape.transform_size, columns), "transformed_tiles")
        products = scratch((shape.transform_size, schedule.tile_block, schedule.channel_block), "products")
        first_tile = workgroup[0] * schedule.tile_block
        tiles = self._tiles(batch)

        def tile_at(row: Index) -> Tile:
            # Rows past the last tile repeat it: they compute and write what is written anyway.
            number = first_tile + row
            exact = tiles.known is not None and tiles.known % schedule.tile_block == 0
            return locate_tile(shape, number if exact else number.minimum(tiles - 1))

        with loop(schedule.tile_block, name="row") as row:
            emit_input_transform(
                image,
                transformed,
                tile_at(row),
                row,
                shape=shape,
                recipes=[each.input for each in recipes],
                target=self.target,
            )
        with loop(self.blocks.split(self._channel_parts), name="channel_block") as step:
            block = self.blocks.at(workgroup[1], self._channel_parts, step)
            emit_products(
                transformed,
                filters,
                products,
                first_column=self.blocks.group(block) * shape.reduction,
                filter_block=block,
                reduction=shape.reduction,
                schedule=schedule,
                target=self.target,
            )
            first_channel = self.blocks.first(block)
            with loop(schedule.tile_block, name="row") as row:
                emit_output_transform(
                    products,
                    output,
                    tile_at(row),
                    row,
                    first_channel,
                    shape=shape,
                    recipes=[each.output for each in recipes],
                    epilogue=epilogue,
                    channel_block=schedule.channel_block,
                    width=schedule.vector_width,
                    target=self.target,
                )

    @property
    def _channel_parts(self) -> int:
        return min(self.schedule.channel_splits, self.blocks.count)

    def _tiles(self, batch: Index) -> Index:
        return batch * prod(self.shape.tiles_per_image)
