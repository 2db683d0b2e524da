"""The filters of two pointwise layers in a row as one kernel multiplies them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.pipelines.gpu.device.matrix_unit import MATRIX_ROWS
from iree.winograd.pipelines.gpu.schedules.pointwise_pair import (
    PointwisePairSchedule,
    PointwisePairShape,
)

from .split import SplitPacking


@dataclass(frozen=True)
class PointwisePairPacking:
    """Both layers' filters, each in blocks of a chunk of the channels between them.

    A thread has sums of the first layer as it has to hold the rows of the second product, but for their
    order: of each 16 channels between the layers those come first that are the first pairs of its quads. So
    the second layer's filters have these in that order.
    """

    shape: PointwisePairShape
    schedule: PointwisePairSchedule

    @cached_property
    def widening(self) -> SplitPacking:
        return SplitPacking(self.shape.widening, self.schedule.widening)

    @cached_property
    def narrowing(self) -> SplitPacking:
        schedule = self.schedule.narrowing(self.shape.outputs)
        return SplitPacking(self.shape.narrowing, schedule)

    def pack_narrowing(self, filters: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """The second layer's filters [1, C, K]."""
        unit = self.schedule.widening.unit
        order = np.argsort([unit.row_of(channel) for channel in range(MATRIX_ROWS)])
        sixteens = filters.reshape(1, -1, MATRIX_ROWS, filters.shape[-1])
        return self.narrowing.pack_filters(sixteens[:, :, order].reshape(filters.shape))
