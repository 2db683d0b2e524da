"""The CPU kernel of the gradient of a filter: products of tiles of images and gradients, summed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import prod

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.cpu.processor.product import Panel, Rows
from iree.winograd.pipelines.cpu.processor.target import ROW_PADDING, CpuTarget
from iree.winograd.pipelines.cpu.schedules.channel_blocks import ChannelBlocks
from iree.winograd.pipelines.cpu.schedules.weight_gradient import WeightGradientSchedule
from iree.winograd.pipelines.cpu.tiles.transforms import GradientTransform, InputTransform
from iree.winograd.pipelines.emission.buffer import Buffer, clear_elements, scratch
from iree.winograd.pipelines.emission.control_flow import loop, named, when
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.recipe import Position, emit_unrolled, flattened
from iree.winograd.pipelines.emission.tiles import locate_tile
from iree.winograd.pipelines.emission.vectors import for_each_vector
from iree.winograd.pipelines.specification.shape import WeightGradientShape


@dataclass(frozen=True)
class WeightGradientKernel:
    """The gradient of one convolution's filter, how to compute it, and for which CPU.

    Dispatches of their own transform the tiles of all images, and of the gradients of their outputs, in
    blocks of `tile_block` tiles. A workgroup then computes the gradients of `row_block` input channels of a
    view by `channel_block` output channels, of all elements of the Winograd domain: registers hold sums over
    the tiles of a block, memory of the workgroup sums of these, which are transformed to taps at last.
    """

    shape: WeightGradientShape
    schedule: WeightGradientSchedule
    target: CpuTarget

    @property
    def rows(self) -> ChannelBlocks:
        """Input channels of each group and view."""
        shape = self.shape
        groups = shape.groups * shape.decomposition.view_count
        return ChannelBlocks(shape.groups * shape.reduction, groups, self.schedule.row_block)

    @property
    def channels(self) -> ChannelBlocks:
        """Output channels."""
        return ChannelBlocks(self.shape.output_channels, self.shape.groups, self.schedule.channel_block)

    @property
    def tile_blocks(self) -> int:
        assert self.shape.tiles is not None, "gradients of filters need a static batch"
        return -(-self.shape.tiles // self.schedule.tile_block)

    @property
    def transformed_images_shape(self) -> tuple[int, int, int, int]:
        """tile blocks x A x tile_block x (groups * views * C/groups, padded)."""
        return self._transformed_shape(self.shape.groups * self.shape.reduction)

    @property
    def transformed_gradients_shape(self) -> tuple[int, int, int, int]:
        """tile blocks x A x tile_block x (K, padded)."""
        return self._transformed_shape(self.shape.output_channels)

    def transform_workgroups(self, batch: Index) -> tuple[Index, Index]:
        """Blocks of tiles."""
        return Index(self.tile_blocks), Index(1)

    def workgroups(self, batch: Index) -> tuple[Index, Index]:
        """Blocks of input channels of all groups and views, and of the output channels of a group."""
        return Index(self.rows.count), Index(self.channels.blocks_per_group)

    def emit_images(self, workgroup: tuple[Index, ...], batch: Index, image: Buffer, tiles: Buffer) -> None:
        """Emits the transform of one block of tiles of the images: N x H... x C to theirs."""
        self._for_tiles(workgroup[0], tiles, partial(InputTransform, self.shape, self.target, image))

    def emit_gradients(
        self, workgroup: tuple[Index, ...], batch: Index, gradients: Buffer, tiles: Buffer
    ) -> None:
        """Emits the transform of one block of tiles of the gradients: N x OH... x K to theirs."""
        self._for_tiles(workgroup[0], tiles, partial(GradientTransform, self.shape, self.target, gradients))

    def emit(
        self, workgroup: tuple[Index, ...], batch: Index, images: Buffer, gradients: Buffer, filters: Buffer
    ) -> None:
        """Emits the work of one workgroup: both transformed to the gradients of R... x C/g x K taps."""
        schedule = self.schedule
        sums = scratch(
            (self.shape.transform_size, schedule.row_block, schedule.channel_block), images.element, "sums"
        )
        clear_elements(sums, Index(0), Index(prod(sums.extents)), schedule.vector_width)
        group_and_view = self.rows.group(workgroup[0])
        group = group_and_view // self.shape.decomposition.view_count
        per_group = self.channels.blocks_per_group
        channel = self.channels.first(group * per_group + workgroup[1])
        row = self.rows.first(workgroup[0])
        with loop(self.tile_blocks, name="tile_block") as block, loop(images.extents[1], name="a") as a:
            self._add_products(images, gradients, sums, (block, a), row, channel)
        first_row = self.rows.first_in_group(workgroup[0])
        view = group_and_view % self.shape.decomposition.view_count
        for number in range(self.shape.decomposition.view_count):
            when(
                view.equals(number),
                partial(self._store_taps, sums, filters, number, first_row, channel),
            )

    def _for_tiles(
        self, block: Index, tiles: Buffer, transform: Callable[[Buffer], InputTransform | GradientTransform]
    ) -> None:
        """Emits a transform of every tile of a block to its place among `tiles`."""
        columns = tiles.stride(2)
        blocked = replace(tiles, extents=(*tiles.extents[:2], tiles.stride(1)))
        with loop(self._tiles_of(block), name="tile") as number:
            tile = locate_tile(self.shape, block * self.schedule.tile_block + number)
            transform(replace(blocked, origin=number * columns)).emit(tile, block)

    def _tiles_of(self, block: Index) -> Index:
        """The tiles of a block: the last one may have fewer."""
        tiles, tile_block = self.shape.tiles, self.schedule.tile_block
        assert tiles is not None
        if tiles % tile_block == 0:
            return Index(tile_block)
        return (Index(tiles) - block * tile_block).minimum(tile_block)

    def _add_products(
        self,
        images: Buffer,
        gradients: Buffer,
        sums: Buffer,
        place: tuple[Index, Index],
        row: Index,
        channel: Index,
    ) -> None:
        """Adds the products of one element of the tiles of one block to `sums`."""
        schedule = self.schedule
        block, a = place
        with named("first"):
            first_image = images.offset([block, a, 0, row])
            first_gradient = gradients.offset([block, a, 0, channel])
        count = self._tiles_of(block)
        with (
            loop(schedule.row_block, schedule.product.rows, "row") as i,
            loop(schedule.channel_block, schedule.product.channels, "k") as k,
        ):
            rows = Rows(images, first_image + i, 1, step=images.stride(2))
            panel = Panel(gradients, first_gradient + k, step=gradients.stride(2))
            zeros = schedule.product.zeros(1, sums.element)
            added = schedule.product.add(zeros, rows, panel, count, self.target)
            target = sums.offset([a, i, k])
            for position, value in enumerate(added):
                r, v = divmod(position, schedule.register_vectors)
                offset = target + (r * sums.stride(1) + v * schedule.vector_width)
                sums.store(arith.addf(sums.load(offset, schedule.vector_width), value), offset)

    def _store_taps(self, sums: Buffer, filters: Buffer, view: int, first_row: Index, channel: Index) -> None:
        """Transforms the sums of one view to its taps, but for those beyond the kernel."""
        schedule, decomposition = self.schedule, self.shape.decomposition
        recipes = [each.output for each in decomposition.gradient_transforms]
        parts = product(*map(range, decomposition.part_size))
        taps = dict(zip(parts, decomposition.taps(decomposition.views[view]), strict=True))

        def transform_vector(row: Index, k: Index) -> None:
            first = sums.offset([0, row, k])

            def load(element: Position) -> ir.Value:
                number = flattened(element, decomposition.alpha)
                return sums.load(first + number * sums.stride(0), schedule.vector_width)

            def store(element: Position, value: ir.Value) -> None:
                tap = taps[tuple(i.known or 0 for i in element)]
                if tap is not None:
                    filters.store(value, filters.offset([*tap, first_row + row, channel + k]))

            emit_unrolled(recipes, load, store, self.target.fused_multiply_add)

        with loop(schedule.row_block, name="row") as row:
            width = schedule.vector_width
            for_each_vector(schedule.channel_block, width, partial(transform_vector, row), "k")

    def _transformed_shape(self, columns: int) -> tuple[int, int, int, int]:
        tile_block = self.schedule.tile_block
        return (self.tile_blocks, self.shape.transform_size, tile_block, columns + ROW_PADDING)
