"""The direct CPU kernel: output tile 1, an implicit matrix product that reads the input in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.vocabulary import (
    Buffer,
    Condition,
    Index,
    all_of,
    broadcast,
    clear_elements,
    copy_elements,
    loop,
    loop_carried,
    multiply_add,
    scratch,
    splat,
    unflatten,
    when,
)
from iree.winograd.pipelines.specification.shape import ConvolutionShape

from .channel_blocks import ChannelBlocks
from .schedules import ROW_PADDING, DirectSchedule, input_columns
from .store import RegisterBlockStore
from .target import CpuTarget

CACHE_SET_PERIOD = 2048
"""Bytes apart, or a multiple, at which the elements of a register block share one or two sets of L1."""


@dataclass(frozen=True)
class DirectKernel:
    """One direct kernel: a workgroup computes `row_block` rows of `pixel_block` outputs of one image.

    A row is a line of outputs along the last spatial dimension; `register_pixels` neighbours in it are summed
    at once. What one output needs of one row of taps lies side by side in the input, taps and channels alike,
    so that the innermost loop runs over both. Where the convolution pads, the input that a workgroup needs is
    first copied between zeros, a row of the input for each outer tap; else it is read in place, unless its
    pixels lie so that they would share few sets of the cache.
    """

    shape: ConvolutionShape
    schedule: DirectSchedule
    target: CpuTarget

    @property
    def blocks(self) -> ChannelBlocks:
        """Passes over the pixels, one per block of output channels."""
        return ChannelBlocks(self.shape.output_channels, self.shape.groups, self.schedule.channel_block)

    @property
    def packed_filter_shape(self) -> tuple[int, int, int, int]:
        """channel blocks x 1 x (taps, row-major, times a group's channels) x channel_block."""
        return (self.blocks.count, 1, self.shape.reduction, self.schedule.channel_block)

    @property
    def view_order(self) -> list[int]:
        """The order of views along the packed filters' reduction dimension."""
        return self.shape.views_by_tap

    def workgroups(self, batch: Index) -> tuple[Index, Index]:
        """Blocks of outputs of all images, and parts of the output channels."""
        return batch * (self._row_blocks * self._pixel_blocks), Index(self._channel_parts)

    def emit(
        self,
        workgroup: tuple[Index, ...],
        batch: Index,
        image: Buffer,
        filters: Buffer,
        output: Buffer,
        epilogue: VectorEpilogue,
    ) -> None:
        """Emits the work of one workgroup at the insertion point.

        `image` is N x H... x C, `filters` is `packed_filter_shape`, `output` is N x OH... x K.
        """
        schedule = self.schedule
        blocks_per_image = self._row_blocks * self._pixel_blocks
        number = workgroup[0] // blocks_per_image
        first_row = workgroup[0] // self._pixel_blocks % self._row_blocks * schedule.row_block
        rows = Index(schedule.row_block)
        if self.shape.output_rows % schedule.row_block:
            rows = (Index(self.shape.output_rows) - first_row).minimum(rows)
        # The last block of pixels overlaps its neighbour rather than be cut short.
        first_pixel = (workgroup[0] % self._pixel_blocks * schedule.pixel_block).minimum(
            self.shape.output_size[-1] - schedule.pixel_block
        )
        staged = self._stage(image, number, first_row, rows, first_pixel) if self._stages(image) else None
        register_block = (schedule.register_pixels, schedule.register_vectors, schedule.vector_width)
        store = RegisterBlockStore.of(output, epilogue, register_block)
        with loop(self.blocks.steps(workgroup[1], self._channel_parts), name="channel_block") as step:
            block = self.blocks.at(workgroup[1], self._channel_parts, step)
            with loop(rows, name="row") as row:
                position = self._row_position(first_row + row)
                with loop(schedule.pixel_block, schedule.register_pixels, "pixel") as start:
                    pixel = start.minimum(schedule.pixel_block - schedule.register_pixels)
                    if staged is None:
                        source = image
                        origin = self._origin_in_place(image, number, position, first_pixel + pixel)
                        tap_strides = [
                            dilation * image.stride(1 + d)
                            for d, dilation in enumerate(self.shape.decomposition.dilation[:-1])
                        ]
                    else:
                        source = staged
                        step_elements = self.shape.decomposition.step[-1]
                        origin = staged.offset([row, 0, pixel * step_elements, 0])
                        tap_strides = [staged.stride(1)]
                    first = (*position, first_pixel + pixel)

                    def prefetch(c: Index) -> None:
                        self._prefetch_output(output, number, first, block, epilogue, c)
                        if staged is None and self.shape.decomposition.step[-1] == 1:
                            # A channel of these pixels takes as long as an element of each of the next ones.
                            image.prefetch(origin + (c + image.stride(-2)) * schedule.register_pixels)

                    sums = self._sum(source, origin, tap_strides, filters, block, prefetch)
                    channel = self.blocks.first(block)
                    store.emit(sums, schedule.register_vectors, number, first, channel)

    def _sum(
        self,
        source: Buffer,
        origin: Index,
        tap_strides: list[int],
        filters: Buffer,
        block: Index,
        prefetch: Callable[[Index], None],
    ) -> list[ir.Value]:
        """The outputs of `register_pixels` neighbours for one block of channels, `register_vectors` each.

        `prefetch` is called for each channel of a tap: fetched all at once, other data would keep the filters
        waiting.
        """
        shape, schedule = self.shape, self.schedule
        decomposition = shape.decomposition
        group_channels = shape.group_inputs
        origin = origin + self.blocks.group(block) * group_channels
        filter_origin = filters.offset([block, 0, 0, 0])
        width = schedule.vector_width
        pixel_stride = decomposition.step[-1] * source.stride(-2)

        def multiply(first: Index, filter_first: Index, extent: int, sums: list[ir.Value]) -> list[ir.Value]:
            def step(c: Index, sums: list[ir.Value]) -> list[ir.Value]:
                row = filter_first + c * schedule.channel_block
                vectors = [filters.load(row + v * width, width) for v in range(schedule.register_vectors)]
                for v in range(schedule.register_vectors):
                    filters.prefetch(row + (v * width + schedule.filter_prefetch * schedule.channel_block))
                prefetch(c)
                updated = []
                for i in range(schedule.register_pixels):
                    value = broadcast(source.load_scalar(first + c + i * pixel_stride), width)
                    for v, filter_vector in enumerate(vectors):
                        total = sums[i * schedule.register_vectors + v]
                        updated.append(
                            multiply_add(value, filter_vector, total, self.target.fused_multiply_add)
                        )
                return updated

            return loop_carried(extent, 1, sums, step, "c")

        def multiply_row(tap_row: Index, sums: list[ir.Value]) -> list[ir.Value]:
            first = origin + self._tap_offset(tap_row, tap_strides)
            taps = decomposition.kernel_size[-1]
            filter_first = filter_origin + tap_row * (taps * group_channels * schedule.channel_block)
            contiguous = source.stride(-2) == shape.input_channels
            if taps == 1 or (decomposition.dilation[-1] == 1 and shape.groups == 1 and contiguous):
                return multiply(first, filter_first, taps * group_channels, sums)

            def multiply_tap(tap: Index, sums: list[ir.Value]) -> list[ir.Value]:
                return multiply(
                    first + tap * (decomposition.dilation[-1] * source.stride(-2)),
                    filter_first + tap * (group_channels * schedule.channel_block),
                    group_channels,
                    sums,
                )

            return loop_carried(taps, 1, sums, multiply_tap, "tap")

        zeros = [splat(0.0, width)] * (schedule.register_pixels * schedule.register_vectors)
        return loop_carried(self._outer_taps, 1, zeros, multiply_row, "tap_row")

    def _prefetch_output(
        self,
        output: Buffer,
        number: Index,
        position: tuple[Index, ...],
        block: Index,
        epilogue: VectorEpilogue,
        vector: Index,
    ) -> None:
        """Fetches what is overwritten with one vector, and what the epilogue reads for it."""
        vectors = self.schedule.register_vectors
        vector = vector.minimum(self.schedule.register_pixels * vectors - 1)
        pixel = (*position[:-1], position[-1] + vector // vectors)
        channel = self.blocks.first(block) + vector % vectors * self.schedule.vector_width
        output.prefetch(output.offset([number, *pixel, channel]), to_write=True)
        epilogue.prefetch(number, pixel, channel)

    def _stage(
        self, image: Buffer, number: Index, first_row: Index, rows: Index, first_pixel: Index
    ) -> Buffer:
        """The input of the workgroup's outputs between zeros: a row per row of outputs and outer tap."""
        shape, decomposition, width = self.shape, self.shape.decomposition, self.target.vector_width
        channels = shape.input_channels
        columns = input_columns(shape, self.schedule.pixel_block)
        # Only where all taps of a row lie in one column may columns lie apart.
        padding = ROW_PADDING if decomposition.kernel_size[-1] == 1 else 0
        staged = scratch(
            (self.schedule.row_block, self._outer_taps, columns, channels + padding), "staged_rows"
        )
        first_column = first_pixel * decomposition.step[-1] - shape.padding_low[-1]
        begin = (Index(0) - first_column).maximum(0).minimum(columns)
        end = (Index(shape.input_size[-1]) - first_column).minimum(columns).maximum(begin)
        with loop(rows, name="row") as row, loop(self._outer_taps, name="tap") as tap:
            outputs = self._row_position(first_row + row)
            position, exists = self._input_row(outputs, tap)
            target = staged.offset([row, tap, 0, 0])

            def copy() -> None:
                source = image.offset([number, *position, first_column + begin, 0])
                stride, source_stride = staged.stride(2), image.stride(-2)
                clear_elements(staged, target, begin * stride, width)
                if stride == source_stride == channels:
                    rest = (end - begin) * channels
                    copy_elements(image, source, staged, target + begin * channels, rest, width)
                else:
                    with loop(end - begin, name="column") as column:
                        copied = target + (begin + column) * stride
                        copy_elements(
                            image, source + column * source_stride, staged, copied, Index(channels), width
                        )
                clear_elements(staged, target + end * stride, (Index(columns) - end) * stride, width)

            when(exists, copy, lambda: clear_elements(staged, target, Index(staged.stride(1)), width))
        return staged

    def _input_row(self, outputs: tuple[Index, ...], tap: Index) -> tuple[list[Index], Condition]:
        """The outer input coordinates of an outer tap of a row of outputs, and whether they exist."""
        decomposition = self.shape.decomposition
        position, conditions = [], []
        for d, tap_index in enumerate(self._tap_position(tap)):
            coordinate = (
                outputs[d] * decomposition.step[d]
                + tap_index * decomposition.dilation[d]
                - self.shape.padding_low[d]
            )
            position.append(coordinate)
            conditions += [coordinate.at_least(0), coordinate.less_than(self.shape.input_size[d])]
        return position, all_of(conditions)

    def _origin_in_place(self, image: Buffer, number: Index, row: tuple[Index, ...], pixel: Index) -> Index:
        steps = self.shape.decomposition.step
        coordinates = [output * step for output, step in zip((*row, pixel), steps, strict=True)]
        return image.offset([number, *coordinates, 0])

    def _row_position(self, row: Index) -> tuple[Index, ...]:
        """The outer spatial coordinates of a row of outputs."""
        return unflatten(row, self.shape.output_size[:-1])

    def _tap_position(self, tap_row: Index) -> tuple[Index, ...]:
        return unflatten(tap_row, self.shape.decomposition.kernel_size[:-1])

    def _tap_offset(self, tap_row: Index, tap_strides: list[int]) -> Index:
        if len(tap_strides) == 1:
            return tap_row * tap_strides[0]
        offset = Index(0)
        for coordinate, stride in zip(self._tap_position(tap_row), tap_strides, strict=True):
            offset = offset + coordinate * stride
        return offset

    def _stages(self, image: Buffer) -> bool:
        distance = self.shape.element_types.input_bytes * self.shape.strides[-1] * image.stride(-2)
        in_few_sets = distance % CACHE_SET_PERIOD == 0 and self.shape.decomposition.kernel_size[-1] == 1
        return self.shape.pads or (in_few_sets and self._channel_parts == 1)

    @property
    def _channel_parts(self) -> int:
        return min(self.schedule.channel_splits, self.blocks.count)

    @property
    def _row_blocks(self) -> int:
        return -(-self.shape.output_rows // self.schedule.row_block)

    @property
    def _pixel_blocks(self) -> int:
        return -(-self.shape.output_size[-1] // self.schedule.pixel_block)

    @property
    def _outer_taps(self) -> int:
        return prod(self.shape.decomposition.kernel_size[:-1])
