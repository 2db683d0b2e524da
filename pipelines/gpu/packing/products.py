"""The layout of what passes between the kernels of one convolution: whole blocks, padded with zeros.

With `b` a block of tiles, `a` a product, `r` its reduction dimension and `k` an output channel of a group:

    transformed input  [b, a*g + group, tile within b, r]           r padded to whole blocks of all parts
    filters            [a*g + group, r, k]                          r alike, k padded to whole blocks
    products           [b, a*g + group, part, tile within b, k]     of each part of the reduction

`r` numbers views, then the channels of a group, these in quads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.index import Index, ceildiv
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from iree.winograd.pipelines.gpu.schedules.matrix import MatrixSchedule

from .convolution import ConvolutionPacking


@dataclass(frozen=True)
class ProductPacking(ConvolutionPacking, ABC):
    """The sizes of a convolution's products, whole blocks of a schedule; each kind orders its operands."""

    schedule: GemmSchedule | MatrixSchedule

    @property
    def channel_quads(self) -> int:
        """Quads that hold the input channels of one group."""
        return ceil_div(self.group_channels, QUAD)

    @property
    def filter_quads(self) -> int:
        """Quads that hold the output channels of one group."""
        return ceil_div(self.group_outputs, QUAD)

    @property
    def reduction(self) -> int:
        """The reduction dimension without the padding at its end."""
        return self.views * self.channel_quads * QUAD

    @property
    def padded_channels(self) -> int:
        """Positions along the reduction dimension of one view."""
        return self.channel_quads * QUAD

    @property
    def padded_reduction(self) -> int:
        return _round_up(self.reduction, self.schedule.block_reduction * self.schedule.reduction_parts)

    @property
    def part_reduction(self) -> int:
        """The reduction dimension of one part."""
        return self.padded_reduction // self.schedule.reduction_parts

    @property
    def padded_filters(self) -> int:
        return _round_up(self.group_outputs, self.schedule.block_columns)

    @property
    def products(self) -> int:
        """A*g, the number of matrix products."""
        return self.shape.transform_size * self.shape.groups

    def row_blocks(self, sizes: Sizes) -> Index:
        """Blocks of tiles."""
        return ceildiv(self.tiles(sizes), self.schedule.block_rows)

    @abstractmethod
    def input_extents(self) -> tuple[int, ...]:
        """The transformed input of one block of tiles."""

    @abstractmethod
    def filter_extents(self) -> tuple[int, ...]:
        """The transformed filters."""

    @abstractmethod
    def pack_filters(self, transformed: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """The transformed filters [A*g, V*C/g, K/g] in the packed layout."""

    def product_extents(self) -> tuple[int, ...]:
        """The products of one block of tiles."""
        parts = self.schedule.reduction_parts
        return (self.products * parts, self.schedule.block_rows, self.padded_filters)

    def by_quads(self, transformed: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """The transformed filters [A*g, V*C/g, K/g] as [A*g, r, k], both padded with zeros."""
        by_view = transformed.reshape(self.products, self.views, self.group_channels, self.group_outputs)
        channels = np.zeros((self.products, self.views, self.padded_channels, self.group_outputs), np.float32)
        channels[:, :, : self.group_channels] = by_view
        padded = np.zeros((self.products, self.padded_reduction, self.padded_filters), np.float32)
        padded[:, : self.reduction, : self.group_outputs] = channels.reshape(
            self.products, self.reduction, self.group_outputs
        )
        return padded


@dataclass(frozen=True)
class MultiplyAddPacking(ProductPacking):
    """The packed layouts of products by multiply-adds: row by row."""

    schedule: GemmSchedule

    def input_extents(self) -> tuple[int, ...]:
        return (self.products, self.schedule.block_rows, self.padded_reduction)

    def filter_extents(self) -> tuple[int, int, int]:
        return (self.products, self.padded_reduction, self.padded_filters)

    def filter_offset(self, packed: Buffer, product: Index, group: Index, row: Index, column: Index) -> Index:
        """Where the packed layout has an element of a product's filters."""
        return packed.offset([product * self.shape.groups + group, row, column])

    def pack_filters(self, transformed: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        return self.by_quads(transformed)


def _round_up(size: int, block: int) -> int:
    return ceil_div(size, block) * block
