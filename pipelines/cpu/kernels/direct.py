"""The direct CPU kernel: output tile 1, an implicit matrix product that reads the input in place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.channel_blocks import ChannelBlocks
from iree.winograd.pipelines.cpu.schedules.direct import (
    DirectSchedule,
    RowPart,
    copies_input,
    direct_channel_blocks,
    patch_schedule,
    row_parts,
    skips_padding,
)
from iree.winograd.pipelines.cpu.tiles.touched_pixels import TouchedPixels, read_pixels
from iree.winograd.pipelines.emission.buffer import Buffer, scratch
from iree.winograd.pipelines.emission.control_flow import loop, named, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Index, unflatten
from iree.winograd.pipelines.emission.sized_shape import SizedShape, in_line
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .direct_input import DirectInput
from .direct_products import DirectProducts, PlacedPixels
from .output_blocks import OutputBlock, OutputBlocks
from .patches import Patches
from .staging import Staging
from .store import RegisterBlockStore


@dataclass(frozen=True)
class DirectKernel:
    """One direct kernel: a workgroup computes `row_block` rows of `pixel_block` outputs of one image.

    A row is a line of outputs along the last spatial dimension; `register_pixels` neighbours in it are summed
    at once. What one output needs of one row of taps lies side by side in the input, taps and channels alike,
    so that the innermost loop runs over both. Where the convolution pads, the input that a workgroup needs is
    first copied between zeros, a row of the input for each outer tap; else it is read in place, unless its
    pixels lie so that they would share few sets of the cache. Where much of what taps would read is padding,
    these are left out, by rows and by parts of a row, and all others read in place. Of a block that has more
    channels than there are, the last lanes are left out.
    """

    shape: ConvolutionShape
    """`in_lines`."""
    schedule: DirectSchedule
    target: CpuTarget

    @property
    def blocks(self) -> ChannelBlocks:
        """Passes over the pixels, one per block of output channels."""
        return direct_channel_blocks(self.shape, self.schedule.channel_block)

    @property
    def packed_filter_shape(self) -> tuple[int, ...]:
        """channel blocks x 1 x (taps, row-major, times a group's channels) x channel_block."""
        return (self.blocks.count, 1, *self.schedule.product.panel_shape(self.shape.reduction))

    @property
    def filter_part(self) -> int:
        """Elements of the packed filters that a part of the output channels has."""
        return self.blocks.part_size(self._channel_parts) * prod(self.packed_filter_shape[1:])

    @property
    def view_order(self) -> list[int]:
        """The order of views along the packed filters' reduction dimension."""
        return self.shape.views_by_tap

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of outputs of all images, and parts of the output channels."""
        blocks = OutputBlocks(self.sized(sizes), self.schedule)
        return sizes.batch * (blocks.of_rows * blocks.of_pixels), Index(self._channel_parts)

    def touched_pixels(self, number: int) -> TouchedPixels:
        """Those of the workgroups of an x coordinate."""
        written = self._outputs(Index(number)).pixels(self.shape, self.schedule.pixel_block)
        return TouchedPixels(read_pixels(self.shape, written), written)

    def _outputs(self, number: Index) -> OutputBlock:
        """Those of the workgroups of an x coordinate, of images of known size."""
        return OutputBlocks(SizedShape.of(self.shape), self.schedule).outputs(number)

    def emit(
        self,
        work: Work,
        image: Buffer,
        filters: Buffer,
        output: Buffer,
        epilogue: VectorEpilogue,
    ) -> None:
        """Emits the work of one workgroup at the insertion point.

        `image` is N x H... x C, or N x C x H... where `interleaves_channels`, `filters` is
        `packed_filter_shape`, `output` is N x OH... x K, or N x K x OH....
        """
        schedule, sized = self.schedule, self.sized(work.sizes)
        image, output, epilogue = self.in_lines(image, output, epilogue, sized)
        blocks = OutputBlocks(sized, schedule)
        with named("first_output"):
            outputs = blocks.outputs(work.workgroup[0])
        staging = Staging(sized, schedule, self.target) if self._stages(image) else None
        patches = Patches(sized, patch_schedule(self.shape, schedule, self.target), self.target)
        extents: list[tuple[int, ...]] = [] if staging is None else [staging.extents]
        if blocks.row_pixels.known is None:
            extents.append(patches.extents)
        # Rows are copied, or patches: both to the same memory.
        memory = scratch(max(extents, key=prod), image.computed, "staged_rows") if extents else image

        def emit_rows() -> None:
            source = (
                DirectInput.in_place(self.shape, image)
                if staging is None
                else self._staged(staging, image, outputs, memory)
            )
            store = self._store(output, epilogue, schedule.pixel_block)
            self._emit_rows(work, self._products(source, filters), store, outputs, sized)

        def emit_patches() -> None:
            lined_up = replace(epilogue, lined_up=epilogue.lined_up or sized.output_size)
            line = self._lined_up(output, self._spatial_position, sized.in_line)
            kernel = replace(self, schedule=patches.schedule)
            store = kernel._store(line, lined_up, patches.schedule.register_pixels, in_parts=True)
            kernel._emit_patches(work, patches, image, memory, filters, store, outputs)

        when(blocks.are_patches(outputs), emit_patches, emit_rows)

    def _products(self, source: DirectInput, filters: Buffer) -> DirectProducts:
        """What sums register blocks that read `source`."""
        blocks, ahead = self.blocks, self._filters_ahead
        return DirectProducts(self.shape, self.schedule, self.target, blocks, source, filters, ahead)

    def _store(
        self, output: Buffer, epilogue: VectorEpilogue, row_pixels: int, *, in_parts: bool = False
    ) -> RegisterBlockStore:
        """What becomes of sums; of channels-first images so many pixels are transposed at once."""
        schedule = self.schedule
        return RegisterBlockStore.of(
            output,
            epilogue,
            (schedule.register_pixels, schedule.register_vectors, schedule.vector_width),
            self.shape.element_types.accumulator_type,
            row_pixels if self.shape.output_channels_first else None,
            self.shape.group_outputs,
            in_parts=in_parts,
        )

    def _emit_patches(
        self,
        work: Work,
        patches: Patches,
        image: Buffer,
        memory: Buffer,
        filters: Buffer,
        store: RegisterBlockStore,
        outputs: OutputBlock,
    ) -> None:
        """Emits the sums of a workgroup's outputs, those of a row behind those of the row before."""
        sized, block_product = patches.sized, self.schedule.product
        registers, extents = block_product.rows, patches.extents
        copied = replace(memory, extents=extents)
        products = self._products(DirectInput.of_patches(self.shape, copied), filters)
        outer = [Index(0)] * (self.shape.spatial_rank - 1)
        outer_taps = products.outer_taps(tuple(outer))
        of_row, taps = sized.output_size[-1], range(self.shape.decomposition.kernel_size[-1])
        first_of_block, of_block = outputs.first_row * of_row, outputs.rows * of_row
        with loop(of_block, extents[1], "first_patch") as done:
            first, count = first_of_block + done, (of_block - done).minimum(extents[1])
            patches.emit(image, outputs.number, first, count, copied)
            with loop(
                self.blocks.steps(work.workgroup[1], self._channel_parts), name="channel_block"
            ) as step:
                block = self.blocks.at(work.workgroup[1], self._channel_parts, step)
                channel = self.blocks.first(block)
                with loop(count, registers, "pixel") as start:
                    position, left = (*outer, first + start), (count - start).minimum(registers)
                    place = start // registers
                    pixels = PlacedPixels(
                        outputs.number, position, block, place, block_product, outer_taps, taps
                    )
                    # Of the last block patches that aren't there are multiplied, and the sums left out.
                    sums = products.sum(copied.offset([0, start, 0]), pixels, store)
                    store.emit(sums, outputs.number, position, channel, Index(0), left)
                    store.finish_row(outputs.number, position, channel, self.target.vector_width, left)

    def _emit_rows(
        self,
        work: Work,
        products: DirectProducts,
        store: RegisterBlockStore,
        outputs: OutputBlock,
        sized: SizedShape,
    ) -> None:
        """Emits the sums of a workgroup's outputs, of rows that are no shorter than a register block."""
        schedule, row_pixels = self.schedule, OutputBlocks(sized, self.schedule).row_pixels
        with loop(self.blocks.steps(work.workgroup[1], self._channel_parts), name="channel_block") as step:
            block = self.blocks.at(work.workgroup[1], self._channel_parts, step)
            channel = self.blocks.first(block)
            with loop(outputs.rows, name="row") as row:
                output_row = unflatten(outputs.first_row + row, sized.output_size[:-1])
                outer_taps = products.outer_taps(output_row)
                before = 0
                for part in self._parts:
                    block_product = schedule.part_product(part)
                    register_pixels = block_product.rows
                    part_store = replace(store, sums=(register_pixels, *store.sums[1:]))
                    part_pixels = Index(part.pixels) if self._skips_padding else row_pixels
                    with loop(part_pixels, register_pixels, "pixel") as start:
                        pixel = start.minimum(part_pixels - register_pixels) + part.first
                        position = (*output_row, outputs.first_pixel + pixel)
                        place = row * self._register_blocks_of_row + start // register_pixels + before
                        pixels = PlacedPixels(
                            outputs.number, position, block, place, block_product, outer_taps, part.taps
                        )
                        with named("origin"):
                            origin = products.source.origin(outputs.number, position, row, pixel)
                        sums = products.sum(origin, pixels, part_store)
                        part_store.emit(sums, outputs.number, position, channel, pixel)
                    before += ceil_div(part.pixels, register_pixels)
                row_start = (*output_row, outputs.first_pixel)
                store.finish_row(outputs.number, row_start, channel, self.target.vector_width, row_pixels)

    def in_lines(
        self, image: Buffer, output: Buffer, epilogue: VectorEpilogue, sized: SizedShape | None = None
    ) -> tuple[Buffer, Buffer, VectorEpilogue]:
        """What `emit` takes, with the spatial dimensions of `shape` in place of those that they were lined up
        from. They are sized as `sized`, where the shape doesn't know its sizes."""
        sized = SizedShape.of(self.shape) if sized is None else sized
        number, *size, _ = image.extents
        # Channels-first images are padded, and those that are padded not lined up.
        if self.shape.input_channels_first or tuple(map(Index.of, size)) == sized.input_size:
            return image, output, epilogue
        images = [number] if self.shape.batch == 1 and number != 1 else []
        epilogue = replace(epilogue, lined_up=(*images, *size))
        return (
            self._lined_up(image, 1, sized.output_size),
            self._lined_up(output, self._spatial_position, sized.output_size),
            epilogue,
        )

    def _lined_up(self, buffer: Buffer, position: int, sizes: tuple[Index, ...]) -> Buffer:
        """An image whose spatial dimensions, from `position` on, are `sizes`."""
        rest = buffer.extents[position + self.shape.spatial_rank :]
        spatial = tuple(size if size.known is None else size.known for size in sizes)
        return replace(buffer, extents=(*buffer.extents[:position], *spatial, *rest))

    def sized(self, sizes: Sizes) -> SizedShape:
        """The shape with the sizes that the kernel is told, which are those of images before `in_lines`."""
        if not self.shape.unknown_sizes or not self.shape.is_of_single_pixels:
            return SizedShape.of(self.shape, sizes)
        line = in_line(sizes.spatial("output"))
        return SizedShape(self.shape, line, line)

    def _stages(self, image: Buffer) -> bool:
        """Whether the input is copied: it is padded, or its pixels would share few sets of the cache."""
        if self._skips_padding:
            return False
        if self.shape.input_channels_first:
            return True
        passes = ceil_div(self.blocks.count, self._channel_parts)
        distance = self.shape.strides[-1] * image.known_stride(-2)
        return copies_input(self.shape, distance, self._channel_parts, passes)

    def _staged(self, staging: Staging, image: Buffer, outputs: OutputBlock, memory: Buffer) -> DirectInput:
        """The rows that outputs read, copied to `memory`."""
        staged = replace(memory, extents=staging.extents)
        staging.emit(image, outputs, staged)
        return DirectInput.of_staged_rows(self.shape, staged)

    @property
    def _spatial_position(self) -> int:
        """The first spatial dimension of the output."""
        return 2 if self.shape.output_channels_first else 1

    @property
    def _channel_parts(self) -> int:
        return min(self.schedule.channel_splits, self.blocks.count)

    @property
    def _skips_padding(self) -> bool:
        return skips_padding(self.shape, self.schedule.pixel_block)

    @property
    def _parts(self) -> tuple[RowPart, ...]:
        return row_parts(self.shape, self.schedule.pixel_block)

    @property
    def _register_blocks_of_row(self) -> int:
        return sum(ceil_div(part.pixels, self.schedule.part_product(part).rows) for part in self._parts)

    @property
    def _filters_ahead(self) -> int:
        """Filters of the next block of channels that are fetched for each channel of a register block."""
        if self.blocks.count == 1:
            return 0
        return self.schedule.product.filters_ahead(self.schedule.row_block * self._register_blocks_of_row)
