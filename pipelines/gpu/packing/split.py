"""The layout of operands that are split into two fp16 numbers each: as a stage lies in shared memory.

    x = scale (high + 2^-11 low),  high = fp16(x / scale),  low = fp16(2^11 (x / scale - high))

With `b` a block of tiles or of output channels, `s` a stage of 32 positions along the reduction dimension:

    transformed input  [b] of [a*g + group, s, tile within b, 32 high parts and 32 low parts],
                       then of scales [group, tile within b]
    filters            [a*g + group, b, s, channel within b, 32 high parts and 32 low parts],
                       then scales [group, channel]
    products           as those of multiply-adds

So each stage of a workgroup is one piece of memory. Four bytes an element, as fp32 has: arrays are bound as
f32, in which sizes are counted. Of the 128 bytes of a row the 16 from `16 c` on lie at `16 (c ^ (row & 7))`:
neighbouring rows have them in other banks. Filters are permuted so that a thread has neighbouring sums.

Scales are powers of two, by which a row's largest element comes close to 2^14: fp16 ends at 65504, and holds
11 bits from 2^-14 on, so that parts lose none of 22 bits down to 2^-28 of the largest.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.algebra.transforms import as_array
from iree.winograd.passes.match.element_types import element_bytes
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.schedules.matrix import HALF_BYTES, STAGE_ROW, MatrixSchedule
from iree.winograd.pipelines.specification.shape import ConvolutionShape

from .products import ProductPacking

LOW_BITS = 11
"""Low parts are multiplied by two to this power."""
MAX_EXPONENT = 14
"""Elements are scaled to at most two to this power."""
MIN_EXPONENT_FIELD, MAX_EXPONENT_FIELD = 14, 254
"""Of the largest element as fp32: between them a scale and its inverse are normal numbers."""
LOW_PART = STAGE_ROW // 2
"""fp16 numbers from a high part to its low part, by xor."""
CHUNK = 8
"""fp16 numbers in 16 bytes."""
MAX_TILE_THREADS = 256
"""Threads that share a tile of the input."""
PERMUTED = 16
"""Rows of filters that are permuted among each other."""


@dataclass(frozen=True)
class SplitPacking(ProductPacking):
    """The packed layouts of a convolution for a schedule of its split products."""

    schedule: MatrixSchedule

    @property
    def stages(self) -> int:
        """Of one product."""
        return self.padded_reduction // self.schedule.block_reduction

    @property
    def column_blocks(self) -> int:
        return self.padded_filters // self.schedule.block_columns

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
        return self.padded_reduction * self.schedule.parts * HALF_BYTES // element_bytes("f32")

    @property
    def tile_threads(self) -> int:
        """Threads that share a tile of the input, each a quad of its channels at a time; a power of two."""
        return min(MAX_TILE_THREADS, 1 << (self.padded_reduction // QUAD - 1).bit_length())

    @property
    def input_rounds(self) -> int:
        """Quads of a thread: what they can't keep of a tile until they know its scale they load twice."""
        return -(-self.padded_reduction // (QUAD * self.tile_threads))

    def input_extents(self) -> tuple[int, ...]:
        return (self.block_inputs + self.shape.groups * self.schedule.block_rows,)

    def filter_extents(self) -> tuple[int, ...]:
        return (1, self.filter_elements + self.shape.groups * self.padded_filters)

    def input_stage(self, block: Index, product: Index) -> Index:
        """The first of the stages of a product of a block of tiles, in f16."""
        (stride,) = self.input_extents()
        return (block * stride + product * (self.schedule.block_rows * self._row)) * 2

    def filter_stage(self, first_column: Index, product: Index) -> Index:
        """The first of the stages of a product of a block of output channels, in f16."""
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

    def pack_filters(self, transformed: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        schedule, groups = self.schedule, self.shape.groups
        stage = schedule.block_reduction
        padded = self.by_quads(transformed).reshape(-1, groups, self.padded_reduction, self.padded_filters)
        scales = scale_of(np.abs(padded).max(axis=(0, 2)))
        high, low = split(padded / scales[:, None, :])
        blocks = (self.products, self.stages, stage, self.column_blocks, schedule.block_columns)
        parts = np.stack([each.reshape(blocks) for each in (high, low)[: schedule.parts]], axis=2)
        # To product, block of columns, stage, column, part, position.
        rows = parts.transpose(0, 4, 1, 5, 2, 3).reshape(-1, PERMUTED, STAGE_ROW)[:, permutation()]
        chunks = rows.reshape(-1, CHUNK, STAGE_ROW // CHUNK, CHUNK)
        row, chunk = np.indices(chunks.shape[1:3])
        swizzled = np.take_along_axis(chunks, (chunk ^ row)[None, :, :, None], axis=2)
        packed = np.concatenate([swizzled.ravel().view(np.float32), scales.astype(np.float32).ravel()])
        return packed.reshape(self.filter_extents())


def permutation() -> list[int]:
    """Which of 16 channels each row of filters is: pairs of two products become four neighbours."""
    return [4 * (row % 8 // 2) + 2 * (row // 8) + row % 2 for row in range(PERMUTED)]


def split(scaled: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float16], npt.NDArray[np.float16]]:
    """The high and the low parts of numbers within fp16's range."""
    high = scaled.astype(np.float16)
    low = (2.0**LOW_BITS * (scaled - high)).astype(np.float16)
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
