"""The CPU kernel of the gradient of a depthwise filter: sums over images, vectors of channels in lanes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.cpu.processor.product import CACHE_LINE_FLOATS
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.channel_blocks import ChannelBlocks
from iree.winograd.pipelines.cpu.schedules.depthwise_weight_gradient import DepthwiseWeightGradientSchedule
from iree.winograd.pipelines.emission.buffer import Buffer, clear_elements, scratch
from iree.winograd.pipelines.emission.control_flow import loop, loop_carried, named, when
from iree.winograd.pipelines.emission.index import Index, ceildiv, select_index, unflatten
from iree.winograd.pipelines.emission.sized_shape import SizedShape
from iree.winograd.pipelines.emission.sized_shape import product as product_of_sizes
from iree.winograd.pipelines.emission.vectors import multiply_add, splat
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.problems.shape import WeightGradientShape

from .group_lanes import input_lanes, spread_to_outputs
from .slice_sum import SliceSum

MAX_UNROLLED = 1024
"""Multiply-adds that a row of taps is written out to, over the code of all blocks of pixels."""
MIN_REGISTER_PIXELS = 2
"""Outputs whose gradients wait in registers for what a row of taps reads."""


@dataclass(frozen=True)
class DepthwiseWeightGradientKernel:
    """taps[r..., c, k] = sum over n and o of image[n, stride*o + dilation*r - padding, first(k) + c]
                                              * gradient[n, o, k]
    with first(k) the first input channel of the group of k.

    Registers hold the sums of one vector of channels by one row of taps, over a block of rows of outputs of
    one image: an element of the image is read once for all taps of the row, and a tap meets only the outputs
    for which it reads the image, so that nothing is padded. Blocks of pixels at the border have code of their
    own; of rows known only at run time pixels at the border are taken one by one. Memory of the workgroup has
    the sums over its slice of the blocks, in their order. Where rows of taps are too long to be written out,
    a loop takes one tap after the other.
    """

    shape: WeightGradientShape
    schedule: DepthwiseWeightGradientSchedule
    target: CpuTarget
    sizes: Sizes | None = None
    """Those that code is emitted for; None where what is expected of them is all that is asked."""

    @property
    def blocks(self) -> ChannelBlocks:
        """The vectors of output channels."""
        return ChannelBlocks(self.shape.output_channels, 1, self.schedule.vector_width)

    @property
    def total(self) -> SliceSum:
        return SliceSum(self.shape, self.schedule.slices, self.schedule.vector_width)

    def slice_workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Slices of the blocks of outputs, and parts of the channels."""
        return Index(self.schedule.slices), Index(self.channel_parts)

    def emit_slice(self, work: Work, image: Buffer, gradients: Buffer, taps: Buffer) -> None:
        """Emits the work of one workgroup: N x H... x C and N x OH... x K to the taps of a slice.

        `taps` is as `SliceSum` has it.
        """
        replace(self, sizes=work.sizes)._emit_slice(work, image, gradients, taps)

    def _emit_slice(self, work: Work, image: Buffer, gradients: Buffer, taps: Buffer) -> None:
        slice_, part = work.workgroup[:2]
        sums = self._cleared_sums(image.computed)
        if self.shape.spatial_rank == 1:
            image, gradients = (
                replace(each, extents=(each.extents[0], 1, *each.extents[1:])) for each in (image, gradients)
            )
        count = work.sizes.batch * self._blocks_per_image
        own = ceildiv(count, self.schedule.slices)
        first = slice_ * own
        with loop((count - first).minimum(own).maximum(0), name="block") as step:
            number = first + step
            row = number % self._row_blocks * self._row_block
            image_number, *outer = unflatten(number // self._row_blocks, (1, *self._outer_outputs))
            with loop(self.blocks.steps(part, self.channel_parts), name="vector") as own_vector:
                block = _Block(
                    (image_number, *outer),
                    row,
                    row + self._row_block,
                    self.blocks.at(part, self.channel_parts, own_vector),
                )
                own_sums = replace(sums, extents=sums.extents[1:], origin=own_vector * sums.stride(0))
                self._add_block(block, image, gradients, own_sums)
        if self.schedule.slices > 1:
            taps = replace(taps, extents=taps.extents[1:], origin=slice_ * taps.stride(0))
        self._store(part, sums, taps)

    def _cleared_sums(self, element: ir.Type) -> Buffer:
        """Memory of the workgroup for the sums of its vectors by rows of taps, zeros."""
        *rows, columns = self._dimensions
        extents = (
            self.blocks.part_size(self.channel_parts),
            prod(each.taps for each in rows),
            columns.taps,
            self.shape.group_inputs,
            self.schedule.vector_width,
        )
        sums = scratch(extents, element, "sums")
        clear_elements(sums, Index(0), Index(prod(extents)), self.schedule.vector_width)
        return sums

    def _store(self, part: Index, sums: Buffer, taps: Buffer) -> None:
        """Writes the sums of a workgroup, those of each vector's taps, to R... x C/g x K."""
        width, channels = self.schedule.vector_width, self.shape.output_channels
        rows = self.shape.reduction
        with loop(self.blocks.steps(part, self.channel_parts), name="vector") as own_vector:
            channel = self.blocks.first(self.blocks.at(part, self.channel_parts, own_vector))
            with loop(rows, name="tap") as tap:
                value = sums.load(sums.offset([own_vector]) + tap * width, width)
                taps.store(value, taps.offset([]) + tap * channels + channel)

    def _add_block(self, block: _Block, image: Buffer, gradients: Buffer, sums: Buffer) -> None:
        """Adds the products of a block of outputs with all taps to `sums`."""
        number, *outer = block.position

        def add_taps(dimension: int, position: list[Index], row_of_taps: Index) -> None:
            if dimension == len(outer):
                self._add_rows_of_taps(block, position, row_of_taps, image, gradients, sums)
                return
            along = self._dimensions[dimension]
            with loop(along.taps, name="outer_tap") as tap:
                coordinate = along.read(outer[dimension], tap)
                when(
                    coordinate.within(along.size),
                    lambda: add_taps(dimension + 1, [*position, coordinate], row_of_taps * along.taps + tap),
                )

        add_taps(0, [number], Index(0))

    def _add_rows_of_taps(
        self,
        block: _Block,
        position: list[Index],
        outer_tap: Index,
        image: Buffer,
        gradients: Buffer,
        sums: Buffer,
    ) -> None:
        """Adds those with the taps at one position of the outer dimensions, read at `position`.

        Rows of outputs for which all rows of a block of taps read the image take these together, others one
        row of taps after the other.
        """
        rows, columns = self._dimensions[-2:]
        together = self._rows_together
        channel = self.blocks.first(block.vector)
        input_channel = channel // self.shape.group_outputs * self.shape.group_inputs

        def add_rows(first: Index, end: Index, taps: _Taps) -> None:
            def add(step: Index, values: list[ir.Value]) -> list[ir.Value]:
                output = first + step
                read = rows.read(output, taps.first_row)
                row = _Row(
                    replace(image, origin=image.offset([*position, read, -columns.low, input_channel])),
                    replace(gradients, origin=gradients.offset([*block.position, output, 0, channel])),
                    self._next_block(block, output, taps, image, gradients),
                )
                return self._add_row(row, taps, values)

            zero = splat(0.0, self.schedule.vector_width, sums.element)
            count = taps.rows * taps.columns * self._sums_of_tap
            found = loop_carried((end - first).maximum(0), 1, [zero] * count, add, "row")
            row_of_taps = outer_tap * rows.taps + taps.first_row
            self._add_to_memory(found, sums, sums.offset([row_of_taps, taps.first_column]))

        with loop(rows.taps, together, name="tap_rows") as first_row:
            begin, _ = rows.outputs_inside(first_row)
            _, end = rows.outputs_inside(first_row + (together - 1))
            # A block may lie as a whole before the first of them.
            begin = begin.maximum(block.first_row).minimum(block.end_row)
            end = end.minimum(block.end_row).maximum(begin)
            if not self.is_unrolled:
                with loop(columns.taps, name="tap") as column:
                    add_rows(begin, end, _Taps(first_row, 1, column, 1))
                return
            add_rows(begin, end, _Taps(first_row, together, Index(0), columns.taps))
            if together == 1:
                return
            with loop(together, name="tap_row") as tap_row, loop(2, name="side") as side:
                taps = _Taps(first_row + tap_row, 1, Index(0), columns.taps)
                own_begin, own_end = rows.outputs_inside(taps.first_row)
                is_before = side.equals(0)
                own_begin = own_begin.maximum(select_index(is_before, block.first_row, end))
                add_rows(own_begin, own_end.minimum(select_index(is_before, begin, block.end_row)), taps)

    def _add_row(self, row: _Row, taps: _Taps, sums: list[ir.Value]) -> list[ir.Value]:
        """Adds the products of a row of outputs with a block of taps."""
        if not self.is_unrolled:
            return self._add_row_by_tap(row, taps.first_column, sums)
        if self._has_unknown_rows:
            return self._add_row_of_unknown(row, taps, sums)
        pixels = self.schedule.register_pixels
        starts = self._pixel_blocks
        inside = [number for number, (start, count) in enumerate(starts) if self._is_inside(start, count)]
        first, end = (inside[0], inside[-1] + 1) if inside else (len(starts), len(starts))
        for start, count in starts[:first]:
            sums = self._add_pixel_block(row, taps, Index(start // pixels), count, sums)
        if first < end:
            sums = loop_carried(
                end - first,
                1,
                sums,
                lambda step, values: self._add_pixel_block(row, taps, step + first, pixels, values),
                "pixel_block",
            )
        for start, count in starts[end:]:
            sums = self._add_pixel_block(row, taps, Index(start // pixels), count, sums)
        return sums

    def _add_row_of_unknown(self, row: _Row, taps: _Taps, sums: list[ir.Value]) -> list[ir.Value]:
        """The same of a row of a length known only at run time: what reads inside of the image in blocks."""
        columns, pixels = self._dimensions[-1], self.schedule.register_pixels
        first = columns.outputs_inside(Index(0))[0].minimum(columns.outputs)
        end = columns.outputs_inside(Index(columns.taps - 1))[1].maximum(first)
        blocks = (end - first) // pixels
        rest = first + blocks * pixels

        def add_block(step: Index, values: list[ir.Value]) -> list[ir.Value]:
            return self._add_pixels(row, taps, first + step * pixels, pixels, values)

        def add_pixel(step: Index, values: list[ir.Value]) -> list[ir.Value]:
            return self._add_pixels(row, taps, rest + step, 1, values)

        sums = self._add_border(row, taps, Index(0), first, sums)
        sums = loop_carried(blocks, 1, sums, add_block, "pixel_block")
        sums = loop_carried(end - rest, 1, sums, add_pixel, "pixel")
        return self._add_border(row, taps, end, columns.outputs, sums)

    def _add_border(
        self, row: _Row, taps: _Taps, first: Index, end: Index, sums: list[ir.Value]
    ) -> list[ir.Value]:
        """Adds the products of outputs with those taps of whole rows that read the image, one by one."""
        (rows, columns), inputs = self._dimensions[-2:], self.shape.group_inputs
        width, interleaved = self.schedule.vector_width, self.schedule.interleaved_sums

        def add(step: Index, values: list[ir.Value]) -> list[ir.Value]:
            pixel, values = first + step, list(values)
            gradient = row.gradients.load(row.gradients.offset([]) + pixel * row.gradients.stride(-2), width)
            for tap, tap_row in product(range(taps.columns), range(taps.rows)):
                column = pixel * columns.step + tap * columns.dilation
                exists = (column - columns.low).within(columns.size)
                distance = column * row.image.stride(-2) + tap_row * rows.dilation * row.image.stride(-3)
                elements = row.image.load(row.image.offset([]) + distance, self._input_lanes, exists)
                for c in range(inputs):
                    number = ((tap_row * taps.columns + tap) * inputs + c) * interleaved
                    added = self._multiply_add(self._spread(elements, c), gradient, values[number])
                    # A gradient that is infinite times an element that isn't there is none.
                    values[number] = arith.select(exists.value, added, values[number])
            return values

        return loop_carried(end - first, 1, sums, add, "border")

    def _add_pixel_block(
        self, row: _Row, taps: _Taps, block: Index, count: int, sums: list[ir.Value]
    ) -> list[ir.Value]:
        """Adds the products of a block of pixels, and fetches what the next block of rows has for it."""
        pixel = block * self.schedule.register_pixels
        with named("next_block"):
            for stream in row.next_block:
                stream.prefetch(block)
        return self._add_pixels(row, taps, pixel, count, sums)

    def _add_pixels(
        self, row: _Row, taps: _Taps, pixel: Index, count: int, sums: list[ir.Value]
    ) -> list[ir.Value]:
        """Adds the products of `count` outputs of a row with whole rows of taps.

        Of outputs that are known while the kernel is built only those with elements of the image.
        """
        (rows, columns), inputs = self._dimensions[-2:], self.shape.group_inputs
        uses: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for p, tap in product(range(count), range(taps.columns)):
            column = p * columns.step + tap * columns.dilation
            known = pixel.known
            if known is None or columns.reads_inside(known * columns.step + column):
                uses[column].append((p, tap))
        width, interleaved = self.schedule.vector_width, self.schedule.interleaved_sums
        with named("gradients"):
            read = sorted({p for pairs in uses.values() for p, _ in pairs})
            first = row.gradients.offset([]) + pixel * row.gradients.stride(-2)
            found = {p: row.gradients.load(first + p * row.gradients.stride(-2), width) for p in read}
        origin = row.image.offset([]) + pixel * (columns.step * row.image.stride(-2))
        sums = list(sums)
        for column, tap_row in product(sorted(uses), range(taps.rows)):
            distance = tap_row * rows.dilation * row.image.stride(-3) + column * row.image.stride(-2)
            with named("elements"):
                elements = row.image.load(origin + distance, self._input_lanes)
            for c in range(inputs):
                spread = self._spread(elements, c)
                with named("sum"):
                    for p, tap in uses[column]:
                        number = ((tap_row * taps.columns + tap) * inputs + c) * interleaved
                        number += p % interleaved
                        sums[number] = self._multiply_add(spread, found[p], sums[number])
        return sums

    def _next_block(
        self, block: _Block, output: Index, taps: _Taps, image: Buffer, gradients: Buffer
    ) -> tuple[_Stream, ...]:
        """What to fetch of the next block's image and gradients while a row of outputs of this one is summed.

        The blocks of pixels of all vectors fetch it in the order in which it lies in memory: strides of many
        channels are fetched less fast. Rows at the border of the image, which are summed apart, fetch
        nothing, nor do parts of the channels.
        """
        rows = self._dimensions[-2]
        row_block = self._row_block.known
        if row_block is None or taps.rows < self._rows_together or self.channel_parts > 1:
            return ()
        row_number = taps.first_row // taps.rows * row_block + (output - block.first_row)
        pixel_blocks = len(self._pixel_blocks)
        number = block.vector * (rows.taps // taps.rows * row_block) + row_number
        count = self.blocks.count * (rows.taps // taps.rows) * row_block * pixel_blocks
        next_read = rows.read(block.end_row, Index(rows.taps - 1)) + (1 - rows.step)

        def stream(buffer: Buffer, row: Index, rows: int) -> _Stream:
            lines = ceil_div(rows * buffer.known_stride(-3), count * CACHE_LINE_FLOATS)
            first = buffer.offset([*block.position, row]) + number * (
                pixel_blocks * lines * CACHE_LINE_FLOATS
            )
            return _Stream(buffer, first, lines)

        return (
            stream(image, next_read, row_block * rows.step),
            stream(gradients, block.end_row, row_block),
        )

    def _add_row_by_tap(self, row: _Row, tap: Index, sums: list[ir.Value]) -> list[ir.Value]:
        """Adds the products of a row of outputs with one tap."""
        columns, shape = self._dimensions[-1], self.shape
        width, interleaved = self.schedule.vector_width, self.schedule.interleaved_sums
        first, end = columns.outputs_inside(tap)
        origin = row.image.offset([]) + tap * (columns.dilation * row.image.stride(-2))

        def add(pixel: Index, number: int, sums: list[ir.Value]) -> None:
            gradients = row.gradients.load(row.gradients.offset([]) + pixel * row.gradients.stride(-2), width)
            elements = row.image.load(
                origin + pixel * (columns.step * row.image.stride(-2)), self._input_lanes
            )
            for c in range(shape.group_inputs):
                place = c * interleaved + number
                sums[place] = self._multiply_add(self._spread(elements, c), gradients, sums[place])

        def add_several(step: Index, sums: list[ir.Value]) -> list[ir.Value]:
            sums = list(sums)
            for number in range(interleaved):
                add(first + step * interleaved + number, number, sums)
            return sums

        def add_one(step: Index, sums: list[ir.Value]) -> list[ir.Value]:
            sums = list(sums)
            add(first + whole + step, 0, sums)
            return sums

        count = (end - first).maximum(0)
        whole = count // interleaved * interleaved
        sums = loop_carried(whole // interleaved, 1, sums, add_several, "pixel_block")
        return loop_carried(count - whole, 1, sums, add_one, "pixel")

    def _add_to_memory(self, found: list[ir.Value], sums: Buffer, first: Index) -> None:
        """Adds up the sums of each tap, and adds them to those in memory."""
        width, interleaved = self.schedule.vector_width, self.schedule.interleaved_sums
        for number, start in enumerate(range(0, len(found), interleaved)):
            value = found[start]
            for other in found[start + 1 : start + interleaved]:
                value = arith.addf(value, other)
            place = first + number * width
            sums.store(arith.addf(sums.load(place, width), value), place)

    def _multiply_add(self, a: ir.Value, b: ir.Value, addend: ir.Value) -> ir.Value:
        return multiply_add(a, b, addend, self.target.fused_multiply_add)

    def _spread(self, elements: ir.Value, c: int) -> ir.Value:
        return spread_to_outputs(elements, c, self.shape, self.schedule.vector_width)

    @property
    def is_unrolled(self) -> bool:
        """Whether rows of taps are short enough to be written out, and registers hold their sums."""
        if self._has_unknown_rows:
            # On both borders, and between the last block and one of them.
            codes = [1, 1, 1]
        else:
            codes = [count for start, count in self._pixel_blocks if not self._is_inside(start, count)]
        products = self._products_of_pixel
        registers = products * self.schedule.interleaved_sums + MIN_REGISTER_PIXELS + 1
        written_out = (sum(codes) + self.schedule.register_pixels) * products
        return registers <= self.target.vector_registers and written_out <= MAX_UNROLLED

    @property
    def _has_unknown_rows(self) -> bool:
        """Whether the length of rows is known only at run time."""
        return self.shape.spatial_rank - 1 in self.shape.unknown_sizes

    @property
    def loads_per_product(self) -> float:
        """Vectors that are loaded for each multiply-add."""
        columns, inputs = self._dimensions[-1], self.shape.group_inputs
        if not self.is_unrolled:
            return 1 + 1 / inputs
        pixels, rows = self.schedule.register_pixels, self.schedule.register_tap_rows
        pairs = product(range(pixels), range(columns.taps))
        read = {p * columns.step + tap * columns.dilation for p, tap in pairs}
        return (pixels + rows * len(read)) / (pixels * self._products_of_pixel)

    @property
    def _rows_together(self) -> int:
        """Rows of taps whose sums are in registers."""
        return self.schedule.register_tap_rows if self.is_unrolled else 1

    @property
    def _products_of_pixel(self) -> int:
        """Vectors of products of an output with a block of rows of taps."""
        return self.schedule.register_tap_rows * self.shape.kernel_size[-1] * self.shape.group_inputs

    @cached_property
    def _dimensions(self) -> list[_Dimension]:
        """The spatial ones, two or more: a signal is an image of one row."""
        shape = self.shape
        expected = tuple(map(Index, shape.input_size)), tuple(map(Index, shape.output_size))
        sized = SizedShape(shape, *expected) if self.sizes is None else SizedShape.of(shape, self.sizes)
        found = [
            _Dimension(*each)
            for each in zip(
                sized.input_size,
                sized.output_size,
                self.shape.kernel_size,
                self.shape.strides,
                self.shape.dilations,
                self.shape.padding_low,
                strict=True,
            )
        ]
        return found if len(found) > 1 else [_Dimension(Index(1), Index(1), 1, 1, 1, 0), *found]

    @property
    def _pixel_blocks(self) -> list[tuple[int, int]]:
        """The first output of each block of a row, and how many it has: the last one may have fewer."""
        pixels, outputs = self.schedule.register_pixels, self._dimensions[-1].outputs.known
        assert outputs is not None
        return [(start, min(pixels, outputs - start)) for start in range(0, outputs, pixels)]

    def _is_inside(self, start: int, count: int) -> bool:
        """Whether a block of pixels is a whole one, all of whose outputs read elements that exist."""
        columns = self._dimensions[-1]
        first = start * columns.step
        last = (start + count - 1) * columns.step + (columns.taps - 1) * columns.dilation
        inside = columns.reads_inside(first) and columns.reads_inside(last)
        return count == self.schedule.register_pixels and inside

    @property
    def channel_parts(self) -> int:
        return min(self.schedule.channel_splits, self.blocks.count)

    @property
    def _row_block(self) -> Index:
        """Rows of a block: one at least, however long."""
        return (Index(self.schedule.pixel_block) // self._dimensions[-1].outputs.maximum(1)).maximum(1)

    @property
    def _row_blocks(self) -> Index:
        return ceildiv(self._dimensions[-2].outputs, self._row_block)

    @property
    def _outer_outputs(self) -> tuple[Index, ...]:
        """Outputs along the dimensions outside of rows."""
        return tuple(each.outputs for each in self._dimensions[:-2])

    @property
    def blocks_per_image(self) -> int:
        """Of one of the expected size."""
        known = replace(self, sizes=None)._blocks_per_image.known
        assert known is not None
        return known

    @property
    def _blocks_per_image(self) -> Index:
        return product_of_sizes(self._outer_outputs) * self._row_blocks

    @property
    def _sums_of_tap(self) -> int:
        """Those in registers."""
        return self.shape.group_inputs * self.schedule.interleaved_sums

    @property
    def _input_lanes(self) -> int:
        return input_lanes(self.shape, self.schedule.vector_width)


@dataclass(frozen=True)
class _Dimension:
    """A spatial dimension of the convolution."""

    size: Index
    """Of the image, without padding."""
    outputs: Index
    taps: int
    step: int
    dilation: int
    low: int
    """Padding before the image."""

    def read(self, output: Index, tap: Index) -> Index:
        """Where a tap reads for an output: within `size`, or in the padding."""
        return output * self.step + tap * self.dilation - self.low

    def reads_inside(self, place: int) -> bool:
        """Whether what is read there, padding counted, exists in an image of known size."""
        assert self.size.known is not None
        return 0 <= place - self.low < self.size.known

    def outputs_inside(self, tap: Index) -> tuple[Index, Index]:
        """The first output for which a tap reads the image, and the end of these; they may be none."""
        before = tap * self.dilation
        first = ceildiv((Index(self.low) - before).maximum(0), self.step)
        end = ceildiv((self.size + self.low - before).maximum(0), self.step)
        return first, end.minimum(self.outputs)


@dataclass(frozen=True)
class _Block:
    """Neighbouring rows of outputs of one image, by one vector of channels."""

    position: tuple[Index, ...]
    """The image, and the position along the dimensions outside of rows."""
    first_row: Index
    end_row: Index
    vector: Index


@dataclass(frozen=True)
class _Row:
    """A row of outputs of one vector of channels and what a block of taps reads for it."""

    image: Buffer
    """From the element that the first tap reads for the first output, also where there is none."""
    gradients: Buffer
    """From the first output."""
    next_block: tuple[_Stream, ...]
    """What to fetch meanwhile."""


@dataclass(frozen=True)
class _Stream:
    """Elements that are fetched to L2, `lines` cache lines for each block of pixels."""

    buffer: Buffer
    first: Index
    lines: int

    def prefetch(self, block: Index) -> None:
        first = self.first + block * (self.lines * CACHE_LINE_FLOATS)
        for number in range(self.lines):
            self.buffer.prefetch(first + number * CACHE_LINE_FLOATS, to_l2=True)


@dataclass(frozen=True)
class _Taps:
    """Neighbouring rows of taps, and neighbouring ones of these."""

    first_row: Index
    rows: int
    first_column: Index
    columns: int
