"""Schedules of direct convolutions whose workgroups have a ring of an image's rows in shared memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.emission.numbers.number import Number
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_FACTORS, WARP_THREADS
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .columns import ThreadOutputsSchedule
from .matrix import HALF_BYTES, HALF_TYPES


@dataclass(frozen=True)
class ImageRingSchedule(ThreadOutputsSchedule, ABC):
    """How a workgroup multiplies so many neighbouring `units` of channels of so many `images`, by `rows`.

    It goes down `rows` of outputs of all columns, a strip of `strip_rows` of them at a time. Both operands
    are of the `multiplied_type`, f16 or bf16, on matrix units.

    Raises ValueError for threads that aren't whole warps of each unit, for rows that aren't whole strips, and
    for other types.
    """

    unit_channels: ClassVar[int]

    units: int = 4
    images: int = 1
    rows: int = 4
    resident: int = 512
    """Threads for which a multiprocessor should have registers."""
    spare_strips: int = 1
    """That the ring has beside those that are read: they are on their way meanwhile."""
    multiplied_type: str = field(default=MATRIX_FACTORS.name, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.threads % (self.units * WARP_THREADS):
            raise ValueError(f"threads {self.threads} must be whole warps of {self.units} units")
        if self.rows % self.strip_rows:
            raise ValueError(f"rows {self.rows} must be whole strips of {self.strip_rows}")
        if self.multiplied_type not in HALF_TYPES:
            raise ValueError(f"matrix units don't multiply {self.multiplied_type}")

    @property
    @abstractmethod
    def strip_rows(self) -> int:
        """Of outputs, that it computes before it goes on to those below."""

    @property
    def resident_threads(self) -> int:
        return self.resident

    @property
    def matrix_products(self) -> int:
        return 1

    @property
    def factors(self) -> Number:
        """What is multiplied."""
        return HALF_TYPES[self.multiplied_type]

    @property
    def channels(self) -> int:
        return self.units * self.unit_channels

    @property
    def warps(self) -> int:
        return self.threads // WARP_THREADS

    @property
    def unit_warps(self) -> int:
        """Those of a unit."""
        return self.warps // self.units


@dataclass(frozen=True)
class ImageRingTiling(ABC):
    """Where rows of images, and the results of a strip, lie in shared memory.

    A pixel has a slot for each unit of channels, and one more where that makes their number odd: threads read
    eight neighbours at once, without bank conflicts.
    """

    shape: ConvolutionShape
    schedule: ImageRingSchedule

    @property
    @abstractmethod
    def image_columns(self) -> int:
        """Of one image in a row of the ring, padding included."""

    @property
    @abstractmethod
    def result_columns(self) -> int:
        """Of one image in a strip of results."""

    @property
    def stride(self) -> int:
        return self.shape.decomposition.step[0]

    @property
    def groups(self) -> int:
        """Of units, that workgroups have."""
        return self.shape.output_channels // self.schedule.channels

    @property
    def sections(self) -> int:
        """Of an image's rows, that workgroups have."""
        return ceil_div(self.shape.output_size[0], self.schedule.rows)

    @property
    def strip_step(self) -> int:
        """Of the image, from those of a strip of outputs to those of the next one."""
        return self.schedule.strip_rows * self.stride

    def rows_read(self, rows: int) -> int:
        """Of the image, by so many rows of outputs."""
        return (rows - 1) * self.stride + self.shape.kernel_size[0]

    @property
    def strips_read(self) -> int:
        """Of the image, by a strip of outputs."""
        return ceil_div(self.rows_read(self.schedule.strip_rows), self.strip_step)

    @property
    def section_strips(self) -> int:
        """Of outputs, that a workgroup computes one after the other."""
        return ceil_div(min(self.schedule.rows, self.shape.output_size[0]), self.schedule.strip_rows)

    @property
    def strip_reads(self) -> int:
        """Rows of the image that are read of a strip of outputs, some behind what its taps reach included."""
        return self.rows_read(self.schedule.strip_rows)

    @property
    def section_rows(self) -> int:
        """Of the image, that a workgroup reads."""
        return (self.section_strips - 1) * self.strip_step + self.strip_reads

    @property
    def holds_section(self) -> bool:
        """Whether the ring has room for all that a workgroup reads: no row takes the place of another."""
        rows = (self.strips_read + self.schedule.spare_strips) * self.strip_step
        return self.section_rows <= rows

    @property
    def first_strips(self) -> int:
        """Of the image, that are on their way before a strip of outputs is computed."""
        if self.holds_section:
            return ceil_div(self.section_rows, self.strip_step)
        return self.strips_read + self.schedule.spare_strips - 1

    @property
    def ring_rows(self) -> int:
        if self.holds_section:
            return self.section_rows
        return (self.strips_read + self.schedule.spare_strips) * self.strip_step

    @property
    def slots(self) -> int:
        return self.schedule.units | 1

    @property
    def slot_bytes(self) -> int:
        return self.schedule.unit_channels * HALF_BYTES

    @property
    def loaded_columns(self) -> int:
        """Of those of an image in a row the ones that are the image's."""
        return min(self.shape.input_size[1], self.image_columns - self.shape.padding_low[1])

    @property
    def row_columns(self) -> int:
        """Of all images."""
        return self.schedule.images * self.image_columns

    @property
    def row_bytes(self) -> int:
        return self.row_columns * self.slots * self.slot_bytes

    @property
    def ring_bytes(self) -> int:
        return self.ring_rows * self.row_bytes

    @property
    def result_pitch(self) -> int:
        """Columns of results from one row of a strip to the next one."""
        return self.schedule.images * self.result_columns

    def strip_bytes(self, result_bytes: int) -> int:
        """Of a strip of results of so many bytes each."""
        pixels = self.schedule.strip_rows * self.result_pitch
        return pixels * self.slots * self.schedule.unit_channels * result_bytes

    @property
    def tap_bytes(self) -> int:
        """Of taps that threads read before there are results, in whose memory they lie."""
        return 0

    def bytes(self, result_bytes: int) -> int:
        """Of a workgroup's shared memory: a strip of results is stored while the next one is computed."""
        results = min(2, self.section_strips) * self.strip_bytes(result_bytes)
        return self.ring_bytes + max(self.tap_bytes, results)
