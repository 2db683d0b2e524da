"""The schedule of convolutions of groups of eight channels, whose pixels matrix units take from a ring."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS
from iree.winograd.pipelines.gpu.device.memory import OCTET

from .image_ring import ImageRingSchedule, ImageRingTiling

STEP_TAPS = MATRIX_ROWS // OCTET
"""That a step multiplies a group's channels of."""
TILES_TOGETHER = 2
"""That a warp multiplies at once: each product waits for the one before it."""


@dataclass(frozen=True)
class GroupedRingSchedule(ImageRingSchedule):
    """Of the kernel of groups of eight channels on matrix units. A warp has a group, and every so many-th
    tile of 16 outputs of a strip."""

    kind = "gpu-grouped-ring"
    stage = "grouped"
    unit_channels = OCTET

    strip_rows: int = 4


@dataclass(frozen=True)
class GroupedRingTiling(ImageRingTiling):
    """What the products of such a convolution of two dimensions are of: 16 outputs, two taps, a group.

    Columns of images lie by their phases: what neighbouring outputs multiply by a tap are neighbours.
    """

    schedule: GroupedRingSchedule

    @property
    def steps(self) -> int:
        return ceil_div(prod(self.shape.kernel_size), STEP_TAPS)

    @property
    def tap_bytes(self) -> int:
        return prod(self.shape.kernel_size) * self.schedule.channels * self.slot_bytes

    @property
    def outputs(self) -> int:
        """Of a strip of all images."""
        return self.schedule.strip_rows * self.schedule.images * self.result_columns

    @property
    def tiles(self) -> int:
        """Of 16 outputs."""
        return ceil_div(self.outputs, MATRIX_ROWS)

    @property
    def phase_columns(self) -> int:
        """Of each phase of an image in a row of the ring."""
        read = (self.result_columns - 1) * self.stride + self.shape.kernel_size[1]
        return ceil_div(read, self.stride)

    @property
    def image_columns(self) -> int:
        return self.phase_columns * self.stride

    @property
    def result_columns(self) -> int:
        return self.shape.output_size[1]
