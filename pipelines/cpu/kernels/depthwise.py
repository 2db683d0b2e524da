"""The depthwise CPU kernel: for vectors of channels that span groups, or that are all channels there are.

With the one there is nothing to multiply as matrices, with the other a product would have a single column of
vectors, and read an element for each multiply-add.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import gcd, prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.channel_blocks import ChannelBlocks
from iree.winograd.pipelines.cpu.schedules.depthwise import SHORT_ROW, DepthwiseSchedule, copied_extents
from iree.winograd.pipelines.cpu.tiles.touched_pixels import TouchedPixels, read_pixels
from iree.winograd.pipelines.emission.block_sums import loop_in_blocks
from iree.winograd.pipelines.emission.buffer import Buffer, clear_elements, scratch
from iree.winograd.pipelines.emission.control_flow import loop, when
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.index import Index, IndexLike, ceildiv, unflatten
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.vectors import splat
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.problems.cache_line import CACHE_LINE_BYTES, L1_WAY_BYTES
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .depthwise_products import DepthwiseProducts, TapRow
from .output_blocks import OutputBlock, even_block
from .pixel_blocks import PixelBlock, PixelBlocks
from .store import RegisterBlockStore


@dataclass(frozen=True)
class DepthwiseKernel:
    """output[n, o..., k] = epilogue(sum over taps and c of image[n, i..., first(k) + c] * filters[tap, c, k])
    with first(k) the first input channel of the group of k.

    A workgroup computes `row_block` rows of outputs of one image, or a part of their channels, as sums of
    `register_pixels` neighbours for one vector of channels. An element of the input is read once for all of
    these sums that it is part of; those of groups of several channels are spread over the lanes of their
    outputs, those of a convolution in one group over all. Products of such a one are added channel by
    channel, so that the filters of a row of taps stay in registers. Where the last dimension is padded, the
    blocks of pixels at the border have code of their own, without the taps that read zeros; outer dimensions
    have a range of taps for each row. Of images whose sizes only a call tells, that code finds out which
    pixels exist; rows shorter than a register block are summed by narrower ones, and then one output after
    the other.

    By its schedule a workgroup copies its input between zeros, one vector of channels after the other, and
    computes its rows of that vector from the copy: pixels may lie so that they share few sets of the cache.
    """

    shape: ConvolutionShape
    schedule: DepthwiseSchedule
    target: CpuTarget

    @property
    def blocks(self) -> ChannelBlocks:
        """The vectors of output channels."""
        return ChannelBlocks(self.shape.output_channels, 1, self.schedule.vector_width)

    @property
    def packed_filter_shape(self) -> tuple[int, int, int, int]:
        """vectors x 1 x (taps, row-major, times a group's input channels) x lanes."""
        return (self.blocks.count, 1, self.shape.reduction, self.schedule.vector_width)

    @property
    def filter_part(self) -> int:
        """Elements of the packed filters that a part of the output channels has."""
        passes = self._passes
        vectors = passes.part_size(self._channel_parts) * self.blocks.part_size(passes.count)
        return vectors * prod(self.packed_filter_shape[1:])

    @property
    def view_order(self) -> list[int]:
        """The order of views along the packed filters' reduction dimension."""
        return self.shape.views_by_tap

    def rereads_in_l1(self, l1_bytes: int) -> bool:
        """Whether a cache of this size holds what each tap of a block of pixels reads anew.

        Rows of taps that are written out read an element once for all of them. Pixels whose channels take
        a multiple of a large power of two share few sets of the cache.
        """
        if self.is_unrolled or self.schedule.copied_rows is not None:
            return True
        shape = self.shape
        span = (self.schedule.register_pixels - 1) * shape.strides[-1] + 1
        span += (shape.kernel_size[-1] - 1) * shape.dilations[-1]
        pixel_bytes = shape.element_types.input_bytes * shape.input_channels
        places = L1_WAY_BYTES // gcd(pixel_bytes, L1_WAY_BYTES)
        # Filters and outputs take a part of it.
        lines = (l1_bytes // L1_WAY_BYTES - 2) * places
        return prod(shape.kernel_size[:-1]) * span <= lines

    def workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Blocks of rows of all images, and parts of the channels."""
        sized = SizedShape.of(self.shape, sizes)
        return sizes.batch * self._row_blocks(sized), Index(self._channel_parts)

    def touched_pixels(self, number: int) -> TouchedPixels:
        """Those of the workgroups of an x coordinate."""
        written = self._outputs(Index(number)).pixels(self.shape, self.shape.output_size[-1])
        return TouchedPixels(read_pixels(self.shape, written), written)

    def emit(
        self,
        work: Work,
        image: Buffer,
        filters: Buffer,
        output: Buffer,
        epilogue: VectorEpilogue,
    ) -> None:
        """Emits the work of one workgroup at the insertion point.

        `image` is N x H... x C, or N x C x H... where lanes share elements, `filters` is
        `packed_filter_shape`, `output` is N x OH... x K.
        """
        row_pixels = SizedShape.of(self.shape, work.sizes).output_size[-1]
        if row_pixels.known is not None:
            self._emit_of(work, image, filters, output, epilogue)
            return
        self._emit_by_length(
            row_pixels, lambda kernel: kernel._emit_of(work, image, filters, output, epilogue)
        )

    def _emit_by_length(self, row_pixels: Index, emit: Callable[[DepthwiseKernel], None]) -> None:
        """Emits it by the kernel with the largest register block that a row of unknown length isn't below."""
        pixels = self.schedule.register_pixels
        if pixels == 1:
            emit(self)
            return
        below = SHORT_ROW if pixels > SHORT_ROW else 1
        narrower = replace(self, schedule=replace(self.schedule, register_pixels=below))
        when(
            row_pixels.at_least(pixels),
            lambda: emit(self),
            lambda: narrower._emit_by_length(row_pixels, emit),
        )

    def _emit_of(
        self, work: Work, image: Buffer, filters: Buffer, output: Buffer, epilogue: VectorEpilogue
    ) -> None:
        """Emits it for rows that are no shorter than a register block."""
        sized = SizedShape.of(self.shape, work.sizes)
        outputs = self._sized_outputs(work.workgroup[0], sized)
        self._emit_rows(work, image, filters, self._store(output, epilogue), outputs, sized)

    def _store(self, output: Buffer, epilogue: VectorEpilogue) -> RegisterBlockStore:
        register_block = (self.schedule.register_pixels, 1, self.schedule.vector_width)
        return RegisterBlockStore.of(
            output, epilogue, register_block, self.shape.element_types.accumulator_type
        )

    def _emit_rows(
        self,
        work: Work,
        image: Buffer,
        filters: Buffer,
        store: RegisterBlockStore,
        outputs: OutputBlock,
        sized: SizedShape,
    ) -> None:
        """Emits the sums of a workgroup's outputs, of rows that are no shorter than a register block."""
        schedule, number, first_row = self.schedule, outputs.number, outputs.first_row
        passes, parts = self._passes, self._channel_parts
        copied_rows = schedule.copied_rows
        copied = None
        if copied_rows is not None:
            extents = (1, *copied_extents(self.shape, copied_rows), schedule.vector_width)
            copied = scratch(extents, image.computed, "copied_vector")
        with loop(passes.steps(work.workgroup[1], parts), name="pass") as step:
            pass_ = passes.at(work.workgroup[1], parts, step)
            if copied is not None and copied_rows is not None:
                with (
                    loop(self.blocks.steps(pass_, passes.count), name="vector") as step,
                    loop(schedule.row_block, copied_rows, name="rows") as start,
                ):
                    block = self.blocks.at(pass_, passes.count, step)
                    row = first_row + start.minimum(schedule.row_block - copied_rows)
                    self._copy(image, copied, number, row, self.blocks.first(block))
                    self._compute_copied(copied, filters, number, row, block, store)
                return
            with loop(outputs.rows, name="row") as row:
                position = unflatten(first_row + row, sized.output_size[:-1])

                def compute(pixels: PixelBlock) -> None:
                    with loop(self.blocks.steps(pass_, passes.count), name="vector") as step:
                        block = self.blocks.at(pass_, passes.count, step)
                        sums = self._sum(image, filters, number, pixels, block)
                        self._prefetch(image, store.output, number, pixels, step)
                        place = (*position, pixels.start)
                        store.emit(sums, number, place, self.blocks.first(block), pixels.start)

                self._pixel_blocks.for_each(sized, position, compute)

    def _outputs(self, number: Index) -> OutputBlock:
        """Those of the workgroups of an x coordinate, of images of known size."""
        return self._sized_outputs(number, SizedShape.of(self.shape))

    def _sized_outputs(self, number: Index, sized: SizedShape) -> OutputBlock:
        """The outputs of a workgroup; the last ones of an image overlap their neighbours."""
        row_blocks, of_image, rows = self._row_blocks(sized), sized.output_rows, self._rows(sized)
        first_row = number % row_blocks * rows
        last = of_image - rows
        image = number // row_blocks
        return OutputBlock(image, first_row.minimum(last), rows, Index(0))

    def _copy(self, image: Buffer, copied: Buffer, number: Index, first_row: Index, channel: Index) -> None:
        """Copies a vector of channels of what the rows from `first_row` on read, between zeros."""
        shape, width = self.shape, self.schedule.vector_width
        *rows, columns = copied.known_extents[1:-1]
        low = min(shape.padding_low[-1], columns)
        end = min(shape.padding_low[-1] + shape.input_size[-1], columns)

        def copy_row(position: list[Index], target: Index) -> None:
            source = image.offset([number, *position, 0, channel])
            clear_elements(copied, target, Index(low * width), width)
            with loop(end - low, name="column") as column:
                element = source + column * image.stride(-2)
                # Neighbouring channels are those of the next vector.
                image.prefetch(element + width, to_l2=True)
                copied.store(image.load(element, width), target + (column + low) * width)
            clear_elements(copied, target + end * width, Index((columns - end) * width), width)

        if not rows:
            copy_row([], Index(0))
            return
        with loop(rows[0], name="copied_row") as row:
            target = row * (columns * width)
            position = first_row * shape.strides[0] + row - shape.padding_low[0]
            when(
                position.within(shape.input_size[0]),
                lambda: copy_row([position], target),
                lambda: clear_elements(copied, target, Index(columns * width), width),
            )

    def _compute_copied(
        self,
        copied: Buffer,
        filters: Buffer,
        number: Index,
        first_row: Index,
        block: Index,
        store: RegisterBlockStore,
    ) -> None:
        """The rows from `first_row` on of one vector of channels, from the copy of what they read."""
        width, none = self.schedule.vector_width, (0,) * self.shape.spatial_rank
        shape = replace(
            self.shape,
            batch=1,
            input_size=copied.known_extents[1:-1],
            padding_low=none,
            padding_high=none,
            groups=width,
            input_channels=width,
            output_channels=width,
        )
        kernel = replace(self, shape=shape)
        own_filters = replace(filters, origin=filters.offset([block, 0, 0, 0]))
        assert self.schedule.copied_rows is not None
        with loop(self.schedule.copied_rows, name="row") as row:
            position = unflatten(first_row + row, self.shape.output_size[:-1])
            copied_position = unflatten(row, shape.output_size[:-1])

            def compute(pixels: PixelBlock) -> None:
                sums = kernel._sum(copied, own_filters, Index(0), pixels, Index(0))
                place = (*position, pixels.start)
                store.emit(sums, number, place, self.blocks.first(block), pixels.start)

            kernel._pixel_blocks.for_each(SizedShape.of(shape), copied_position, compute)

    def _sum(
        self,
        image: Buffer,
        filters: Buffer,
        number: Index,
        pixels: PixelBlock,
        block: Index,
    ) -> list[ir.Value]:
        """The sums of a block of pixels of image `number`, for one vector of channels."""
        shape, decomposition = self.shape, self.shape.decomposition
        first_channel = self.blocks.first(block) // self.shape.group_outputs * self.shape.group_inputs
        column = pixels.start * decomposition.step[-1] - shape.padding_low[-1]
        row_of_filters = decomposition.kernel_size[-1] * self.shape.group_inputs * self.schedule.vector_width
        products = self._products

        def add_row(position: list[Index], taps: Index, sums: list[ir.Value]) -> list[ir.Value]:
            pixel = [*position, column]
            first_place = [first_channel, *pixel] if shape.input_channels_first else [*pixel, first_channel]
            origin = image.offset([number, *first_place])
            first = filters.offset([block, 0, 0, 0]) + taps * row_of_filters
            return products.add(TapRow(image, filters, origin, first), pixels, sums)

        zero = splat(0.0, self.schedule.vector_width, shape.element_types.accumulator_type)
        return self._sum_rows(pixels, [], Index(0), [zero] * self.schedule.register_pixels, add_row)

    def _sum_rows(
        self,
        pixels: PixelBlock,
        position: list[Index],
        taps: Index,
        sums: list[ir.Value],
        add_row: Callable[[list[Index], Index, list[ir.Value]], list[ir.Value]],
    ) -> list[ir.Value]:
        """Has `add_row` add the products with each row of taps inside the image to `sums`.

        `position` is that in the outer dimensions so far, in which the taps have the number `taps`.
        """
        shape, decomposition, dimension = self.shape, self.shape.decomposition, len(position)
        if dimension == len(pixels.row):
            return add_row(position, taps, sums)
        row = pixels.row[dimension]
        first_tap, count = self._pixel_blocks.taps_inside(pixels.sized, dimension, row)

        def step(tap: Index, sums: list[ir.Value]) -> list[ir.Value]:
            tap = tap + first_tap
            coordinate = (
                row * decomposition.step[dimension]
                + tap * decomposition.dilation[dimension]
                - shape.padding_low[dimension]
            )
            number_of_tap = taps * decomposition.kernel_size[dimension] + tap
            return self._sum_rows(pixels, [*position, coordinate], number_of_tap, sums, add_row)

        taps_of_row = decomposition.kernel_size[dimension]
        terms = prod(decomposition.kernel_size[dimension + 1 :]) * shape.group_inputs
        return loop_in_blocks(sums, count, taps_of_row, terms, shape.summed_block, step, "tap_row")

    def _prefetch(
        self, image: Buffer, output: Buffer, number: Index, pixels: PixelBlock, vector: Index
    ) -> None:
        """Fetches a vector's part of what later blocks read of rows that none has read yet, and write.

        Processors see lines of several rows in turns, none of which they take for the next one's.
        """
        blocks, shape, decomposition = self.schedule.image_prefetch, self.shape, self.shape.decomposition
        if blocks is None:
            return
        (row,) = pixels.row
        step, dilation, taps = decomposition.step, decomposition.dilation, shape.kernel_size[-2]
        later = pixels.start + blocks * self.schedule.register_pixels
        column = later * step[-1] - shape.padding_low[-1]
        for tap in range(taps - min(taps, ceil_div(step[-2], dilation[-2])), taps):
            coordinate = row * step[-2] + tap * dilation[-2] - shape.padding_low[-2]
            self._prefetch_part(image, [number, coordinate, column, 0], step[-1], vector)
        self._prefetch_part(output, [number, row, later, 0], 1, vector, to_write=True)

    def _prefetch_part(
        self, buffer: Buffer, first: list[IndexLike], step: int, vector: Index, *, to_write: bool = False
    ) -> None:
        """That of a vector of what a block of pixels that are `step` apart reads or writes of a row."""
        line = CACHE_LINE_BYTES // buffer.number.bytes
        elements = self.schedule.register_pixels * step * buffer.known_stride(-2)
        lines = ceil_div(ceil_div(elements, line), self.blocks.count)
        begin = buffer.offset(first) + vector * (lines * line)
        for number in range(lines):
            buffer.prefetch(begin + number * line, to_write=to_write)

    @property
    def is_unrolled(self) -> bool:
        """Whether rows of taps are written out."""
        return self._products.is_unrolled

    @property
    def _products(self) -> DepthwiseProducts:
        return DepthwiseProducts(self.shape, self.schedule, self.target.fused_multiply_add)

    @property
    def _pixel_blocks(self) -> PixelBlocks:
        return PixelBlocks(self.shape, self.schedule.register_pixels)

    @property
    def _passes(self) -> ChannelBlocks:
        """The vectors in blocks that go through all rows before the next ones do."""
        return ChannelBlocks(ceil_div(self.blocks.count, self.schedule.vectors_per_pass), 1, 1)

    @property
    def _channel_parts(self) -> int:
        return min(self.schedule.channel_splits, self._passes.count)

    def _row_blocks(self, sized: SizedShape) -> Index:
        if self.schedule.block_multiple is None:
            return ceildiv(sized.output_rows, self.schedule.row_block)
        return ceildiv(sized.output_rows, self._rows(sized))

    def _rows(self, sized: SizedShape) -> Index:
        """Those of a block."""
        of_image, block, multiple = sized.output_rows, self.schedule.row_block, self.schedule.block_multiple
        if of_image.known is not None:
            return of_image.minimum(block)
        # Evenly: of 24 rows in blocks of 16 the second would compute 8 again.
        if multiple is None:
            return ceildiv(of_image, self._row_blocks(sized))
        return even_block(of_image, block, multiple)
