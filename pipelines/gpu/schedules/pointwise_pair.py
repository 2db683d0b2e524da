"""The schedule of two pointwise layers in a row by one kernel: what is between them stays in registers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.no_match import Reason
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.gpu.device.matrix_unit import MMA
from iree.winograd.pipelines.gpu.device.memory import OCTET, PAIR, QUAD
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.device.warpgroup import (
    BARRIER_BYTES,
    WARPGROUP_ROWS,
    WARPGROUP_THREADS,
)
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .matrix import HALF_TYPES, ROUNDED_PRODUCTS, SPLIT_PRODUCTS, STAGE_ROW_BYTES
from .warpgroup import (
    COLUMNS,
    COPYING_REGISTERS,
    MULTIPLYING_REGISTERS,
    STAGE_BARRIERS,
    WarpgroupSchedule,
)

MOST_OUTPUTS = 256
"""Columns of one instruction, which multiplies by all filters of the second layer."""
_FEWEST_SPARE_REGISTERS = 32
"""A thread's, beside sums of both layers: of GELU some intermediate numbers."""
MOST_SPLIT_CHANNELS = 128
"""Of f32, whose large products matrix units sum by themselves in the first layer."""
_ALIGNMENT = 1024
"""Bytes that places of swizzled rows are a multiple of."""


@dataclass(frozen=True)
class PointwisePairSchedule:
    """On NVIDIA's matrix units of sm_90a: a warpgroup has 64 pixels at a time.

    It holds these in shared memory, and goes over the channels between the layers by chunks: as many as a row
    of an operand has. Filters of so many `stages`, of a chunk each, come to shared memory meanwhile. At most
    `walking_workgroups` walk over all pixels.

    Raises ValueError for other than two or three warpgroups, and for less than two stages.
    """

    warpgroups: int
    stages: int
    walking_workgroups: int
    multiplied_type: str | None
    """As that of `MatrixSchedule`: None for f32, whose numbers are split."""

    def __post_init__(self) -> None:
        if self.warpgroups not in MULTIPLYING_REGISTERS or self.stages < 2:
            raise ValueError(f"no kernel of two pointwise layers is as {self} has it")

    @property
    def pixels(self) -> int:
        """Of a workgroup."""
        return self.warpgroups * WARPGROUP_ROWS

    @property
    def threads(self) -> int:
        """Of a workgroup: those of another warpgroup give registers to those that multiply; one copies."""
        return (self.warpgroups + 1) * WARPGROUP_THREADS

    @property
    def registers(self) -> int:
        """Of a thread that multiplies."""
        return MULTIPLYING_REGISTERS[self.warpgroups]

    @property
    def copying_registers(self) -> int:
        return COPYING_REGISTERS[self.warpgroups]

    @property
    def parts(self) -> int:
        """Numbers of half precision that stand for one."""
        return 2 if self.multiplied_type is None else 1

    @property
    def chunk(self) -> int:
        """Channels between the layers that a warpgroup has at a time."""
        return MMA.stage_row // self.parts

    @property
    def widening(self) -> WarpgroupSchedule:
        """How the first layer is multiplied: a chunk of its outputs."""
        return self._product(self.chunk, MOST_SPLIT_CHANNELS)

    def narrowing(self, outputs: int) -> WarpgroupSchedule:
        """How the second layer is, of so many outputs: all of them."""
        return self._product(_columns(outputs), self.chunk, OCTET)

    def _product(self, columns: int, block: int, store_width: int | None = None) -> WarpgroupSchedule:
        has_steps = columns % (QUAD * OCTET) == 0
        return WarpgroupSchedule(
            self.pixels,
            columns,
            products=ROUNDED_PRODUCTS if self.parts == 1 else SPLIT_PRODUCTS,
            summed_block=None if self.parts == 1 else block,
            multiplied_type=self.multiplied_type,
            stages=self.stages,
            walking_workgroups=self.walking_workgroups,
            store_width=store_width if has_steps else None,
        )

    def row_bytes(self, channels: int) -> int:
        """Of the rows of a warpgroup's pixels in shared memory, of so many channels."""
        return ceil_div(channels, self.chunk) * WARPGROUP_ROWS * STAGE_ROW_BYTES

    def pixel_bytes(self, channels: int) -> int:
        """Of all that it has there of its pixels: of split ones also numbers as they come, and scales."""
        rows = self.row_bytes(channels)
        if self.parts == 1:
            return rows
        copied = ceil_div(channels * F32.bytes, STAGE_ROW_BYTES) * WARPGROUP_ROWS * STAGE_ROW_BYTES
        return ceil_div(rows + copied + WARPGROUP_ROWS * F32.bytes, _ALIGNMENT) * _ALIGNMENT

    def stage_bytes(self, channels: int, outputs: int) -> int:
        """Of both layers' filters of a chunk."""
        rows = ceil_div(channels, self.chunk) * self.chunk
        return (rows + _columns(outputs)) * STAGE_ROW_BYTES

    def shared_memory_bytes(self, channels: int, outputs: int) -> int:
        """Of a workgroup, for layers from and to so many channels."""
        of_stage = self.stage_bytes(channels, outputs) + STAGE_BARRIERS * BARRIER_BYTES
        turns = self.warpgroups * BARRIER_BYTES
        return self.warpgroups * self.pixel_bytes(channels) + self.stages * of_stage + turns

    def begins_together(self, outputs: int) -> bool:
        """Whether a thread has registers for products of both layers at once: for what it holds of a chunk,
        and for the sums of the next one, beside all that `has_registers` counts."""
        held = 0 if self.parts > 1 else self.chunk * WARPGROUP_ROWS // (PAIR * WARPGROUP_THREADS)
        return self._registers_for(outputs) + held <= self.registers

    def has_registers(self, outputs: int) -> bool:
        """Whether a thread has them for the sums of a chunk and of so many outputs.

        Of split numbers these are of large products and of small ones, and of a block of the large ones.
        """
        return outputs <= MOST_OUTPUTS and self._registers_for(outputs) <= self.registers

    def _registers_for(self, outputs: int) -> int:
        columns = _columns(outputs) + self.chunk
        if self.parts > 1:
            columns = (self.parts + 1) * _columns(outputs) + (self.parts + 1) * self.chunk
        return columns * WARPGROUP_ROWS // WARPGROUP_THREADS + _FEWEST_SPARE_REGISTERS


