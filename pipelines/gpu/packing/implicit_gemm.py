"""The layout of implicit matrix products: filters as `split.py` has them, and patches of the image."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from iree.winograd.passes.match.values.constants import Array
from iree.winograd.pipelines.emission.index import Condition, Index
from iree.winograd.pipelines.emission.sized_shape import SizedShape, product
from iree.winograd.pipelines.emission.work import Sizes
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.schedules.implicit_gemm import WARP_MAXIMA_BYTES, ImplicitGemmSchedule
from iree.winograd.pipelines.gpu.schedules.matrix import STAGE_ROW_BYTES
from iree.winograd.pipelines.gpu.schedules.patch import Patch

from .split import SplitPacking


@dataclass(frozen=True)
class ImplicitGemmPacking(SplitPacking):
    """The tiles, patches and filters of a direct convolution for a schedule of implicit products."""

    schedule: ImplicitGemmSchedule

    @cached_property
    def patch(self) -> Patch:
        patch = self.schedule.patch(self.shape)
        if patch is None:
            raise ValueError(f"{self.schedule} has no patches for {self.shape}")
        return patch

    def tile_count(self, sizes: Sizes) -> Index:
        return sizes.batch * product(self.patch.tiles_per_image(SizedShape.of(self.shape, sizes).output_size))

    # The reduction dimension

    @property
    def channel_quads(self) -> int:
        return self.patch.channels // QUAD

    @property
    def reduction(self) -> int:
        return self.patch.reduction

    def offsets_of(self, row: Index) -> tuple[tuple[Index, ...], Condition]:
        row_taps = self.patch.row_taps
        if row_taps is None:
            return super().offsets_of(row)
        tap = row // QUAD
        position = tap // row_taps, tap % row_taps
        exists = position[0].less_than(self.shape.kernel_size[0])
        return position, exists & position[1].less_than(self.shape.kernel_size[1])

    def by_quads(self, transformed: Array) -> Array:
        row_taps = self.patch.row_taps
        if row_taps is None:
            return super().by_quads(transformed)
        rows, columns = self.shape.kernel_size
        taps = np.zeros((rows, row_taps, QUAD, self.padded_filters), transformed.dtype)
        filters = transformed.reshape(self.views, self.group_channels, self.group_outputs)
        taps[:, :columns, : self.group_channels, : self.group_outputs] = filters[
            self.shape.views_by_tap
        ].reshape(rows, columns, self.group_channels, self.group_outputs)
        padded = np.zeros((1, self.padded_reduction, self.padded_filters), transformed.dtype)
        padded[0, : self.reduction] = taps.reshape(self.reduction, self.padded_filters)
        return padded

    # Shared memory

    @property
    def stage_bytes(self) -> int:
        """The filters of one stage."""
        return self.schedule.block_columns * STAGE_ROW_BYTES

    @property
    def patches_begin(self) -> int:
        """Behind the filters."""
        return self.stages * self.stage_bytes

    @property
    def maxima_begin(self) -> int:
        """Behind the patches."""
        return self.patches_begin + self.schedule.warpgroups * self.patch.slots * self.patch.bytes

    @property
    def barrier_begin(self) -> int:
        return self.maxima_begin + self.schedule.warpgroups * WARP_MAXIMA_BYTES
