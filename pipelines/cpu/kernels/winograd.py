"""The Winograd CPU kernel: input transform, products and output transform of one block of tiles after
another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.processor.target import ROW_PADDING, CpuTarget
from iree.winograd.pipelines.cpu.schedules.channel_blocks import ChannelBlocks
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from iree.winograd.pipelines.cpu.tiles.filter_transform import FilterTransform
from iree.winograd.pipelines.cpu.tiles.tile_block import TileBlock
from iree.winograd.pipelines.cpu.tiles.touched_pixels import (
    ImageRow,
    TouchedPixels,
    read_by_rows,
)
from iree.winograd.pipelines.cpu.tiles.transforms import InputTransform, OutputTransform
from iree.winograd.pipelines.emission.buffer import Buffer, clear_elements, scratch
from iree.winograd.pipelines.emission.control_flow import loop, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.index import Condition, Index, IndexLike, ceildiv
from iree.winograd.pipelines.emission.sized_shape import SizedShape, product
from iree.winograd.pipelines.emission.vectors import for_each_vector
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .gemm import Fetched, emit_products
from .output_blocks import even_block
from .packed_taps import packed_taps_layout, packed_taps_shape
from .reduction_runs import ReductionRuns, reduction_runs


@dataclass(frozen=True)
class WinogradKernel:
    """One convolution, how to compute it, and for which CPU.

    Fused, a workgroup transforms the tiles of its block into memory of its own, multiplies and transforms
    back, all within L2. Or the input transform is a dispatch of its own. Where blocks are fewer than there
    may be threads, several workgroups share a block and divide the output channels among them. Filters that
    are not transformed beforehand are by the workgroup, a block of channels at a time.
    """

    shape: ConvolutionShape
    schedule: WinogradSchedule
    target: CpuTarget

    @property
    def blocks(self) -> ChannelBlocks:
        """Passes over the transformed tiles, one per block of output channels."""
        return ChannelBlocks(self.shape.output_channels, self.shape.groups, self.schedule.channel_block)

    @property
    def packed_filter_shape(self) -> tuple[int, ...]:
        """channel blocks x A x reduction x channel_block: the order in which the kernel reads the filters.

        Or `packed_taps_shape`, where it transforms those of the program's constants.
        """
        if self.packs_taps:
            return packed_taps_shape(self.shape, self.blocks)
        panel = self.schedule.product.panel_shape(self.shape.reduction)
        return (self.blocks.count, self.shape.transform_size, *panel)

    @property
    def packs_taps(self) -> bool:
        """Whether workgroups transform filters that are packed while compiling."""
        return self.schedule.transforms_filters and not self.shape.runtime_filter

    @property
    def filter_part(self) -> int:
        """Elements of the packed filters that a part of the output channels has."""
        return self.blocks.part_size(self._channel_parts) * prod(self.packed_filter_shape[1:])

    @property
    def view_order(self) -> list[int]:
        """The order of views along the packed filters' reduction dimension."""
        return list(range(len(self.shape.decomposition.views)))

    @property
    def transformed_shape(self) -> tuple[int, int, int]:
        """tiles x A x columns that a workgroup works on, or all do after a separate input transform."""
        blocks = 1
        if self.schedule.input_block is not None:
            assert self.shape.tiles is not None, "a separate input transform needs a static batch"
            blocks = ceil_div(self.shape.tiles, self.schedule.tile_block)
        columns = self.shape.groups * self.shape.reduction + ROW_PADDING
        return (blocks * self.schedule.tile_block, self.shape.transform_size, columns)

    def input_workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of tiles of the separate input transform."""
        assert self.schedule.input_block is not None
        return Index(ceil_div(self.transformed_shape[0], self.schedule.input_block)), Index(1)

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of tiles of all images, and parts of the output channels."""
        return ceildiv(self._tiles(sizes), self._block(sizes)), Index(self._channel_parts)

    def touched_pixels(self, number: int) -> TouchedPixels:
        """Those of the workgroups of an x coordinate, whole rows of them."""
        size = self.shape.output_size
        first, last = self._output_rows(number)
        written = range(first.pixel(size), last.pixel(size) + prod(size[1:]))
        return TouchedPixels(read_by_rows(self.shape, first, last), written)

    def _output_rows(self, number: int) -> tuple[ImageRow, ImageRow]:
        """The first and the last row of the tiles of a block, which may be past those of the image."""
        shape, block = self.shape, self.schedule.tile_block
        assert shape.tiles is not None, "blocks of a batch known only at run time aren't known"
        rows, *others = shape.tiles_per_image
        past = min((number + 1) * block, shape.tiles)
        tile_rows = (tile // prod(others) for tile in (min(number * block, past - 1), past - 1))
        first, last = (ImageRow(*divmod(tile_row, rows)) for tile_row in tile_rows)
        outputs, phases = shape.decomposition.output_tile[0], shape.decomposition.phases[0]
        if phases > 1:
            return ImageRow(first.number, 0), ImageRow(last.number, shape.output_size[0] - 1)
        return ImageRow(first.number, first.row * outputs), ImageRow(
            last.number, (last.row + 1) * outputs - 1
        )

    def emit_input(self, work: Work, image: Buffer, transformed: Buffer) -> None:
        """Emits the separate input transform of one workgroup: the image to `transformed_shape`."""
        assert self.schedule.input_block is not None
        rows = transformed.known_extents[0]
        first = (work.workgroup[0] * self.schedule.input_block).minimum(
            max(0, rows - self.schedule.input_block)
        )
        self._transform_input(
            image, transformed, first, first, min(rows, self.schedule.input_block), work.sizes
        )

    def emit(
        self,
        work: Work,
        source: Buffer,
        filters: Buffer,
        output: Buffer,
        epilogue: VectorEpilogue,
        layout: FilterLayout | None = None,
    ) -> None:
        """Emits the work of one workgroup at the insertion point.

        `source` is N x H... x C, or `transformed_shape` after a separate input transform; `filters` is
        `packed_filter_shape`, or as `layout` says where the workgroup transforms those of a call;
        `output` is N x OH... x K. Images may be channels first, as the shape says.
        """
        schedule = self.schedule
        first_tile = work.workgroup[0] * self._block(work.sizes)
        sized = SizedShape.of(self.shape, work.sizes)
        tiles = self._tile_block(first_tile, self._block_tiles(first_tile, work.sizes), work.sizes)
        ahead = self._block(work.sizes) * (schedule.image_prefetch or 0)
        following = self._tile_block(first_tile + ahead, schedule.tile_block, work.sizes)
        if schedule.input_block is None:
            transformed = scratch(self.transformed_shape, source.computed, "transformed_tiles")
            first_row = Index(0)
        else:
            transformed, first_row = source, first_tile
        input_transform = InputTransform(sized, self.target, source, transformed)
        if schedule.input_block is None:
            input_transform.emit_block(tiles, first_row)
        product_shape = (self.shape.transform_size, schedule.tile_block, schedule.channel_block)
        accumulator = self.shape.element_types.accumulator_type
        products = scratch(product_shape, accumulator, "products")
        output_transform = OutputTransform(
            sized,
            self.target,
            products,
            output,
            epilogue,
            channel_block=schedule.channel_block,
            width=schedule.vector_width,
        )
        steps = self.blocks.steps(work.workgroup[1], self._channel_parts)
        with loop(steps, name="channel_block") as step:
            block = self.blocks.at(work.workgroup[1], self._channel_parts, step)
            first_channel, is_last = self.blocks.first(block), step.equals(steps - 1)

            def fetch(a: Index, first_channel: Index = first_channel, is_last: Condition = is_last) -> None:
                """What is far away, some tiles for each element: memory is idle while others multiply."""
                elements = self.shape.transform_size
                with loop(ceildiv(self._rest(tiles, a), elements), name="fetched_tile") as i:
                    row = a + i * elements
                    if self._fetches_outputs:
                        output_transform.emit_fetch(tiles.tile(row), first_channel)
                    if self._fetches_tiles:
                        when(is_last, lambda: input_transform.emit_fetch(following.tile(row)))

            if schedule.filter_block is not None:
                self._multiply_by_blocks(
                    transformed, filters, layout, products, first_row, block, tiles.count
                )
            else:
                emit_products(
                    transformed,
                    filters,
                    products,
                    first_tile=first_row,
                    first_column=self.blocks.group(block) * self.shape.reduction,
                    filter_block=block,
                    runs=partial(reduction_runs, self.shape),
                    schedule=schedule,
                    target=self.target,
                    tile_count=tiles.count,
                    beside=fetch if self._fetches_tiles or self._fetches_outputs else None,
                )
            output_transform.emit_block(tiles, first_channel)

    def _multiply_by_blocks(
        self,
        transformed: Buffer,
        filters: Buffer,
        layout: FilterLayout | None,
        products: Buffer,
        first_row: Index,
        block: Index,
        tile_count: IndexLike,
    ) -> None:
        """Transforms filters of a block of output channels, some input channels at a time, and multiplies."""
        shape, schedule = self.shape, self.schedule
        filter_block = schedule.filter_block
        assert filter_block is not None
        channels_at_a_time = ReductionRuns.whole(filter_block)
        # A row more: those of different elements aren't a power of two apart.
        panel_shape = (1, shape.transform_size, filter_block + 1, schedule.channel_block)
        panel = scratch(panel_shape, filters.computed, "transformed_filters")
        first_channel, is_packed = self.blocks.first(block), layout is None
        if layout is None:
            layout, first_channel = packed_taps_layout(shape), Index(0)
            filters = replace(filters, extents=filters.extents[1:], origin=filters.offset([block]))

        def following(first: Index) -> Fetched | None:
            """The taps that are transformed next, after the last ones those of the next output channels."""
            if not is_packed:
                return None
            of_channel = filters.known_stride(0)
            after = filters.offset([first + filter_block])
            return Fetched(filters, after, filter_block * of_channel)

        transform = FilterTransform(shape, self.target, layout, schedule.vector_width, exact=False)
        clear_elements(products, Index(0), Index(prod(products.extents)), schedule.vector_width)
        with loop(shape.group_inputs, filter_block, "filter_block") as first:

            def transform_vector(c: Index, k: Index, first: Index = first) -> None:
                channels = first + c, first_channel + k
                transform.emit(0, channels, filters, panel, panel.offset([0, 0, c, k]))

            def transform_channels(k: Index) -> None:
                with loop(filter_block, name="c") as c:
                    transform_vector(c, k)

            if is_packed:
                # In the order in which they lie in memory.
                with loop(filter_block, name="c") as c:
                    for_each_vector(
                        schedule.channel_block, schedule.vector_width, partial(transform_vector, c), "k"
                    )
            else:
                for_each_vector(schedule.channel_block, schedule.vector_width, transform_channels, "k")
            emit_products(
                transformed,
                panel,
                products,
                first_tile=first_row,
                first_column=self.blocks.group(block) * shape.reduction + first,
                filter_block=Index(0),
                runs=lambda _: channels_at_a_time,
                schedule=schedule,
                target=self.target,
                tile_count=tile_count,
                in_cache=True,
                fetched=following(first),
            )

    def _transform_input(
        self,
        image: Buffer,
        transformed: Buffer,
        first_row: Index,
        first_tile: Index,
        count: int,
        sizes: Sizes,
    ) -> None:
        transform = InputTransform(SizedShape.of(self.shape, sizes), self.target, image, transformed)
        transform.emit_block(self._tile_block(first_tile, count, sizes), first_row)

    def _tile_block(self, first: Index, count: IndexLike, sizes: Sizes) -> TileBlock:
        tiles = self._tiles(sizes)
        # There are rows for whole blocks of tiles, those of a separate input transform included.
        is_within = tiles.known is not None and tiles.known % self.schedule.tile_block == 0
        return TileBlock(SizedShape.of(self.shape, sizes), first, count, tiles, is_within)

    def _block_tiles(self, first: Index, sizes: Sizes) -> IndexLike:
        """The tiles of a block that begins with `first`.

        Of a known size blocks are as large as suits their number. Of another the last block may be the only
        one, and have few.
        """
        if not self.shape.unknown_sizes:
            return self.schedule.tile_block
        return (self._tiles(sizes) - first).minimum(self._block(sizes))

    def _block(self, sizes: Sizes) -> Index:
        """The tiles from one block to the next, of images of any size as `even_block` has them.

        Part of a register block takes as long to multiply as a whole one, and less to transform.
        """
        block, multiple = self.schedule.tile_block, self.schedule.block_multiple
        if not self.shape.unknown_sizes or multiple is None:
            return Index(block)
        return even_block(self._tiles(sizes), block, multiple)

    def _rest(self, tiles: TileBlock, first: Index) -> Index:
        """The tiles of a block from one on, which it may lack."""
        count = Index.of(tiles.count) - first
        return count.maximum(0) if self.shape.unknown_sizes else count

    @property
    def _fetches_outputs(self) -> bool:
        return self.schedule.image_prefetch is not None and not self.shape.output_channels_first

    @property
    def _fetches_tiles(self) -> bool:
        """Whether a workgroup reads an image itself, of which tiles that follow have no gaps."""
        decomposition = self.shape.decomposition
        is_dense = decomposition.view_count == 1 and {*decomposition.step, *decomposition.spacing} == {1}
        is_read = self.schedule.input_block is None and not self.shape.input_channels_first
        return self.schedule.image_prefetch is not None and is_dense and is_read

    @property
    def _channel_parts(self) -> int:
        return min(self.schedule.channel_splits, self.blocks.count)

    def _tiles(self, sizes: Sizes) -> Index:
        return sizes.batch * product(SizedShape.of(self.shape, sizes).tiles_per_image)
