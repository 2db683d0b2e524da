"""The products of a row of outputs with a block of taps of a depthwise weight gradient, in registers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import product

from iree.winograd.dialect.bindings import arith, ir
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.control_flow import loop_carried, named
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.vectors import multiply_add

from .depthwise_weight_gradient_blocking import DepthwiseWeightGradientBlocking, TapBlock
from .depthwise_weight_gradient_prefetch import PrefetchStream
from .group_lanes import input_lanes, spread_to_outputs


@dataclass(frozen=True)
class OutputRow:
    """A row of outputs of one vector of channels and what a block of taps reads for it."""

    image: Buffer
    """From the element that the first tap reads for the first output, also where there is none."""
    gradients: Buffer
    """From the first output."""
    next_block: tuple[PrefetchStream, ...]
    """What to fetch meanwhile."""


@dataclass(frozen=True)
class DepthwiseWeightGradientProducts:
    """What adds the products of a row of outputs with a block of taps to the sums of these.

    Sums are numbered by rows of taps, taps, input channels of a group, and `interleaved_sums`.
    """

    blocking: DepthwiseWeightGradientBlocking

    def add(self, row: OutputRow, taps: TapBlock, sums: list[ir.Value]) -> list[ir.Value]:
        """Adds those of `row` with `taps` to `sums`, and fetches what is next meanwhile."""
        if not self.blocking.is_unrolled:
            return self._add_row_by_tap(row, taps.first_column, sums)
        if self.blocking.has_unknown_rows:
            return self._add_row_of_unknown(row, taps, sums)
        pixels = self.blocking.schedule.register_pixels
        starts = self.blocking.pixel_blocks
        inside = [
            number for number, (start, count) in enumerate(starts) if self.blocking.is_inside(start, count)
        ]
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

    def _add_row_of_unknown(self, row: OutputRow, taps: TapBlock, sums: list[ir.Value]) -> list[ir.Value]:
        """The same of a row of a length known only at run time: what reads inside of the image in blocks."""
        columns, pixels = self.blocking.dimensions[-1], self.blocking.schedule.register_pixels
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
        self, row: OutputRow, taps: TapBlock, first: Index, end: Index, sums: list[ir.Value]
    ) -> list[ir.Value]:
        """Adds the products of outputs with those taps of whole rows that read the image, one by one."""
        (rows, columns), inputs = self.blocking.dimensions[-2:], self.blocking.shape.group_inputs
        width, interleaved = self.blocking.schedule.vector_width, self.blocking.schedule.interleaved_sums

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
        self, row: OutputRow, taps: TapBlock, block: Index, count: int, sums: list[ir.Value]
    ) -> list[ir.Value]:
        """Adds the products of a block of pixels, and fetches what the next block of rows has for it."""
        pixel = block * self.blocking.schedule.register_pixels
        with named("next_block"):
            for stream in row.next_block:
                stream.prefetch(block)
        return self._add_pixels(row, taps, pixel, count, sums)

    def _add_pixels(
        self, row: OutputRow, taps: TapBlock, pixel: Index, count: int, sums: list[ir.Value]
    ) -> list[ir.Value]:
        """Adds the products of `count` outputs of a row with whole rows of taps.

        Of outputs that are known while the kernel is built only those with elements of the image.
        """
        (rows, columns), inputs = self.blocking.dimensions[-2:], self.blocking.shape.group_inputs
        uses: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for p, tap in product(range(count), range(taps.columns)):
            column = p * columns.step + tap * columns.dilation
            known = pixel.known
            if known is None or columns.reads_inside(known * columns.step + column):
                uses[column].append((p, tap))
        width, interleaved = self.blocking.schedule.vector_width, self.blocking.schedule.interleaved_sums
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

    def _add_row_by_tap(self, row: OutputRow, tap: Index, sums: list[ir.Value]) -> list[ir.Value]:
        """Adds the products of a row of outputs with one tap."""
        columns, shape = self.blocking.dimensions[-1], self.blocking.shape
        width, interleaved = self.blocking.schedule.vector_width, self.blocking.schedule.interleaved_sums
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

    def _multiply_add(self, a: ir.Value, b: ir.Value, addend: ir.Value) -> ir.Value:
        return multiply_add(a, b, addend, self.blocking.target.fused_multiply_add)

    def _spread(self, elements: ir.Value, c: int) -> ir.Value:
        return spread_to_outputs(elements, c, self.blocking.shape, self.blocking.schedule.vector_width)

    @property
    def _input_lanes(self) -> int:
        return input_lanes(self.blocking.shape, self.blocking.schedule.vector_width)
