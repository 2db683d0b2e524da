"""The layout of the fused kernel's filters: the order in which its workgroups read them.

    filters    [group, block of columns, block of the reduction, a, r within block, k within block]

The reduction dimension numbers views, then channels of a group, these in whole blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.values.constants import Array
from iree.winograd.pipelines.emission.buffer import Buffer
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule

from .convolution import ConvolutionPacking


@dataclass(frozen=True)
class FusedPacking(ConvolutionPacking):
    """The packed filters of a convolution for a schedule of the fused kernel, with as many products."""

    schedule: FusedSchedule

    @property
    def view_blocks(self) -> int:
        """Blocks of the reduction dimension that hold one view."""
        return ceil_div(self.group_channels, self.schedule.block_reduction)

    @property
    def padded_channels(self) -> int:
        """Positions along the reduction dimension of one view."""
        return self.view_blocks * self.schedule.block_reduction

    @property
    def reduction(self) -> int:
        return self.views * self.padded_channels

    @property
    def reduction_blocks(self) -> int:
        return self.views * self.view_blocks

    @property
    def column_blocks(self) -> int:
        return ceil_div(self.group_outputs, self.schedule.block_columns)

    @property
    def padded_reduction(self) -> int:
        return self.reduction

    @property
    def padded_filters(self) -> int:
        return self.column_blocks * self.schedule.block_columns

    @property
    def operand_element(self) -> str:
        """MLIR's name of what packed filters are."""
        return self.shape.element_types.domain

    def filter_extents(self) -> tuple[int, int, int]:
        """Groups, blocks of columns, and what one of them holds."""
        block = self.reduction * self.schedule.products * self.schedule.block_columns
        return (self.shape.groups, self.column_blocks, block)

    def filter_offset(self, packed: Buffer, product: Index, group: Index, row: Index, column: Index) -> Index:
        """Where the packed layout has an element of a product's filters."""
        schedule = self.schedule
        block = row // schedule.block_reduction * schedule.products + product
        line = block * schedule.block_reduction + row % schedule.block_reduction
        origin = packed.offset([group, column // schedule.block_columns, line * schedule.block_columns])
        return origin + column % schedule.block_columns

    def pack_filters(self, transformed: Array) -> Array:
        """The transformed filters [A*g, V*C/g, K/g] in the packed layout."""
        schedule, groups = self.schedule, self.shape.groups
        padded = np.zeros(
            (schedule.products, groups, self.views, self.padded_channels, self.padded_filters),
            transformed.dtype,
        )
        padded[..., : self.group_channels, : self.group_outputs] = transformed.reshape(
            schedule.products, groups, self.views, self.group_channels, self.group_outputs
        )
        blocks = padded.reshape(
            schedule.products,
            groups,
            self.reduction_blocks,
            schedule.block_reduction,
            self.column_blocks,
            schedule.block_columns,
        )
        return np.ascontiguousarray(blocks.transpose(1, 4, 2, 0, 3, 5)).reshape(self.filter_extents())
