"""The direct CPU kernel: output tile 1, an implicit matrix product that reads the input in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu.processor.product import CACHE_LINE_FLOATS, Panel, Product, Rows
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.channel_blocks import ChannelBlocks
from iree.winograd.pipelines.cpu.schedules.direct import (
    DirectSchedule,
    RowPart,
    copies_input,
    direct_channel_blocks,
    is_in_lines,
    patch_schedule,
    row_parts,
    skips_padding,
)
from iree.winograd.pipelines.cpu.tiles.touched_pixels import TouchedPixels, read_pixels
from iree.winograd.pipelines.emission.block_sums import add_in_blocks, loop_in_blocks
from iree.winograd.pipelines.emission.buffer import Buffer, scratch
from iree.winograd.pipelines.emission.control_flow import loop, named, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Condition, Index, IndexLike, ceildiv, unflatten
from iree.winograd.pipelines.emission.sized_shape import SizedShape, in_line
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .patches import Patches
from .staging import OutputBlock, Staging
from .store import RegisterBlockStore


@dataclass(frozen=True)
class _Source:
    """Where a workgroup reads its input: in the image, or in the copy of what it needs of it."""

    buffer: Buffer
    tap_strides: list[IndexLike]
    """Elements from one outer tap to the next, per outer dimension; in a copy one for all of them."""
    last_tap_stride: IndexLike
    """The same of the last dimension."""
    pixel_stride: IndexLike
    """The same from what one output reads to what the next one does."""
    is_copy: bool


@dataclass(frozen=True)
class _Pixels:
    """The neighbouring outputs of a register block, and the block of channels that it is of."""

    number: Index
    position: tuple[Index, ...]
    block: Index
    register_block: Index
    """Number of those of the workgroup with the same channels."""
    product: Product
    """What multiplies them."""
    outer_taps: tuple[tuple[Index, IndexLike], ...]
    """The taps that they need: of each outer dimension the first one and the number of them."""
    taps: range
    """Of the last dimension."""


@dataclass(frozen=True)
class _Blocks:
    """How the outputs of images are divided among workgroups."""

    sized: SizedShape
    schedule: DirectSchedule

    @property
    def of_rows(self) -> Index:
        return ceildiv(self.sized.output_rows, self.schedule.row_block)

    @property
    def of_pixels(self) -> Index:
        return ceildiv(self.sized.output_size[-1], self.schedule.pixel_block)

    @property
    def row_pixels(self) -> Index:
        """Those of each row of a block: as the schedule says where rows are known to be as long.

        Other rows are divided evenly. Of 480 pixels in blocks of 384 the second would compute 288 again.
        """
        of_row, block = self.sized.output_size[-1], self.schedule.pixel_block
        if of_row.known is not None:
            return of_row.minimum(block)
        registers = self.schedule.register_pixels
        even = ceildiv(ceildiv(of_row, self.of_pixels), registers) * registers
        return even.minimum(block).minimum(of_row)

    def are_patches(self, outputs: OutputBlock) -> Condition:
        """Whether what the outputs of a workgroup read is gathered, so that register blocks have outputs of
        several rows: where rows are shorter than these, or take a third more of them."""
        if self.row_pixels.known is not None:
            return Condition(False)
        registers, of_row = self.schedule.register_pixels, self.sized.output_size[-1]
        of_rows = outputs.rows * ceildiv(of_row, registers)
        are_fewer = (of_rows * 3).at_least(ceildiv(outputs.rows * of_row, registers) * 4)
        is_whole = Index(self.schedule.pixel_block).at_least(of_row)
        return of_row.less_than(registers) | (is_whole & are_fewer)

    def outputs(self, number: Index) -> OutputBlock:
        """The outputs of a workgroup."""
        schedule = self.schedule
        image = Index(0) if self.sized.shape.batch == 1 else number // (self.of_rows * self.of_pixels)
        first_row = number // self.of_pixels % self.of_rows * schedule.row_block
        rows, of_image = Index(schedule.row_block), self.sized.output_rows
        if of_image.known is None or of_image.known % schedule.row_block:
            rows = (of_image - first_row).minimum(rows)
        # The last block of pixels overlaps its neighbour rather than be cut short.
        row_pixels = self.row_pixels
        first_pixel = (number % self.of_pixels * row_pixels).minimum(self.sized.output_size[-1] - row_pixels)
        return OutputBlock(image, first_row, rows, first_pixel)


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
        blocks = _Blocks(self._sized(sizes), self.schedule)
        return sizes.batch * (blocks.of_rows * blocks.of_pixels), Index(self._channel_parts)

    def touched_pixels(self, number: int) -> TouchedPixels:
        """Those of the workgroups of an x coordinate."""
        written = self._outputs(Index(number)).pixels(self.shape, self.schedule.pixel_block)
        return TouchedPixels(read_pixels(self.shape, written), written)

    def _outputs(self, number: Index) -> OutputBlock:
        """Those of the workgroups of an x coordinate, of images of known size."""
        return _Blocks(SizedShape.of(self.shape), self.schedule).outputs(number)

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
        schedule, sized = self.schedule, self._sized(work.sizes)
        image, output, epilogue = self.in_lines(image, output, epilogue, sized)
        blocks = _Blocks(sized, schedule)
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
                self._in_place(image) if staging is None else self._staged(staging, image, outputs, memory)
            )
            store = self._store(output, epilogue, schedule.pixel_block)
            self._emit_rows(work, source, filters, store, outputs, sized)

        def emit_patches() -> None:
            lined_up = replace(epilogue, lined_up=epilogue.lined_up or sized.output_size)
            line = self._lined_up(output, self._spatial_position, sized.in_line)
            kernel = replace(self, schedule=patches.schedule)
            store = kernel._store(line, lined_up, patches.schedule.register_pixels, in_parts=True)
            kernel._emit_patches(work, patches, image, memory, filters, store, outputs)

        when(blocks.are_patches(outputs), emit_patches, emit_rows)

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
        channels = self.shape.input_channels
        source = _Source(copied, [copied.stride(0)], channels, copied.stride(1), is_copy=True)
        outer = [Index(0)] * (self.shape.spatial_rank - 1)
        outer_taps = self._outer_taps_of(tuple(outer))
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
                    pixels = _Pixels(outputs.number, position, block, place, block_product, outer_taps, taps)
                    # Of the last block patches that aren't there are multiplied, and the sums left out.
                    sums = self._sum(source, copied.offset([0, start, 0]), filters, pixels, store)
                    store.emit(sums, outputs.number, position, channel, Index(0), left)
                    store.finish_row(outputs.number, position, channel, self.target.vector_width, left)

    def _emit_rows(
        self,
        work: Work,
        source: _Source,
        filters: Buffer,
        store: RegisterBlockStore,
        outputs: OutputBlock,
        sized: SizedShape,
    ) -> None:
        """Emits the sums of a workgroup's outputs, of rows that are no shorter than a register block."""
        schedule, row_pixels = self.schedule, _Blocks(sized, self.schedule).row_pixels
        with loop(self.blocks.steps(work.workgroup[1], self._channel_parts), name="channel_block") as step:
            block = self.blocks.at(work.workgroup[1], self._channel_parts, step)
            channel = self.blocks.first(block)
            with loop(outputs.rows, name="row") as row:
                output_row = unflatten(outputs.first_row + row, sized.output_size[:-1])
                outer_taps = self._outer_taps_of(output_row)
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
                        pixels = _Pixels(
                            outputs.number, position, block, place, block_product, outer_taps, part.taps
                        )
                        with named("origin"):
                            origin = self._origin(source, pixels, row, pixel)
                        sums = self._sum(source, origin, filters, pixels, part_store)
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

    def _sized(self, sizes: Sizes) -> SizedShape:
        """The shape with the sizes that the kernel is told, which are those of images before `in_lines`."""
        if not self.shape.unknown_sizes or not is_in_lines(self.shape):
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

    def _staged(self, staging: Staging, image: Buffer, outputs: OutputBlock, memory: Buffer) -> _Source:
        """The rows that outputs read, copied to `memory`."""
        staged = replace(memory, extents=staging.extents)
        staging.emit(image, outputs, staged)
        return _Source(staged, [staged.stride(1)], *self._last_strides(staged), is_copy=True)

    def _in_place(self, image: Buffer) -> _Source:
        dilations = self.shape.decomposition.dilation[:-1]
        strides = [dilation * image.stride(1 + d) for d, dilation in enumerate(dilations)]
        return _Source(image, strides, *self._last_strides(image), is_copy=False)

    def _last_strides(self, rows: Buffer) -> tuple[IndexLike, IndexLike]:
        """From one tap of the last dimension to the next, and from one output, of rows as images have."""
        decomposition, column = self.shape.decomposition, rows.stride(-2)
        return decomposition.dilation[-1] * column, decomposition.step[-1] * column

    def _origin(self, source: _Source, pixels: _Pixels, row: Index, pixel: Index) -> Index:
        """The first element that pixels read; `row` and `pixel` are theirs within the workgroup's outputs."""
        steps = self.shape.decomposition.step
        if source.is_copy:
            return source.buffer.offset([row, 0, pixel * steps[-1], 0])
        coordinates = [
            output * step - low
            for output, step, low in zip(pixels.position, steps, self.shape.padding_low, strict=True)
        ]
        return source.buffer.offset([pixels.number, *coordinates, 0])

    def _sum(
        self, source: _Source, origin: Index, filters: Buffer, pixels: _Pixels, store: RegisterBlockStore
    ) -> list[ir.Value]:
        """The outputs of `register_pixels` neighbours for one block of channels, `register_vectors` each."""
        shape, product = self.shape, pixels.product
        first = origin + self.blocks.group(pixels.block) * shape.group_inputs
        panel_origin = filters.offset([pixels.block, 0, 0, 0])
        tap_row_channels = shape.decomposition.kernel_size[-1] * shape.group_inputs
        ahead = panel_origin + (
            (pixels.register_block * self._filters_ahead + product.channels) * shape.reduction
        )

        def prefetch(number: Index, c: Index) -> None:
            self._prefetch(source, origin, pixels, store, c)
            for lane in range(0, self._filters_ahead, CACHE_LINE_FLOATS):
                filters.prefetch(ahead + ((number + c) * self._filters_ahead + lane), to_l2=True)

        def add_tap_row(tap_row: Index, sums: list[ir.Value]) -> list[ir.Value]:
            tap_offset = self._tap_offset(tap_row, source.tap_strides)
            rows = Rows(source.buffer, first + tap_offset, source.pixel_stride)
            number = tap_row * tap_row_channels
            panel = Panel(filters, panel_origin + number * product.channels)
            beside = partial(prefetch, number)
            return self._add_tap_row(sums, rows, source.last_tap_stride, panel, pixels, beside)

        zeros = product.zeros(shape.element_types.accumulator_type)
        if not self._skips_padding:
            return self._loop(zeros, self._outer_taps, tap_row_channels, add_tap_row, "tap_row")
        return self._add_needed_rows(zeros, pixels, add_tap_row)

    def _add_needed_rows(
        self,
        sums: list[ir.Value],
        pixels: _Pixels,
        add_tap_row: Callable[[Index, list[ir.Value]], list[ir.Value]],
    ) -> list[ir.Value]:
        """Adds the products with the rows of taps that pixels need: a loop for each outer dimension."""
        shape, kernel = self.shape, self.shape.decomposition.kernel_size

        def add_dimension(dimension: int, number: Index, sums: list[ir.Value]) -> list[ir.Value]:
            if dimension == len(kernel) - 1:
                return add_tap_row(number, sums)
            (first, count), taps = pixels.outer_taps[dimension], kernel[dimension]

            def add_tap(step: Index, sums: list[ir.Value]) -> list[ir.Value]:
                return add_dimension(dimension + 1, number * taps + (first + step), sums)

            terms = prod(kernel[dimension + 1 :]) * shape.group_inputs
            return loop_in_blocks(sums, count, taps, terms, shape.summed_block, add_tap, "tap_row")

        return add_dimension(0, Index(0), sums)

    def _loop(
        self,
        sums: list[ir.Value],
        steps: int,
        terms: int,
        body: Callable[[Index, list[ir.Value]], list[ir.Value]],
        name: str,
    ) -> list[ir.Value]:
        """A loop whose `body` adds `terms` products in each step."""
        return loop_in_blocks(sums, steps, steps, terms, self.shape.summed_block, body, name)

    def _add_tap_row(
        self,
        sums: list[ir.Value],
        rows: Rows,
        tap_stride: IndexLike,
        panel: Panel,
        pixels: _Pixels,
        prefetch: Callable[[Index], None],
    ) -> list[ir.Value]:
        """Adds the products with one row of taps: in one loop where what they read lies side by side."""
        shape, product = self.shape, pixels.product
        taps = shape.decomposition.kernel_size[-1]
        side_by_side = shape.groups == 1 and tap_stride == shape.input_channels
        if not pixels.taps:
            return sums
        if taps == 1 or side_by_side:
            return self._add_run(sums, rows, panel, product, taps * shape.group_inputs, prefetch)

        def add_tap(number: Index, sums: list[ir.Value]) -> list[ir.Value]:
            tap = number + pixels.taps.start
            tap_rows = replace(rows, first=rows.first + tap * tap_stride)
            tap_filters = tap * (shape.group_inputs * product.channels)
            tap_panel = replace(panel, first=panel.first + tap_filters)
            return self._add_run(sums, tap_rows, tap_panel, product, shape.group_inputs, prefetch)

        return self._loop(sums, len(pixels.taps), shape.group_inputs, add_tap, "tap")

    def _add_run(
        self,
        sums: list[ir.Value],
        rows: Rows,
        panel: Panel,
        product: Product,
        extent: int,
        prefetch: Callable[[Index], None],
    ) -> list[ir.Value]:
        """Adds the products of elements that lie side by side."""

        def add(first: Index, count: IndexLike, sums: list[ir.Value]) -> list[ir.Value]:
            part_rows = replace(rows, first=rows.first + first)
            part_panel = replace(panel, first=panel.first + first * product.channels)
            return product.add(sums, part_rows, part_panel, count, self.target, lambda c: prefetch(first + c))

        return add_in_blocks(sums, extent, extent, 1, self.shape.summed_block, add)

    def _prefetch(
        self, source: _Source, origin: Index, pixels: _Pixels, store: RegisterBlockStore, c: Index
    ) -> None:
        """Fetches, while a channel is added, a part of what comes next: outputs, and later pixels."""
        blocks = self.schedule.image_prefetch
        if blocks is None:
            return
        store.prefetch(pixels.number, pixels.position, self.blocks.first(pixels.block), c)
        if not (source.is_copy or self._skips_padding) and self.shape.decomposition.step[-1] == 1:
            # A channel of these pixels takes as long as an element of each of the later ones.
            ahead = source.buffer.stride(-2) * blocks
            source.buffer.prefetch(origin + (c + ahead) * self.schedule.register_pixels)

    def _outer_taps_of(self, output_row: tuple[Index, ...]) -> tuple[tuple[Index, IndexLike], ...]:
        """Of each outer dimension the first tap that a row of outputs needs, and the number of them."""
        shape, outer = self.shape, self.shape.decomposition.kernel_size[:-1]
        if not self._skips_padding:
            return tuple((Index(0), taps) for taps in outer)
        needed = []
        for d, (output, taps) in enumerate(zip(output_row, outer, strict=True)):
            # How far before the image, and before its end, the first tap reads.
            outside = Index(shape.padding_low[d]) - output * shape.strides[d]
            first = ceildiv(outside.maximum(0), shape.dilations[d]).minimum(taps)
            behind = (outside + shape.input_size[d]).maximum(0)
            end = ceildiv(behind, shape.dilations[d]).minimum(taps).maximum(first)
            needed.append((first, end - first))
        return tuple(needed)

    def _tap_offset(self, tap_row: Index, tap_strides: list[IndexLike]) -> Index:
        if len(tap_strides) == 1:
            return tap_row * tap_strides[0]
        offset = Index(0)
        taps = unflatten(tap_row, self.shape.decomposition.kernel_size[:-1])
        for coordinate, stride in zip(taps, tap_strides, strict=True):
            offset = offset + coordinate * stride
        return offset

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

    @property
    def _outer_taps(self) -> int:
        return prod(self.shape.decomposition.kernel_size[:-1])
