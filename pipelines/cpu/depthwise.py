"""The depthwise CPU kernel: vectors of channels span groups, so there is nothing to multiply as matrices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.bindings import ir, vector
from iree.winograd.pipelines.convolution import ConvolutionShape
from iree.winograd.pipelines.emit import (
    Buffer,
    Index,
    ceildiv,
    loop,
    loop_carried,
    multiply_add,
    splat,
    unflatten,
    vector_width_for,
)

from .channel_blocks import ChannelBlocks
from .schedules import DepthwiseSchedule
from .target import CpuTarget
from .transforms import Epilogue

MOST_UNROLLED = 2048
"""Multiply-adds that one row of taps may be written out to, over the code of all blocks of pixels."""


def is_depthwise(shape: ConvolutionShape, target: CpuTarget) -> bool:
    """Whether this is a direct convolution in groups that vectors of channels can span."""
    group_outputs = shape.output_channels // shape.groups
    width = vector_width_for(shape.output_channels, target.vector_width)
    return (
        shape.transform_size == 1
        and shape.groups > 1
        and width > group_outputs
        and width % group_outputs == 0
    )


@dataclass(frozen=True)
class DepthwiseKernel:
    """output[n, o..., k] = epilogue(sum over taps and c of image[n, i..., first(k) + c] * filters[tap, c, k])
    with first(k) the first input channel of the group of k.

    A workgroup computes `row_block` rows of outputs of one image, `register_pixels` neighbours of one vector
    of channels at once. An element of the input is read once for all outputs of these that it is part of,
    and for groups of more than one channel spread over the lanes of their outputs. Where the last dimension
    is padded, the blocks of pixels at the border have code of their own, without the taps that read zeros;
    outer dimensions have a range of taps for each row.
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
    def view_order(self) -> list[int]:
        """The views in row-major order of the taps that they hold."""
        views = self.shape.decomposition.views
        return sorted(range(len(views)), key=lambda number: views[number])

    def workgroups(self, batch: Index) -> tuple[Index, Index]:
        """Blocks of rows of all images."""
        return batch * self._row_blocks, Index(1)

    def emit(
        self,
        workgroup: tuple[Index, ...],
        batch: Index,
        image: Buffer,
        filters: Buffer,
        output: Buffer,
        epilogue: Epilogue,
    ) -> None:
        """Emits the work of one workgroup at the insertion point.

        `image` is N x H... x C, `filters` is `packed_filter_shape`, `output` is N x OH... x K.
        """
        schedule = self.schedule
        number = workgroup[0] // self._row_blocks
        first_row = (workgroup[0] % self._row_blocks * schedule.row_block).minimum(
            self._rows - schedule.row_block
        )
        passes = -(-self.blocks.count // schedule.vectors_per_pass)
        with loop(passes, name="pass") as pass_, loop(schedule.row_block, name="row") as row:
            position = unflatten(first_row + row, self.shape.output_size[:-1])

            def compute(pixel: Index) -> None:
                with loop(self.blocks.steps(pass_, passes), name="vector") as step:
                    block = self.blocks.at(pass_, passes, step)
                    sums = self._sum(image, filters, number, position, pixel, block)
                    self._store(sums, output, number, position, pixel, block, epilogue)

            self._for_each_pixel_block(compute)

    def _for_each_pixel_block(self, body: Callable[[Index], None]) -> None:
        """Blocks that read nothing outside of the image in a loop, the others one by one."""
        starts = self._pixel_block_starts
        inside = [number for number, start in enumerate(starts) if self._is_inside(start)]
        first, end = (inside[0], inside[-1] + 1) if inside else (len(starts), len(starts))
        for start in starts[:first]:
            body(Index(start))
        if first < end:
            pixels = self.schedule.register_pixels
            with loop(end - first, name="pixel_block") as block:
                body(((block + first) * pixels).minimum(starts[-1]))
        for start in starts[end:]:
            body(Index(start))

    def _sum(
        self,
        image: Buffer,
        filters: Buffer,
        number: Index,
        row: tuple[Index, ...],
        pixel: Index,
        block: Index,
    ) -> list[ir.Value]:
        """The sums of `register_pixels` outputs from `pixel` on, for one vector of channels."""
        shape, decomposition = self.shape, self.shape.decomposition
        first_channel = self.blocks.first(block) // self._group_outputs * self._group_inputs
        column = pixel * decomposition.step[-1] - shape.padding_low[-1]
        filter_stride = self._group_inputs * self.schedule.vector_width

        def sum_rows(
            dimension: int, position: list[Index], taps: Index, sums: list[ir.Value]
        ) -> list[ir.Value]:
            if dimension == len(row):
                origin = image.offset([number, *position, column, first_channel])
                first = filters.offset([block, 0, 0, 0]) + taps * (
                    decomposition.kernel_size[-1] * filter_stride
                )
                return self._sum_taps(image, filters, origin, first, pixel, sums)
            first_tap, count = self._taps_inside(dimension, row[dimension])

            def step(tap: Index, sums: list[ir.Value]) -> list[ir.Value]:
                tap = tap + first_tap
                coordinate = (
                    row[dimension] * decomposition.step[dimension]
                    + tap * decomposition.dilation[dimension]
                    - shape.padding_low[dimension]
                )
                number_of_tap = taps * decomposition.kernel_size[dimension] + tap
                return sum_rows(dimension + 1, [*position, coordinate], number_of_tap, sums)

            return loop_carried(count, 1, sums, step, "tap_row")

        zeros = [splat(0.0, self.schedule.vector_width)] * self.schedule.register_pixels
        return sum_rows(0, [], Index(0), zeros)

    def _sum_taps(
        self,
        image: Buffer,
        filters: Buffer,
        origin: Index,
        filter_origin: Index,
        pixel: Index,
        sums: list[ir.Value],
    ) -> list[ir.Value]:
        """Adds the products with one row of taps, column of the input by column."""
        decomposition, width = self.shape.decomposition, self.schedule.vector_width
        taps = decomposition.kernel_size[-1]
        weights = [
            [
                filters.load(filter_origin + (t * self._group_inputs + c) * width, width)
                for c in range(self._group_inputs)
            ]
            for t in range(taps)
        ]
        uses: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for p in range(self.schedule.register_pixels):
            for t in range(taps):
                uses[p * decomposition.step[-1] + t * decomposition.dilation[-1]].append((p, t))
        sums = list(sums)
        for column in sorted(uses):
            if not self._exists(pixel, column):
                continue
            elements = image.load(origin + column * image.stride(-2), self._input_lanes)
            for c in range(self._group_inputs):
                spread = self._spread(elements, c)
                for p, t in uses[column]:
                    sums[p] = multiply_add(spread, weights[t][c], sums[p], self.target.fused_multiply_add)
        return sums

    def _spread(self, elements: ir.Value, c: int) -> ir.Value:
        """Input channel `c` of each group in the lanes of the group's outputs."""
        if self._group_inputs == self._group_outputs == 1:
            return elements
        lanes = [
            lane // self._group_outputs * self._group_inputs + c for lane in range(self.schedule.vector_width)
        ]
        return vector.shuffle(elements, elements, lanes)

    def _exists(self, pixel: Index, column: int) -> bool:
        """Whether a column of a block that starts at `pixel` exists; all do of a start known at run time."""
        if pixel.known is None:
            return True
        position = pixel.known * self.shape.decomposition.step[-1] - self.shape.padding_low[-1] + column
        return 0 <= position < self.shape.input_size[-1]

    def _store(
        self,
        sums: list[ir.Value],
        output: Buffer,
        number: Index,
        row: tuple[Index, ...],
        pixel: Index,
        block: Index,
        epilogue: Epilogue,
    ) -> None:
        channel = self.blocks.first(block)
        origin = output.offset([number, *row, pixel, channel])
        for p, value in enumerate(sums):
            finished = epilogue(value, number, (*row, pixel + p), channel)
            output.store(finished, origin + p * output.stride(-2))

    def _taps_inside(self, dimension: int, output: Index) -> tuple[Index, Index]:
        """The first tap of an outer dimension that reads the image for an output, and how many do."""
        shape, decomposition = self.shape, self.shape.decomposition
        taps, size = decomposition.kernel_size[dimension], shape.input_size[dimension]
        step, dilation = decomposition.step[dimension], decomposition.dilation[dimension]
        low = shape.padding_low[dimension]
        last_output = shape.output_size[dimension] - 1
        first, end = Index(0), Index(taps)
        if low > 0:
            first = ceildiv((Index(low) - output * step).maximum(0), dilation)
        if last_output * step + (taps - 1) * dilation - low >= size:
            end = ceildiv((Index(size + low) - output * step).maximum(0), dilation).minimum(taps)
        return first, (end - first).maximum(0)

    def _is_inside(self, start: int) -> bool:
        """Whether all that the block of pixels reads exists."""
        decomposition = self.shape.decomposition
        first = start * decomposition.step[-1] - self.shape.padding_low[-1]
        pixels, taps = self.schedule.register_pixels, decomposition.kernel_size[-1]
        last = first + (pixels - 1) * decomposition.step[-1] + (taps - 1) * decomposition.dilation[-1]
        return first >= 0 and last < self.shape.input_size[-1]

    @property
    def _pixel_block_starts(self) -> list[int]:
        """The last block overlaps its neighbour rather than be cut short."""
        pixels, size = self.schedule.register_pixels, self.shape.output_size[-1]
        return [min(start, size - pixels) for start in range(0, size, pixels)]

    @property
    def _group_inputs(self) -> int:
        return self.shape.input_channels // self.shape.groups

    @property
    def _group_outputs(self) -> int:
        return self.shape.output_channels // self.shape.groups

    @property
    def _input_lanes(self) -> int:
        """Input channels of the groups of one vector."""
        return self.schedule.vector_width // self._group_outputs * self._group_inputs

    @property
    def _rows(self) -> int:
        return prod(self.shape.output_size[:-1])

    @property
    def _row_blocks(self) -> int:
        return -(-self._rows // self.schedule.row_block)