def _is_plain(shape: ConvolutionShape) -> bool:
    is_of_pixels = shape.is_of_single_pixels and shape.groups == 1 and shape.is_of_known_sizes
    return is_of_pixels and not (shape.input_channels_first or shape.output_channels_first)


def _columns(outputs: int) -> int:
    """Those that are multiplied of so many outputs."""
    return ceil_div(outputs, COLUMNS) * COLUMNS


@dataclass(frozen=True)
class PointwisePairShape:
    """Two pointwise layers, the second of which alone reads the first one's result."""

    widening: ConvolutionShape
    narrowing: ConvolutionShape

    def misfit(self, target: GpuTarget) -> Reason | None:
        """Why no kernel for the target computes such layers; None where one may."""
        if not target.has_warpgroup_products:
            return "the target has no matrix units that warpgroups use"
        if not all(map(_is_plain, (self.widening, self.narrowing))):
            return "they are no pointwise layers of images of known sizes, channels last"
        types = {self.widening.element_types.input, self.widening.element_types.result}
        types.add(self.narrowing.element_types.input)
        if len(types) > 1 or not types <= {F32.name, *HALF_TYPES}:
            return f"what they multiply is {' and '.join(sorted(types))}"
        return None

    @property
    def pixels(self) -> int:
        """Of all images."""
        return self.widening.images * prod(self.widening.output_size)

    @property
    def channels(self) -> int:
        return self.widening.input_channels

    @property
    def between(self) -> int:
        """Channels between them."""
        return self.widening.output_channels

    @property
    def outputs(self) -> int:
        return self.narrowing.output_channels
