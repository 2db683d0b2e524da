"""How the CPU kernel of a depthwise weight gradient divides outputs, channels and taps into blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.channel_blocks import ChannelBlocks
from iree.winograd.pipelines.cpu.schedules.depthwise_weight_gradient import DepthwiseWeightGradientSchedule
from iree.winograd.pipelines.emission.index import Index, ceildiv
from iree.winograd.pipelines.emission.sized_shape import product as product_of_sizes
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.problems.shape import WeightGradientShape

from .spatial_dimension import SpatialDimension, image_dimensions

MAX_UNROLLED = 1024
"""Multiply-adds that a row of taps is written out to, over the code of all blocks of pixels."""
MIN_REGISTER_PIXELS = 2
"""Outputs whose gradients wait in registers for what a row of taps reads."""


@dataclass(frozen=True)
class RowBlock:
    """Neighbouring rows of outputs of one image, by one vector of channels."""

    position: tuple[Index, ...]
    """The image, and the position along the dimensions outside of rows."""
    first_row: Index
    end_row: Index
    vector: Index


@dataclass(frozen=True)
class TapBlock:
    """Neighbouring rows of taps, and neighbouring ones of these."""

    first_row: Index
    rows: int
    first_column: Index
    columns: int


@dataclass(frozen=True)
class DepthwiseWeightGradientBlocking:
    """Blocks of rows of outputs and vectors of channels; in these blocks of pixels and of rows of taps."""

    shape: WeightGradientShape
    schedule: DepthwiseWeightGradientSchedule
    target: CpuTarget
    sizes: Sizes | None = None
    """Those that code is emitted for; None where what is expected of them is all that is asked."""

    @cached_property
    def dimensions(self) -> list[SpatialDimension]:
        """The spatial ones, two or more."""
        return image_dimensions(self.shape, self.sizes)

    @property
    def channel_blocks(self) -> ChannelBlocks:
        """The vectors of output channels."""
        return ChannelBlocks(self.shape.output_channels, 1, self.schedule.vector_width)

    @property
    def channel_parts(self) -> int:
        """Workgroups that the vectors of channels are divided among."""
        return min(self.schedule.channel_splits, self.channel_blocks.count)

    @property
    def row_block(self) -> Index:
        """Rows of a block: one at least, however long."""
        return (Index(self.schedule.pixel_block) // self.dimensions[-1].outputs.maximum(1)).maximum(1)

    @property
    def row_blocks(self) -> Index:
        """Those that cover the rows at one position of the dimensions outside of rows."""
        return ceildiv(self.dimensions[-2].outputs, self.row_block)

    @property
    def outer_outputs(self) -> tuple[Index, ...]:
        """Outputs along the dimensions outside of rows."""
        return tuple(each.outputs for each in self.dimensions[:-2])

    @property
    def blocks_per_image(self) -> Index:
        """Blocks of rows."""
        return product_of_sizes(self.outer_outputs) * self.row_blocks

    @property
    def expected_blocks_per_image(self) -> int:
        """The same of an image of the expected size."""
        known = replace(self, sizes=None).blocks_per_image.known
        assert known is not None
        return known

    @property
    def pixel_blocks(self) -> list[tuple[int, int]]:
        """The first output of each block of a row, and how many it has: the last one may have fewer."""
        pixels, outputs = self.schedule.register_pixels, self.dimensions[-1].outputs.known
        assert outputs is not None
        return [(start, min(pixels, outputs - start)) for start in range(0, outputs, pixels)]

    def is_inside(self, start: int, count: int) -> bool:
        """Whether a block of pixels is a whole one, all of whose outputs read elements that exist."""
        columns = self.dimensions[-1]
        first = start * columns.step
        last = (start + count - 1) * columns.step + (columns.taps - 1) * columns.dilation
        inside = columns.reads_inside(first) and columns.reads_inside(last)
        return count == self.schedule.register_pixels and inside

    @property
    def has_unknown_rows(self) -> bool:
        """Whether the length of rows is known only at run time."""
        return self.shape.spatial_rank - 1 in self.shape.unknown_sizes

    @property
    def is_unrolled(self) -> bool:
        """Whether rows of taps are short enough to be written out, and registers hold their sums."""
        if self.has_unknown_rows:
            # On both borders, and between the last block and one of them.
            codes = [1, 1, 1]
        else:
            codes = [count for start, count in self.pixel_blocks if not self.is_inside(start, count)]
        products = self._products_of_pixel
        registers = products * self.schedule.interleaved_sums + MIN_REGISTER_PIXELS + 1
        written_out = (sum(codes) + self.schedule.register_pixels) * products
        return registers <= self.target.vector_registers and written_out <= MAX_UNROLLED

    @property
    def rows_together(self) -> int:
        """Rows of taps whose sums are in registers."""
        return self.schedule.register_tap_rows if self.is_unrolled else 1

    @property
    def sums_of_tap(self) -> int:
        """Vectors of sums of a tap in registers."""
        return self.shape.group_inputs * self.schedule.interleaved_sums

    @property
    def loads_per_product(self) -> float:
        """Vectors that are loaded for each multiply-add."""
        columns, inputs = self.dimensions[-1], self.shape.group_inputs
        if not self.is_unrolled:
            return 1 + 1 / inputs
        pixels, rows = self.schedule.register_pixels, self.schedule.register_tap_rows
        pairs = product(range(pixels), range(columns.taps))
        read = {p * columns.step + tap * columns.dilation for p, tap in pairs}
        return (pixels + rows * len(read)) / (pixels * self._products_of_pixel)

    @property
    def _products_of_pixel(self) -> int:
        """Vectors of products of an output with a block of rows of taps."""
        return self.schedule.register_tap_rows * self.shape.kernel_size[-1] * self.shape.group_inputs
