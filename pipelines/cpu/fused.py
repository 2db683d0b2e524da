"""The fused CPU kernel: input transform, products and output transform of a block of tiles, all within L2."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.algebra.transforms import transforms
from iree.winograd.dialect.bindings import ir, memref
from iree.winograd.pipelines.convolution import ConvolutionShape
from iree.winograd.pipelines.emit import Buffer, Index, loop
from iree.winograd.pipelines.tiles import locate_tile

from .gemm import emit_products
from .schedules import FusedSchedule
from .target import CpuTarget
from .transforms import Epilogue, emit_input_transform, emit_output_transform

ROW_PADDING = 16
"""f32 elements after each row of transformed tiles: rows a power of two apart would share few sets of the cache."""


@dataclass(frozen=True)
class FusedKernel:
    """One fused kernel: a convolution, how to compute it, and for which CPU."""

    shape: ConvolutionShape
    schedule: FusedSchedule
    target: CpuTarget

    @property
    def channel_blocks(self) -> int:
        """Passes over the transformed tiles, one per block of output channels."""
        return -(-self.shape.output_channels // self.schedule.channel_block)

    @property
    def packed_filter_shape(self) -> tuple[int, int, int, int]:
        """channel blocks x A x reduction x channel_block: the order in which the kernel reads the filters."""
        return (
            self.channel_blocks,
            self.shape.transform_size,
            self.shape.reduction,
            self.schedule.channel_block,
        )

    def first_channel(self, block: int) -> int:
        """The first output channel of a block; the last block overlaps its neighbour rather than be cut short."""
        return min(block * self.schedule.channel_block, self.shape.output_channels - self.schedule.channel_block)

    def workgroups(self, tiles: Index) -> tuple[Index, int]:
        """Blocks of tiles, and parts of the output channels, for a number of tiles."""
        blocks = (tiles + (self.schedule.tile_block - 1)) // self.schedule.tile_block
        return blocks, min(self.schedule.channel_splits, self.channel_blocks)

    def emit(
        self, workgroup: tuple[Index, Index], tiles: Index, image: Buffer, filters: Buffer, output: Buffer, epilogue: Epilogue
    ) -> None:
        """Emits the work of one workgroup at the insertion point.

        `image` is N x H... x C, `filters` is `packed_filter_shape`, `output` is N x OH... x K; `tiles` is T.
        """
        shape, schedule = self.shape, self.schedule
        recipes = [transforms(m, p) for m, p in zip(shape.decomposition.output_tile, shape.decomposition.part_size, strict=True)]
        transformed = _scratch((schedule.tile_block, shape.transform_size, shape.reduction + ROW_PADDING), "transformed_tiles")
        products = _scratch((shape.transform_size, schedule.tile_block, schedule.channel_block), "products")
        first_tile = workgroup[0] * schedule.tile_block

        def tile_at(row: Index) -> Index:
            # Rows past the last tile repeat it: they compute and write what is written anyway.
            number = first_tile + row
            exact = tiles.known is not None and tiles.known % schedule.tile_block == 0
            return number if exact else number.minimum(tiles - 1)

        with loop(schedule.tile_block, name="row") as row:
            emit_input_transform(
                image, transformed, locate_tile(shape, tile_at(row)), row,
                shape=shape, recipes=[each.input for each in recipes], target=self.target,
            )
        splits = min(schedule.channel_splits, self.channel_blocks)
        blocks_per_split = -(-self.channel_blocks // splits)
        with loop(blocks_per_split, name="channel_block") as step:
            block = workgroup[1] * blocks_per_split + step
            if self.channel_blocks % blocks_per_split:
                block = block.minimum(self.channel_blocks - 1)
            emit_products(
                transformed, filters, products,
                filter_block=block, reduction=shape.reduction, schedule=schedule, target=self.target,
            )
            first_channel = (block * schedule.channel_block)
            if shape.output_channels % schedule.channel_block:
                first_channel = first_channel.minimum(shape.output_channels - schedule.channel_block)
            with loop(schedule.tile_block, name="row") as row:
                emit_output_transform(
                    products, output, locate_tile(shape, tile_at(row)), row, first_channel,
                    shape=shape, recipes=[each.output for each in recipes], epilogue=epilogue,
                    channel_block=schedule.channel_block, width=schedule.vector_width, target=self.target,
                )


def _scratch(extents: tuple[int, ...], name: str) -> Buffer:
    """Memory of one workgroup, supplied by the runtime."""
    size = 1
    for extent in extents:
        size *= extent
    space = ir.Attribute.parse("#iree_codegen.workgroup_local")
    with ir.Location.name(name):
        allocation = memref.AllocOp(ir.MemRefType.get([size], ir.F32Type.get(), memory_space=space), [], [])
    return Buffer(allocation.result, extents)
