"""The layout of operands that are split into two fp16 numbers each: as a stage lies in shared memory.

    x = scale (high + 2^-l low),  high = fp16(x / scale),  low = fp16(2^l (x / scale - high))

With `b` a block of tiles or of output channels, `s` a stage of 32 or 16 positions along the reduction
dimension, by the matrix unit, as is `l`, 11 or 0:

    transformed input  [b] of [a*g + group, s, tile within b, high parts and low parts],
                       then of scales [group, tile within b]
    filters            [a*g + group, b, s, channel within b, high parts and low parts],
                       then scales [group, channel]
    products           as those of multiply-adds

So each stage of a workgroup is one piece of memory. Four bytes an element, as fp32 has: arrays are bound as
f32, in which sizes are counted. Where a matrix unit has rows swizzled, of their 128 bytes the 16 from `16 c`
on lie at `16 (c ^ (row & 7))`: neighbouring rows have them in other banks. Filters are permuted so that a
thread has neighbouring sums.

Scales are powers of two, by which a row's largest element comes close to 2^14: fp16 ends at 65504, and holds
11 bits from 2^-14 on, so that parts lose none of 22 bits down to 2^-28 of the largest, or to 2^-17 where low
parts aren't scaled: below that an element has an error of 2^-50, or 2^-39, of the largest.

Where a schedule has a type that is multiplied, elements are rounded to that, and there are no scales.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2, prod
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.algebra.bf16 import bf16_bits
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.dialect.algebra.numerics import UNIT_ROUNDOFF, Accumulation
from iree.winograd.dialect.algebra.transforms import as_array
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.numbers.bf16 import BF16
from iree.winograd.pipelines.emission.numbers.f32 import F32
from iree.winograd.pipelines.gpu.device.matrix_unit import (
    COPIED,
    MatrixUnit,
)
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES, MatrixSchedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape

from .products import ProductPacking

SPLIT = F32
"""What is split, what scales are, and what arrays of both are bound as."""
MAX_EXPONENT = 14
"""Elements are scaled to at most two to this power."""
MIN_EXPONENT_FIELD, MAX_EXPONENT_FIELD = 14, 254
"""Of the largest element as fp32: between them a scale and its inverse are normal numbers."""
MAX_TILE_THREADS = 256
"""Threads that share a tile of the input."""


@dataclass(frozen=True)
class SplitPacking(ProductPacking):
    """The packed layouts of a convolution for a schedule of its split products."""

    schedule: MatrixSchedule

    @property
    def part_unit(self) -> int:
        # Whole products and parts have whole blocks of sums, whatever their number.
        return (self.schedule.summed_block if self.whole_products else None) or super().part_unit

    @property
    def stages(self) -> int:
        """Of one product."""
        return self.padded_reduction // self.schedule.block_reduction

    @property
    def part_stages(self) -> int:
        """Those of a part."""
        return self.stages // self.schedule.reduction_parts

    @property
    def whole_products(self) -> int:
        divided = self.schedule.divided_products
        return 0 if divided is None else self.products - divided * self.shape.groups

    @property
    def column_blocks(self) -> int:
        return self.padded_filters // self.schedule.block_columns

    @property
    def has_blocks_of_sums(self) -> bool:
        """Whether matrix units sum only parts of the reduction."""
        block = self.schedule.summed_block
        return block is not None and block < self.padded_reduction

    @property
    def truncated(self) -> float:
        """The part of a sum of large products that it lacks on average, since matrix units truncate.

        It is common to all sums of so many products (docs/explanation/errors.md).
        """
        schedule = self.schedule
        if schedule.parts == 1 or not schedule.unit.truncates:
            return 0.0
        terms = min(self.reduction, self.part_reduction)
        sums = Accumulation(terms, schedule.summed_block, schedule.matrix_products)
        return UNIT_ROUNDOFF["float32"] * sums.bias

    @property
    def block_inputs(self) -> int:
        """Elements of the transformed input of one block of tiles, which its scales follow."""
        return self.products * self.schedule.block_rows * self._row

    @property
    def filter_elements(self) -> int:
        """Those of all filters, which their scales follow."""
        return self.products * self._row * self.padded_filters

    @property
    def _row(self) -> int:
        """Elements that hold the parts of a row of an operand."""
        return self.padded_reduction * self.operand_bytes // SPLIT.bytes

    @property
    def tile_threads(self) -> int:
        """Threads that share a tile of the input, each a quad of its channels at a time; a power of two."""
        return min(MAX_TILE_THREADS, 1 << (self.padded_reduction // QUAD - 1).bit_length())

    @property
    def input_rounds(self) -> int:
        """Quads of a thread: what they can't keep of a tile until they know its scale they load twice."""
        return ceil_div(self.padded_reduction, QUAD * self.tile_threads)

    @property
    def operand_element(self) -> str:
        return SPLIT.name

    @property
    def operand_bytes(self) -> int:
        return self.schedule.parts * HALF_BYTES

    @property
    def reads_image(self) -> bool:
        """Whether stages are gathered: of images whose numbers are multiplied as they are, whole stages of
        channels of a tap."""
        shape, schedule = self.shape, self.schedule
        if shape.element_types.input != schedule.factors.name or shape.input_channels_first:
            return False
        if schedule.maps_image:
            return schedule.maps(shape)
        if not schedule.gathers or schedule.parts > 1 or shape.transform_size > 1:
            return False
        has_whole_stages = self.group_channels % schedule.block_reduction == 0
        return has_whole_stages and self.padded_reduction == self.reduction

    @property
    def input_passes(self) -> float:
        # Views of a strided convolution read other pixels, for the most part.
        passes = max(1.0, self.views / prod(self.shape.strides))
        return passes * (2 if self.input_rounds > 1 and self.schedule.scales_operands else 1)

    @property
    def _row_scales(self) -> int:
        """Of a row of an operand, one for each group."""
        return self.shape.groups if self.schedule.scales_operands else 0

    def input_extents(self) -> tuple[int, ...]:
        return (self.block_inputs + self._row_scales * self.schedule.block_rows,)

    def filter_extents(self) -> tuple[int, ...]:
        return (1, self.filter_elements + self._row_scales * self.padded_filters)

    def input_stage(self, block: Index, product: Index) -> Index:
        """The first of the stages of a product of a block of tiles, in numbers of half precision."""
        (stride,) = self.input_extents()
        return (block * stride + product * (self.schedule.block_rows * self._row)) * 2

    def filter_stage(self, first_column: Index, product: Index) -> Index:
        """The first of the stages of a product of a block of output channels, in such numbers."""
        block = first_column // self.schedule.block_columns
        number = product * self.column_blocks + block
        return number * (2 * self.schedule.block_columns * self._row)

    def input_scale(self, block: Index, group: Index, row: Index) -> Index:
        """The element that is the scale of a tile."""
        (stride,) = self.input_extents()
        return block * stride + (group * self.schedule.block_rows + row + self.block_inputs)

    def filter_scale(self, group: Index, column: Index) -> Index:
        """The element that is the scale of an output channel."""
        return group * self.padded_filters + column + self.filter_elements

    @property
    def neighbouring_columns(self) -> int:
        return self.schedule.neighbouring_columns

    @property
    def finds_rows_once(self) -> bool:
        return self.schedule.finds_rows_once

    @property
    def _columns_together(self) -> int:
        """That change places."""
        return self.neighbouring_columns * QUAD

    @property
    def low_part(self) -> int:
        """Numbers of half precision from a high part to its low part, by xor."""
        return _low_part(self.schedule.unit)

    def stage_place(self, line: Index, position: Index) -> Index:
        """Where the high part of a position of a stage's row lies, in such numbers.

        `line` numbers the rows of all stages.
        """
        unit = self.schedule.unit
        return line * unit.stage_row + _place_in_row(unit, line, position)

    def stage_lines(self, column: Index) -> list[Index]:
        """The rows of a stage that a quad of columns of a block is."""
        unit, quad, together = self.schedule.unit, column // QUAD, self._columns_together
        _, _, *weights = unit.weights_for(self.neighbouring_columns)
        first = column // together * together
        for bit, weight in enumerate(weights):
            first = first + quad // (1 << bit) % 2 * weight
        return [first + unit.row_of(i) for i in range(QUAD)]

    def pack_filters(self, transformed: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        schedule, groups, unit = self.schedule, self.shape.groups, self.schedule.unit
        stage = schedule.block_reduction
        padded = self.by_quads(transformed).reshape(-1, groups, self.padded_reduction, self.padded_filters)
        if schedule.scales_operands:
            scales = scale_of(np.abs(padded).max(axis=(0, 2)))
            halves = [*split(padded / scales[:, None, :], unit.low_bits)][: schedule.parts]
        else:
            is_bf16 = schedule.factors.name == BF16.name
            scales, halves = np.empty(0), [bf16_bits(padded) if is_bf16 else padded.astype(np.float16)]
        blocks = (self.products, self.stages, stage, self.column_blocks, schedule.block_columns)
        parts = np.stack([each.reshape(blocks) for each in halves], axis=2)
        # To product, block of columns, stage, column, part, position.
        together, neighbours = self._columns_together, self.neighbouring_columns
        rows = parts.transpose(0, 4, 1, 5, 2, 3).reshape(-1, together, unit.stage_row)
        rows = rows[:, np.argsort([unit.row_of(column, neighbours) for column in range(together)])]
        placed = _swizzled(rows, unit) if unit.swizzles else np.ascontiguousarray(rows)
        packed = np.concatenate([placed.ravel().view(np.float32), scales.astype(np.float32).ravel()])
        return packed.reshape(self.filter_extents())


@dataclass(frozen=True)
class SplitRows:
    """The left operand of one product of whole stages of channels, on the units that others multiply on."""

    block_rows: int
    channels: int
    schedule: MatrixSchedule
    """Whose stages, units and parts are those of the product, too."""

    @staticmethod
    def of(block_rows: int, results: SplitPacking) -> SplitRows:
        """That which has the outputs of a convolution for channels."""
        return SplitRows(block_rows, results.group_outputs, results.schedule)

    @property
    def extents(self) -> tuple[int, ...]:
        """Those of a block, with its scales."""
        return (self._elements + self.block_rows,)

    @property
    def _elements(self) -> int:
        return self.block_rows * self.channels

    @property
    def stage(self) -> int:
        """Channels of a stage."""
        return self.schedule.block_reduction

    @property
    def low_part(self) -> int:
        """As that of `SplitPacking`."""
        return _low_part(self.schedule.unit)

    def line(self, block: Index, stage: Index, row: Index) -> Index:
        """Where a row of a stage begins, in numbers of half precision."""
        (stride,) = self.extents
        return block * (2 * stride) + (stage * self.block_rows + row) * self.schedule.unit.stage_row

    def place_in_line(self, row: Index, position: Index) -> Index:
        """Where the high part of a position of a stage lies behind that."""
        return _place_in_row(self.schedule.unit, row, position)

    def scale(self, block: Index, row: Index) -> Index:
        """The element that is the scale of a row."""
        (stride,) = self.extents
        return block * stride + row + self._elements


def _low_part(unit: MatrixUnit) -> int:
    return unit.stage_row // 2


def _place_in_row(unit: MatrixUnit, line: Index, position: Index) -> Index:
    """Where a row of a stage has the high part of a position, by the number of the row."""
    if not unit.swizzles:
        return position
    chunk = (position // COPIED) ^ (line % unit.row_chunks)
    return chunk * COPIED + position % COPIED


def _swizzled(rows: npt.NDArray[Any], unit: MatrixUnit) -> npt.NDArray[Any]:
    # A chunk is moved as one element of its 16 bytes.
    chunks = np.ascontiguousarray(rows).view(np.complex128).reshape(-1, unit.row_chunks**2)
    row, chunk = np.indices((unit.row_chunks, unit.row_chunks))
    swizzled: npt.NDArray[Any] = chunks.take((row * unit.row_chunks + (chunk ^ row)).ravel(), axis=1)
    return swizzled.view(rows.dtype)


def split(
    scaled: npt.NDArray[np.float64], low_bits: int
) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.float16]]:
    """The high and the low parts of numbers within fp16's range, these times two to the power `low_bits`."""
    high = scaled.astype(np.float16)
    low = (2.0**low_bits * (scaled - high)).astype(np.float16)
    return high, low


def scale_of(largest: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """The scale of rows by the magnitude of their largest element."""
    field = largest.astype(np.float32).view(np.uint32).astype(np.int64) >> 23
    exponent = np.clip(field, MIN_EXPONENT_FIELD, MAX_EXPONENT_FIELD) - scale_offset(0)
    scales: npt.NDArray[np.float64] = np.ldexp(1.0, exponent)
    return scales


def scale_offset(growth_bits: int) -> int:
    """An exponent's field less that of the scale, for elements whose transforms may be so much larger."""
    return 126 + MAX_EXPONENT - growth_bits


def input_growth(shape: ConvolutionShape) -> int:
    """The powers of two by which transformed inputs may exceed the largest element of their tile."""
    return _growth([as_array(each.algorithm.input) for each in shape.decomposition.transforms])


def filter_growth(shape: ConvolutionShape) -> int:
    """The same for filters."""
    return _growth([as_array(each.algorithm.filter) for each in shape.decomposition.transforms])


def _growth(matrices: list[npt.NDArray[np.float64]]) -> int:
    return sum(max(0, ceil(log2(np.abs(matrix).sum(axis=1).max()))) for matrix in matrices)
