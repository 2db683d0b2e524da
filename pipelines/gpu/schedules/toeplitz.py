"""The schedule of depthwise convolutions on matrix units, by Toeplitz matrices of taps."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_COLUMNS, MATRIX_ROWS
from iree.winograd.pipelines.gpu.device.memory import QUAD

from .image_ring import ImageRingSchedule, ImageRingTiling

READ_COLUMNS, STEP_ROWS = MATRIX_ROWS // 2, 2
"""Of the image, that a step of a block reads."""
STRIP_ROWS = 4
"""Of outputs, as blocks have."""
MAX_TAP_ROWS, MAX_TAP_COLUMNS = 9, READ_COLUMNS - 1
"""Of which the ring has the rows, and two neighbouring outputs of a row read eight positions of it."""
MOST_LOADED_STEPS = 2
"""Of taps, which each warp loads by itself."""
FEW_COLUMNS = READ_COLUMNS - 3
"""Of taps, of which four neighbouring outputs read as many."""


@dataclass(frozen=True)
class DepthwiseToeplitzSchedule(ImageRingSchedule):
    """Of the depthwise kernel on matrix units. A warp has a quad of channels, and 16 blocks of a strip."""

    kind = "gpu-depthwise-toeplitz"
    stage = "depthwise"
    unit_channels = QUAD

    @property
    def strip_rows(self) -> int:
        return STRIP_ROWS


@dataclass(frozen=True)
class ToeplitzTiling(ImageRingTiling):
    """What the products of a depthwise convolution of two dimensions are of.

    A product's rows are 16 blocks of outputs, its columns two rows of four outputs of each, or four rows of
    two, and its reduction 16 positions of the image, eight of each of two rows. Taps are a matrix of
    positions by outputs, with zeros beside them. `steps` of these are summed.
    """

    schedule: DepthwiseToeplitzSchedule

    @property
    def block_columns(self) -> int:
        """Of outputs."""
        return 4 if self.shape.kernel_size[1] <= FEW_COLUMNS else 2

    @property
    def product_rows(self) -> int:
        """Of outputs."""
        return MATRIX_COLUMNS // self.block_columns

    @property
    def products_below(self) -> int:
        """Of a block, which has the rows of a strip: they share what is loaded of the image."""
        return STRIP_ROWS // self.product_rows

    @property
    def steps_below(self) -> int:
        """From those of a product to those of the one below it."""
        return self.product_rows // STEP_ROWS

    @property
    def steps(self) -> int:
        """Of a product."""
        return ceil_div(self.rows_read(self.product_rows), STEP_ROWS)

    @property
    def block_steps(self) -> int:
        """Of all products of a block."""
        return self.steps + (self.products_below - 1) * self.steps_below

    @property
    def strip_reads(self) -> int:
        return self.block_steps * STEP_ROWS

    @property
    def kept_steps(self) -> int:
        """Of a block, the last ones, which are the first ones of the block below: threads keep what they
        loaded."""
        return max(0, self.block_steps - self.strip_step // STEP_ROWS)

    @property
    def blocks_across(self) -> int:
        """Of a strip of an image."""
        return ceil_div(self.shape.output_size[1], self.block_columns)

    @property
    def blocks(self) -> int:
        """Of a strip of all images."""
        return self.schedule.images * self.blocks_across

    @property
    def tiles(self) -> int:
        """Of 16 blocks: the warps of a quad."""
        return ceil_div(self.blocks, MATRIX_ROWS)

    @property
    def image_columns(self) -> int:
        return (self.blocks_across - 1) * self.block_columns + READ_COLUMNS

    @property
    def result_columns(self) -> int:
        return self.blocks_across * self.block_columns

    @property
    def tap_extents(self) -> tuple[int, int]:
        """Rows and columns of taps and of the zeros beside them, of which the matrices are made.

        The first output of a product reads the position that it has no tap for as far from the first one as
        the last output is from it.
        """
        rows = self.product_rows - 1 + self.steps * STEP_ROWS
        return rows, self.block_columns - 1 + READ_COLUMNS

    @property
    def gathers_taps(self) -> bool:
        """Whether a workgroup brings taps to shared memory first, as warps would load many of them.

        112 x 112 x 16 and 3 x 3 taps took an H200 7.74 us so, 7.65 where each warp loads its own.
        """
        return self.steps > MOST_LOADED_STEPS

    @property
    def tap_bytes(self) -> int:
        return prod(self.tap_extents) * self.slots * self.slot_bytes if self.gathers_taps else 0

    @property
    def result_pitch(self) -> int:
        """Odd, so that threads of the rows of a block write to other banks."""
        return super().result_pitch | 1
