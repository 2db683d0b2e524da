"""The layout of what passes between the kernels of one convolution: whole blocks, padded with zeros.

With `b` a block of tiles, `a` a product, `r` its reduction dimension and `k` an output channel of a group:

    transformed input  [b, a*g + group, tile within b, r]           r padded to whole blocks of all parts
    filters            [a*g + group, r, k]                          r alike, k padded to whole blocks
    products           [b, slot, tile within b, k]                  a slot for each part of the reduction, of
                                                                    each a*g + group

`r` numbers views, then the channels of a group, these in quads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.values.constants import Array
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.index import Index, ceildiv, select_index
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from iree.winograd.pipelines.gpu.schedules.gemv import GemvSchedule
from iree.winograd.pipelines.gpu.schedules.matrix import MatrixSchedule

from .convolution import ConvolutionPacking


@dataclass(frozen=True)
class ProductPacking(ConvolutionPacking, ABC):
    """The sizes of a convolution's products, whole blocks of a schedule; each kind orders its operands."""

    schedule: GemmSchedule | GemvSchedule | MatrixSchedule

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
        return _round_up(self.reduction, self.part_unit * self.schedule.reduction_parts)

    @property
    def part_unit(self) -> int:
        """What the reduction dimension of a part is a multiple of."""
        return self.schedule.block_reduction

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

    @property
    def neighbouring_columns(self) -> int:
        """Of which a thread has the sums of a row side by side, and stores them at once."""
        return QUAD

    @property
    def finds_rows_once(self) -> bool:
        """Whether threads find the place of a row of results once, not of each that they store of it."""
        return False

    def row_blocks(self, sizes: Sizes) -> Index:
        """Blocks of tiles."""
        return ceildiv(self.tiles(sizes), self.schedule.block_rows)

    @property
    @abstractmethod
    def operand_element(self) -> str:
        """MLIR's name of what arrays of transformed inputs and filters are bound as."""

    @property
    @abstractmethod
    def operand_bytes(self) -> int:
        """Of an element of a transformed input or filter."""

    @property
    @abstractmethod
    def reads_image(self) -> bool:
        """Whether the products read the image itself: no kernel before them writes their left operand."""

    @property
    @abstractmethod
    def input_passes(self) -> float:
        """How often the kernel that writes the left operand reads the image."""

    @abstractmethod
    def input_extents(self) -> tuple[int, ...]:
        """The transformed input of one block of tiles."""

    @abstractmethod
    def filter_extents(self) -> tuple[int, ...]:
        """The transformed filters."""

    @abstractmethod
    def pack_filters(self, transformed: Array) -> Array:
        """The transformed filters [A*g, V*C/g, K/g] in the packed layout."""

    @property
    def whole_products(self) -> int:
        """The first products, whose reduction isn't in parts."""
        return 0

    @property
    def slots(self) -> int:
        """What a product or a part of one has each."""
        return self.whole_products + (self.products - self.whole_products) * self.schedule.reduction_parts

    def slot(self, product: Index, part: Index) -> Index:
        whole, parts = self.whole_products, self.schedule.reduction_parts
        divided = product * parts + part - whole * (parts - 1)
        return select_index(product.less_than(whole), product, divided) if whole else divided

    def of_slot(self, slot: Index) -> tuple[Index, Index]:
        """The product of a slot, and the part of it."""
        whole, parts = self.whole_products, self.schedule.reduction_parts
        if whole == 0:
            return slot // parts, slot % parts
        divided, is_whole = (slot - whole).maximum(0), slot.less_than(whole)
        return select_index(is_whole, slot, divided // parts + whole), select_index(
            is_whole, 0, divided % parts
        )

    def product_extents(self) -> tuple[int, ...]:
        """The products of one block of tiles."""
        return (self.slots, self.schedule.block_rows, self.padded_filters)

    def by_quads(self, transformed: Array) -> Array:
        """The transformed filters [A*g, V*C/g, K/g] as [A*g, r, k], both padded with zeros."""
        by_view = transformed.reshape(self.products, self.views, self.group_channels, self.group_outputs)
        channels = np.zeros(
            (self.products, self.views, self.padded_channels, self.group_outputs), transformed.dtype
        )
        channels[:, :, : self.group_channels] = by_view
        padded = np.zeros((self.products, self.padded_reduction, self.padded_filters), transformed.dtype)
        padded[:, : self.reduction, : self.group_outputs] = channels.reshape(
            self.products, self.reduction, self.group_outputs
        )
        return padded


@dataclass(frozen=True)
class MultiplyAddPacking(ProductPacking):
    """The packed layouts of products by multiply-adds: row by row."""

    schedule: GemmSchedule

    @property
    def operand_element(self) -> str:
        return self.shape.element_types.domain

    @property
    def operand_bytes(self) -> int:
        return self.shape.element_types.domain_bytes

    @property
    def reads_image(self) -> bool:
        return self.shape.transform_size == 1

    @property
    def input_passes(self) -> float:
        return 1

    def input_extents(self) -> tuple[int, ...]:
        return (self.products, self.schedule.block_rows, self.padded_reduction)

    def filter_extents(self) -> tuple[int, int, int]:
        return (self.products, self.padded_reduction, self.padded_filters)

    def filter_offset(self, packed: Buffer, product: Index, group: Index, row: Index, column: Index) -> Index:
        """Where the packed layout has an element of a product's filters."""
        return packed.offset([product * self.shape.groups + group, row, column])

    def pack_filters(self, transformed: Array) -> Array:
        return self.by_quads(transformed)


def _round_up(size: int, block: int) -> int:
    return ceil_div(size, block) * block
