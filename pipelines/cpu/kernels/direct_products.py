"""The sums of a register block of the direct kernel: its implicit matrix product over taps and channels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.cpu.processor.product import Panel, Product, Rows
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.channel_blocks import ChannelBlocks
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule, skips_padding
from iree.winograd.pipelines.emission.block_sums import add_in_blocks, loop_in_blocks
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.index import Index, IndexLike, ceildiv
from iree.winograd.pipelines.problems.cache_line import CACHE_LINE_BYTES
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .direct_input import DirectInput
from .store import RegisterBlockStore


@dataclass(frozen=True)
class PlacedPixels:
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
class DirectProducts:
    """What sums the products of what neighbouring outputs read with the filters of a block of channels.

    What one output needs of one row of taps lies side by side in the input, taps and channels alike, so that
    the innermost loop runs over both where it can. Taps that read only padding are left out as
    `skips_padding` says.
    """

    shape: ConvolutionShape
    schedule: DirectSchedule
    target: CpuTarget
    blocks: ChannelBlocks
    source: DirectInput
    filters: Buffer
    """`DirectKernel.packed_filter_shape`."""
    filters_ahead: int
    """Filters of the next block of channels that are fetched for each channel of a register block."""

    def outer_taps(self, output_row: tuple[Index, ...]) -> tuple[tuple[Index, IndexLike], ...]:
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

    def sum(self, origin: Index, pixels: PlacedPixels, store: RegisterBlockStore) -> list[ir.Value]:
        """The sums of `register_pixels` neighbours for one block of channels, `register_vectors` each.

        The first of them reads the input from `origin` on. What `store` is going to write to is fetched.
        """
        shape, source, filters, product = self.shape, self.source, self.filters, pixels.product
        first = origin + self.blocks.group(pixels.block) * shape.group_inputs
        panel_origin = filters.offset([pixels.block, 0, 0, 0])
        *taps, last_taps = shape.decomposition.kernel_size
        tap_row_channels = last_taps * shape.group_inputs
        ahead = panel_origin + (
            (pixels.register_block * self.filters_ahead + product.channels) * shape.reduction
        )

        def prefetch(number: Index, c: Index) -> None:
            self._prefetch(origin, pixels, store, c)
            for lane in range(0, self.filters_ahead, CACHE_LINE_BYTES // filters.number.bytes):
                filters.prefetch(ahead + ((number + c) * self.filters_ahead + lane), to_l2=True)

        def add_tap_row(tap_row: Index, sums: list[ir.Value]) -> list[ir.Value]:
            tap_offset = source.tap_offset(tap_row)
            rows = Rows(source.buffer, first + tap_offset, source.pixel_stride)
            number = tap_row * tap_row_channels
            panel = Panel(filters, panel_origin + number * product.channels)
            beside = partial(prefetch, number)
            return self._add_tap_row(sums, rows, panel, pixels, beside)

        zeros = product.zeros(shape.element_types.accumulator_type)
        if not self._skips_padding:
            return self._loop(zeros, prod(taps), tap_row_channels, add_tap_row, "tap_row")
        return self._add_needed_rows(zeros, pixels, add_tap_row)

    def _add_needed_rows(
        self,
        sums: list[ir.Value],
        pixels: PlacedPixels,
        add_tap_row: Callable[[Index, list[ir.Value]], list[ir.Value]],
    ) -> list[ir.Value]:
        """Adds the products with the rows of taps that pixels need: a loop for each outer dimension."""
        return self._add_needed_taps(sums, pixels, 0, Index(0), add_tap_row)

    def _add_needed_taps(
        self,
        sums: list[ir.Value],
        pixels: PlacedPixels,
        dimension: int,
        number: Index,
        add_tap_row: Callable[[Index, list[ir.Value]], list[ir.Value]],
    ) -> list[ir.Value]:
        """The same from an outer `dimension` on, of taps that have this number in those before."""
        shape, kernel = self.shape, self.shape.decomposition.kernel_size
        if dimension == len(kernel) - 1:
            return add_tap_row(number, sums)
        (first, count), taps = pixels.outer_taps[dimension], kernel[dimension]

        def add_tap(step: Index, sums: list[ir.Value]) -> list[ir.Value]:
            tap = number * taps + (first + step)
            return self._add_needed_taps(sums, pixels, dimension + 1, tap, add_tap_row)

        terms = prod(kernel[dimension + 1 :]) * shape.group_inputs
        return loop_in_blocks(sums, count, taps, terms, shape.summed_block, add_tap, "tap_row")

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
        panel: Panel,
        pixels: PlacedPixels,
        prefetch: Callable[[Index], None],
    ) -> list[ir.Value]:
        """Adds the products with one row of taps: in one loop where what they read lies side by side."""
        shape, product, tap_stride = self.shape, pixels.product, self.source.last_tap_stride
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

    def _prefetch(self, origin: Index, pixels: PlacedPixels, store: RegisterBlockStore, c: Index) -> None:
        """Fetches, while a channel is added, a part of what comes next: outputs, and later pixels."""
        blocks, source = self.schedule.image_prefetch, self.source
        if blocks is None:
            return
        store.prefetch(pixels.number, pixels.position, self.blocks.first(pixels.block), c)
        if not (source.is_copy or self._skips_padding) and self.shape.decomposition.step[-1] == 1:
            # A channel of these pixels takes as long as an element of each of the later ones.
            ahead = source.buffer.stride(-2) * blocks
            source.buffer.prefetch(origin + (c + ahead) * self.schedule.register_pixels)

    @property
    def _skips_padding(self) -> bool:
        return skips_padding(self.shape, self.schedule.pixel_block)
