"""The CPU kernel of the gradient of a depthwise filter: sums over images, vectors of channels in lanes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.depthwise_weight_gradient import DepthwiseWeightGradientSchedule
from iree.winograd.pipelines.emission.buffer import Buffer, clear_elements, scratch
from iree.winograd.pipelines.emission.control_flow import loop, loop_carried, when
from iree.winograd.pipelines.emission.index import Index, ceildiv, select_index, unflatten
from iree.winograd.pipelines.emission.vectors import splat
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.problems.shape import WeightGradientShape

from .depthwise_weight_gradient_blocking import DepthwiseWeightGradientBlocking, RowBlock, TapBlock
from .depthwise_weight_gradient_prefetch import NextBlock
from .depthwise_weight_gradient_products import DepthwiseWeightGradientProducts, OutputRow
from .slice_sum import SliceSum


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
    """Those that code is emitted for; None before it is."""

    @property
    def total(self) -> SliceSum:
        return SliceSum(self.shape, self.schedule.slices, self.schedule.vector_width)

    @cached_property
    def _blocking(self) -> DepthwiseWeightGradientBlocking:
        return DepthwiseWeightGradientBlocking(self.shape, self.schedule, self.target, self.sizes)

    def slice_workgroups(self, sizes: Sizes) -> tuple[Index, Index]:
        """Slices of the blocks of outputs, and parts of the channels."""
        return Index(self.schedule.slices), Index(self._blocking.channel_parts)

    def emit_slice(self, work: Work, image: Buffer, gradients: Buffer, taps: Buffer) -> None:
        """Emits the work of one workgroup: N x H... x C and N x OH... x K to the taps of a slice.

        `taps` is as `SliceSum` has it.
        """
        replace(self, sizes=work.sizes)._emit_slice(work, image, gradients, taps)

    def _emit_slice(self, work: Work, image: Buffer, gradients: Buffer, taps: Buffer) -> None:
        blocking, (slice_, part) = self._blocking, work.workgroup[:2]
        sums = self._cleared_sums(image.computed)
        if self.shape.spatial_rank == 1:
            image, gradients = (
                replace(each, extents=(each.extents[0], 1, *each.extents[1:])) for each in (image, gradients)
            )
        count = work.sizes.batch * blocking.blocks_per_image
        own = ceildiv(count, self.schedule.slices)
        first = slice_ * own
        with loop((count - first).minimum(own).maximum(0), name="block") as step:
            number = first + step
            row = number % blocking.row_blocks * blocking.row_block
            image_number, *outer = unflatten(number // blocking.row_blocks, (1, *blocking.outer_outputs))
            vectors, parts = blocking.channel_blocks, blocking.channel_parts
            with loop(vectors.steps(part, parts), name="vector") as own_vector:
                block = RowBlock(
                    (image_number, *outer),
                    row,
                    row + blocking.row_block,
                    vectors.at(part, parts, own_vector),
                )
                own_sums = replace(sums, extents=sums.extents[1:], origin=own_vector * sums.stride(0))
                self._add_block(block, image, gradients, own_sums)
        if self.schedule.slices > 1:
            taps = replace(taps, extents=taps.extents[1:], origin=slice_ * taps.stride(0))
        self._store(part, sums, taps)

    def _cleared_sums(self, element: ir.Type) -> Buffer:
        """Memory of the workgroup for the sums of its vectors by rows of taps, zeros."""
        *rows, columns = self._blocking.dimensions
        extents = (
            self._blocking.channel_blocks.part_size(self._blocking.channel_parts),
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
        vectors, parts = self._blocking.channel_blocks, self._blocking.channel_parts
        with loop(vectors.steps(part, parts), name="vector") as own_vector:
            channel = vectors.first(vectors.at(part, parts, own_vector))
            with loop(self.shape.reduction, name="tap") as tap:
                value = sums.load(sums.offset([own_vector]) + tap * width, width)
                taps.store(value, taps.offset([]) + tap * channels + channel)

    def _add_block(self, block: RowBlock, image: Buffer, gradients: Buffer, sums: Buffer) -> None:
        """Adds the products of a block of outputs with all taps to `sums`."""

        def add_rows(position: list[Index], row_of_taps: Index) -> None:
            self._add_rows_of_taps(block, position, row_of_taps, image, gradients, sums)

        self._with_outer_taps(block, [block.position[0]], Index(0), add_rows)

    def _with_outer_taps(
        self,
        block: RowBlock,
        position: list[Index],
        row_of_taps: Index,
        add_rows: Callable[[list[Index], Index], None],
    ) -> None:
        """Has `add_rows` add the products with each row of taps that reads the image, given where it does.

        `position` is that of image and taps in dimensions so far.
        """
        if len(position) == len(block.position):
            add_rows(position, row_of_taps)
            return
        dimension = len(position) - 1
        along = self._blocking.dimensions[dimension]
        with loop(along.taps, name="outer_tap") as tap:
            coordinate = along.read(block.position[1 + dimension], tap)
            when(
                coordinate.within(along.size),
                lambda: self._with_outer_taps(
                    block, [*position, coordinate], row_of_taps * along.taps + tap, add_rows
                ),
            )

    def _add_rows_of_taps(
        self,
        block: RowBlock,
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
        products, next_block = DepthwiseWeightGradientProducts(self._blocking), NextBlock(self._blocking)
        rows, columns = self._blocking.dimensions[-2:]
        together = self._blocking.rows_together
        channel = self._blocking.channel_blocks.first(block.vector)
        input_channel = channel // self.shape.group_outputs * self.shape.group_inputs

        def add_rows(first: Index, end: Index, taps: TapBlock) -> None:
            def add(step: Index, values: list[ir.Value]) -> list[ir.Value]:
                output = first + step
                read = rows.read(output, taps.first_row)
                row = OutputRow(
                    replace(image, origin=image.offset([*position, read, -columns.low, input_channel])),
                    replace(gradients, origin=gradients.offset([*block.position, output, 0, channel])),
                    next_block.streams(block, output, taps, image, gradients),
                )
                return products.add(row, taps, values)

            zero = splat(0.0, self.schedule.vector_width, sums.element)
            count = taps.rows * taps.columns * self._blocking.sums_of_tap
            found = loop_carried((end - first).maximum(0), 1, [zero] * count, add, "row")
            row_of_taps = outer_tap * rows.taps + taps.first_row
            self._add_to_memory(found, sums, sums.offset([row_of_taps, taps.first_column]))

        with loop(rows.taps, together, name="tap_rows") as first_row:
            begin, _ = rows.outputs_inside(first_row)
            _, end = rows.outputs_inside(first_row + (together - 1))
            # A block may lie as a whole before the first of them.
            begin = begin.maximum(block.first_row).minimum(block.end_row)
            end = end.minimum(block.end_row).maximum(begin)
            if not self._blocking.is_unrolled:
                with loop(columns.taps, name="tap") as column:
                    add_rows(begin, end, TapBlock(first_row, 1, column, 1))
                return
            add_rows(begin, end, TapBlock(first_row, together, Index(0), columns.taps))
            if together == 1:
                return
            with loop(together, name="tap_row") as tap_row, loop(2, name="side") as side:
                taps = TapBlock(first_row + tap_row, 1, Index(0), columns.taps)
                own_begin, own_end = rows.outputs_inside(taps.first_row)
                is_before = side.equals(0)
                own_begin = own_begin.maximum(select_index(is_before, block.first_row, end))
                add_rows(own_begin, own_end.minimum(select_index(is_before, begin, block.end_row)), taps)

    def _add_to_memory(self, found: list[ir.Value], sums: Buffer, first: Index) -> None:
        """Adds up the sums of each tap, and adds them to those in memory."""
        width, interleaved = self.schedule.vector_width, self.schedule.interleaved_sums
        for number, start in enumerate(range(0, len(found), interleaved)):
            value = found[start]
            for other in found[start + 1 : start + interleaved]:
                value = arith.addf(value, other)
            place = first + number * width
            sums.store(arith.addf(sums.load(place, width), value), place)
