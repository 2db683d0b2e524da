"""The products of a row of taps with what a block of outputs reads, for one vector of channels."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import product

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu.schedules.depthwise import DepthwiseSchedule
from iree.winograd.pipelines.emission.block_sums import loop_in_blocks
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import named
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.vectors import broadcast, multiply_add
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .group_lanes import input_lanes, spread_to_outputs
from .pixel_blocks import PixelBlock, PixelBlocks

MAX_UNROLLED = 2048
"""Multiply-adds that rows of taps are written out to, over the code of all blocks of pixels."""


@dataclass(frozen=True)
class TapRow:
    """A row of taps and what it is multiplied with."""

    image: Buffer
    filters: Buffer
    origin: Index
    """Of the image's element of the first tap and output, also where there is none."""
    filter_origin: Index
    """Of the filter of the first tap."""


@dataclass(frozen=True)
class DepthwiseProducts:
    """What adds the products of a row of taps to the sums of a block of outputs."""

    shape: ConvolutionShape
    schedule: DepthwiseSchedule
    fused_multiply_add: bool

    @property
    def blocks(self) -> PixelBlocks:
        return PixelBlocks(self.shape, self.schedule.register_pixels)

    @property
    def is_unrolled(self) -> bool:
        """Whether rows of taps are short enough to be written out, as those that share pixels are."""
        if self.shape.groups == 1:
            return True
        row = (
            self.schedule.register_pixels * self.shape.decomposition.kernel_size[-1] * self.shape.group_inputs
        )
        return row * self.blocks.codes <= MAX_UNROLLED

    def add(self, row: TapRow, pixels: PixelBlock, sums: list[ir.Value]) -> list[ir.Value]:
        """Adds the products with one row of taps."""
        if self.shape.groups == 1:
            return self._add_by_channel(row, pixels, sums)
        return (
            self._add_unrolled(row, pixels, sums) if self.is_unrolled else self._add_by_tap(row, pixels, sums)
        )

    def _add_unrolled(self, row: TapRow, pixels: PixelBlock, sums: list[ir.Value]) -> list[ir.Value]:
        """Column of the input by column."""
        weights = [self._weights(row, Index(tap)) for tap in range(self.shape.decomposition.kernel_size[-1])]
        sums = list(sums)
        fused = self.fused_multiply_add
        for column, exists, uses in self._columns(pixels):
            with named("elements"):
                elements = row.image.load(
                    row.origin + column * row.image.stride(-2), self._input_lanes, exists
                )
            for c in range(self.shape.group_inputs):
                spread = self._spread(elements, c)
                with named("sum"):
                    for p, tap in uses:
                        sums[p] = multiply_add(spread, weights[tap][c], sums[p], fused)
        return sums

    def _add_by_channel(self, row: TapRow, pixels: PixelBlock, sums: list[ir.Value]) -> list[ir.Value]:
        """As `_add_unrolled`, in a loop over the input channels, each of which all lanes share."""
        width, fused = self.schedule.vector_width, self.fused_multiply_add
        columns, image = self._columns(pixels), row.image
        is_first = self.shape.input_channels_first
        channel_stride, column_stride = (image.stride(1), 1) if is_first else (1, image.stride(-2))

        def add(c: Index, sums: list[ir.Value]) -> list[ir.Value]:
            with named("filter"):
                weights = [
                    row.filters.load(row.filter_origin + (c + tap * self.shape.group_inputs) * width, width)
                    for tap in range(self.shape.decomposition.kernel_size[-1])
                ]
            sums = list(sums)
            for column, exists, uses in columns:
                with named("element"):
                    place = row.origin + c * channel_stride + column * column_stride
                    element = broadcast(image.load_scalar(place, exists), width)
                with named("sum"):
                    for p, tap in uses:
                        sums[p] = multiply_add(element, weights[tap], sums[p], fused)
            return sums

        channels, taps = self.shape.group_inputs, self.shape.decomposition.kernel_size[-1]
        return loop_in_blocks(sums, channels, channels, taps, self.shape.summed_block, add, "channel")

    def _columns(self, pixels: PixelBlock) -> list[tuple[Index, Condition, list[tuple[int, int]]]]:
        """The columns that a row of taps reads, whether they exist, and the outputs and taps that read each.

        Columns count from that of the first tap of the block's first output, which is output 0. Those that
        are known not to exist aren't among them.
        """
        decomposition = self.shape.decomposition
        uses: dict[int, list[tuple[int, int]]] = defaultdict(list)
        taps = range(decomposition.kernel_size[-1])
        for p, tap in product(range(self.schedule.register_pixels), taps):
            uses[p * decomposition.step[-1] + tap * decomposition.dilation[-1]].append((p, tap))
        columns = ((*self.blocks.column(pixels, Index(column)), uses[column]) for column in sorted(uses))
        return [each for each in columns if each[1].known is not False]

    def _add_by_tap(self, row: TapRow, pixels: PixelBlock, sums: list[ir.Value]) -> list[ir.Value]:
        """As `_add_unrolled`, in a loop over the taps."""
        decomposition = self.shape.decomposition

        def add(tap: Index, sums: list[ir.Value]) -> list[ir.Value]:
            weights = self._weights(row, tap)
            sums = list(sums)
            for p in range(self.schedule.register_pixels):
                column = tap * decomposition.dilation[-1] + p * decomposition.step[-1]
                column, exists = self.blocks.column(pixels, column)
                elements = row.image.load(
                    row.origin + column * row.image.stride(-2), self._input_lanes, exists
                )
                for c, weight in enumerate(weights):
                    sums[p] = multiply_add(
                        self._spread(elements, c), weight, sums[p], self.fused_multiply_add
                    )
            return sums

        taps, channels = decomposition.kernel_size[-1], self.shape.group_inputs
        return loop_in_blocks(sums, taps, taps, channels, self.shape.summed_block, add, "tap")

    def _weights(self, row: TapRow, tap: Index) -> list[ir.Value]:
        """The filters of a tap, for each input channel of a group."""
        width = self.schedule.vector_width
        first = row.filter_origin + tap * (self.shape.group_inputs * width)
        with named("filter"):
            return [row.filters.load(first + c * width, width) for c in range(self.shape.group_inputs)]

    def _spread(self, elements: ir.Value, c: int) -> ir.Value:
        return spread_to_outputs(elements, c, self.shape, self.schedule.vector_width)

    @property
    def _input_lanes(self) -> int:
        return input_lanes(self.shape, self.schedule.vector_width)
