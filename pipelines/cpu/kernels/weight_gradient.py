"""The CPU kernel of the gradient of a filter: products of tiles of images and gradients, summed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product as positions
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.cpu.processor.product import Panel, Rows
from iree.winograd.pipelines.cpu.processor.target import ROW_PADDING, CpuTarget
from iree.winograd.pipelines.cpu.schedules.channel_blocks import ChannelBlocks
from iree.winograd.pipelines.cpu.schedules.weight_gradient import WeightGradientSchedule
from iree.winograd.pipelines.cpu.tiles.transforms import Channels, GradientTransform, InputTransform
from iree.winograd.pipelines.emission.buffer import Buffer, clear_elements, scratch
from iree.winograd.pipelines.emission.control_flow import loop, named, when
from iree.winograd.pipelines.emission.index import Index, ceildiv
from iree.winograd.pipelines.emission.recipe import Position, emit_unrolled, flattened
from iree.winograd.pipelines.emission.sized_shape import SizedShape, product
from iree.winograd.pipelines.emission.tiles import locate_tile
from iree.winograd.pipelines.emission.vectors import for_each_vector
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.problems.shape import WeightGradientShape

from .slice_sum import SliceSum


@dataclass(frozen=True)
class WeightGradientKernel:
    """The gradient of one convolution's filter, how to compute it, and for which CPU.

    A workgroup computes the gradients of `row_block` input channels of a view by `channel_block` output
    channels, of all elements of the Winograd domain: registers hold sums over the tiles of a block, memory of
    the workgroup sums of these, which are transformed to taps at last. Dispatches of their own transform
    the tiles of all images, and of the gradients of their outputs, in blocks of `tile_block` beforehand.
    Or a workgroup has a slice of the tiles and transforms those of its channels itself, each block of tiles
    to memory of its own, where the products find them in cache; taps of several slices are summed at last.
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

    def tile_blocks(self, sizes: Sizes) -> Index:
        """Of all images."""
        return ceildiv(self._tiles(sizes), self.schedule.tile_block)

    @property
    def transformed_images_shape(self) -> tuple[int, int, int, int]:
        """tile blocks x A x tile_block x (groups * views * C/groups, padded)."""
        return self._transformed_shape(self.shape.groups * self.shape.reduction)

    @property
    def transformed_gradients_shape(self) -> tuple[int, int, int, int]:
        """tile blocks x A x tile_block x (K, padded)."""
        return self._transformed_shape(self.shape.output_channels)

    @property
    def total(self) -> SliceSum:
        return SliceSum(self.shape, self.schedule.tile_slices or 1, self.schedule.vector_width)

    def transform_workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of tiles."""
        return self.tile_blocks(sizes), Index(1)

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of input channels of all groups and views, and of the output channels of a group."""
        return Index(self.rows.count), Index(self.channels.blocks_per_group)

    def slice_workgroups(self, sizes: Sizes) -> tuple[Index, Index, Index]:
        """As `workgroups`, and slices of the tiles."""
        return (*self.workgroups(sizes), Index(self.total.slices))

    def emit_images(self, work: Work, image: Buffer, tiles: Buffer) -> None:
        """Emits the transform of one block of tiles of the images: N x H... x C to theirs."""
        transform = partial(InputTransform, SizedShape.of(self.shape, work.sizes), self.target, image)
        self._for_tiles(work.workgroup[0], work.sizes, tiles, transform)

    def emit_gradients(self, work: Work, gradients: Buffer, tiles: Buffer) -> None:
        """Emits the transform of one block of tiles of the gradients: N x OH... x K to theirs."""
        self._for_tiles(
            work.workgroup[0],
            work.sizes,
            tiles,
            partial(GradientTransform, SizedShape.of(self.shape, work.sizes), self.target, gradients),
        )

    def emit(self, work: Work, images: Buffer, gradients: Buffer, filters: Buffer) -> None:
        """Emits the work of one workgroup: both transformed to the gradients of R... x C/g x K taps."""
        sums = self._cleared_sums(images.element)
        row, channel = self.rows.first(work.workgroup[0]), self._first_channel(work.workgroup)
        with (
            loop(self.tile_blocks(work.sizes), name="tile_block") as block,
            loop(images.extents[1], name="a") as a,
        ):
            with named("first"):
                rows = Rows(images, images.offset([block, a, 0, row]), 1, images.stride(2))
                panel = Panel(gradients, gradients.offset([block, a, 0, channel]), gradients.stride(2))
            self._add_products(rows, panel, sums, a, self._tiles_of(block, work.sizes))
        self._store_taps(work.workgroup, sums, filters)

    def emit_slice(self, work: Work, image: Buffer, gradients: Buffer, taps: Buffer) -> None:
        """Emits the work of one workgroup: N x H... x C and N x OH... x K to the taps of a slice.

        `taps` are as `SliceSum` has them.
        """
        sums = self._cleared_sums(image.computed)
        image_tiles, gradient_tiles = (
            scratch((self.shape.transform_size, self._padded(size)), image.computed, name)
            for size, name in (
                (self.schedule.row_block, "image_tiles"),
                (self.schedule.channel_block, "gradient_tiles"),
            )
        )
        tile_blocks = self.tile_blocks(work.sizes)
        blocks = ceildiv(tile_blocks, self.total.slices)
        first_block = work.workgroup[2] * blocks
        with loop((tile_blocks - first_block).minimum(blocks), name="tile_block") as number:
            with named("block"):
                block = first_block + number
            tiles = self._tiles_of(block, work.sizes)
            self._transform_block(work, block, tiles, image, image_tiles, gradients, gradient_tiles)
            with loop(self.shape.transform_size, name="a") as a:
                rows = Rows(image_tiles, image_tiles.offset([a, 0]), 1, self.schedule.row_block)
                panel = Panel(gradient_tiles, gradient_tiles.offset([a, 0]), self.schedule.channel_block)
                self._add_products(rows, panel, sums, a, tiles)
        if self.total.slices > 1:
            taps = replace(taps, extents=taps.extents[1:], origin=work.workgroup[2] * taps.stride(0))
        self._store_taps(work.workgroup, sums, taps)

    def _cleared_sums(self, element: ir.Type) -> Buffer:
        """Memory of the workgroup for the sums of all elements of the Winograd domain, zeros."""
        schedule = self.schedule
        extents = (self.shape.transform_size, schedule.row_block, schedule.channel_block)
        sums = scratch(extents, element, "sums")
        clear_elements(sums, Index(0), Index(prod(extents)), schedule.vector_width)
        return sums

    def _view(self, workgroup: tuple[Index, ...]) -> Index:
        return self.rows.group(workgroup[0]) % self.shape.decomposition.view_count

    def _first_channel(self, workgroup: tuple[Index, ...]) -> Index:
        """The first output channel of a workgroup."""
        group = self.rows.group(workgroup[0]) // self.shape.decomposition.view_count
        return self.channels.first(group * self.channels.blocks_per_group + workgroup[1])

    def _transform_block(
        self,
        work: Work,
        block: Index,
        tiles: Index,
        image: Buffer,
        image_tiles: Buffer,
        gradients: Buffer,
        gradient_tiles: Buffer,
    ) -> None:
        """Transforms the tiles of a block, of the channels of a workgroup."""
        shape, schedule, workgroup = self.shape, self.schedule, work.workgroup
        sized = SizedShape.of(shape, work.sizes)
        group = self.rows.group(workgroup[0]) // shape.decomposition.view_count
        first_row = group * shape.group_inputs + self.rows.first_in_group(workgroup[0])
        rows = Channels(first_row, schedule.row_block)
        channels = Channels(self._first_channel(workgroup), schedule.channel_block)
        with loop(tiles, name="tile") as number:
            tile = locate_tile(sized, block * schedule.tile_block + number)
            own_image, own_gradient = (
                replace(each, origin=number * size, extents=(1, *each.extents))
                for each, size in ((image_tiles, rows.count), (gradient_tiles, channels.count))
            )
            images = InputTransform(sized, self.target, image, own_image)
            images.emit_channels(tile, Index(0), self._view(workgroup), rows)
            of_outputs = GradientTransform(sized, self.target, gradients, own_gradient)
            of_outputs.emit_channels(tile, Index(0), channels)

    def _for_tiles(
        self,
        block: Index,
        sizes: Sizes,
        tiles: Buffer,
        transform: Callable[[Buffer], InputTransform | GradientTransform],
    ) -> None:
        """Emits a transform of every tile of a block to its place among `tiles`."""
        columns = tiles.stride(2)
        blocked = replace(tiles, extents=(*tiles.extents[:2], tiles.stride(1)))
        with loop(self._tiles_of(block, sizes), name="tile") as number:
            tile = locate_tile(SizedShape.of(self.shape, sizes), block * self.schedule.tile_block + number)
            transform(replace(blocked, origin=number * columns)).emit(tile, block)

    def _tiles(self, sizes: Sizes) -> Index:
        """Of all images."""
        return sizes.batch * product(SizedShape.of(self.shape, sizes).tiles_per_image)

    def _tiles_of(self, block: Index, sizes: Sizes) -> Index:
        """The tiles of a block: the last one may have fewer."""
        tiles, tile_block = self._tiles(sizes), self.schedule.tile_block
        if tiles.known is not None and tiles.known % tile_block == 0:
            return Index(tile_block)
        return (tiles - block * tile_block).minimum(tile_block)

    def _add_products(self, rows: Rows, panel: Panel, sums: Buffer, a: Index, tiles: Index) -> None:
        """Adds the products of one element of so many tiles to `sums`."""
        schedule = self.schedule
        with (
            loop(schedule.row_block, schedule.product.rows, "row") as i,
            loop(schedule.channel_block, schedule.product.channels, "k") as k,
        ):
            zeros = schedule.product.zeros(sums.element)
            block = replace(rows, first=rows.first + i), replace(panel, first=panel.first + k)
            added = schedule.product.add(zeros, *block, tiles, self.target)
            target = sums.offset([a, i, k])
            for position, value in enumerate(added):
                r, v = divmod(position, schedule.register_vectors)
                offset = target + (r * sums.stride(1) + v * schedule.vector_width)
                sums.store(arith.addf(sums.load(offset, schedule.vector_width), value), offset)

    def _store_taps(self, workgroup: tuple[Index, ...], sums: Buffer, filters: Buffer) -> None:
        """Transforms the sums of a workgroup to taps R... x C/g x K."""
        view = self._view(workgroup)
        row, channel = self.rows.first_in_group(workgroup[0]), self._first_channel(workgroup)
        for number in range(self.shape.decomposition.view_count):
            when(view.equals(number), partial(self._store_view, sums, filters, number, row, channel))

    def _store_view(self, sums: Buffer, filters: Buffer, view: int, first_row: Index, channel: Index) -> None:
        """Transforms the sums of one view to its taps, but for those beyond the kernel."""
        schedule, decomposition = self.schedule, self.shape.decomposition
        recipes = [each.output for each in decomposition.gradient_transforms]
        parts = positions(*map(range, decomposition.part_size))
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

    def _padded(self, channels: int) -> int:
        """Elements of all tiles of a block: those of another one aren't a power of two apart."""
        return self.schedule.tile_block * channels + ROW_PADDING

    def _transformed_shape(self, columns: int) -> tuple[int, int, int, int]:
        tiles, tile_block = self.shape.tiles, self.schedule.tile_block
        assert tiles is not None, "tiles are transformed beforehand of a batch known at compile time"
        return (ceil_div(tiles, tile_block), self.shape.transform_size, tile_block, columns + ROW_PADDING)
