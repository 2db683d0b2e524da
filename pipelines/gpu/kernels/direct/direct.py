"""Direct convolutions in one kernel whose threads compute outputs by themselves: what they have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import product

import numpy as np
from iree.winograd.passes.match.values.constants import Array
from iree.winograd.pipelines.emission.epilogue import VectorEpilogue
from iree.winograd.pipelines.emission.filter_layout import FilterLayout
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.work import Sizes, Work
from iree.winograd.pipelines.gpu.device.memory import GlobalBuffer
from iree.winograd.pipelines.gpu.schedules.columns import ThreadOutputsSchedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape


@dataclass(frozen=True)
class DirectKernel(ABC):
    """output[n, o..., k] = epilogue(sum over taps and channels of k's group of image * filters)."""

    shape: ConvolutionShape
    schedule: ThreadOutputsSchedule
    layout: FilterLayout | None = None
    """Of filters known only at run time; constants are taps x C/g x K."""

    @abstractmethod
    def workgroups(self, sizes: Sizes) -> tuple[Index, ...]:
        """The extents of the grid."""

    @abstractmethod
    def emit(
        self,
        work: Work,
        image: GlobalBuffer,
        filters: GlobalBuffer,
        output: GlobalBuffer,
        epilogue: VectorEpilogue,
    ) -> None:
        """`image` is N x H... x C, `output` is N x OH... x K."""

    @property
    def filter_extents(self) -> tuple[int, int, int]:
        """taps x C/g x K."""
        return (len(self.shape.decomposition.views), self.shape.group_inputs, self.shape.output_channels)

    def pack_filters(self, transformed: Array) -> Array:
        """The transformed filters [g, V*C/g, K/g] as `filter_extents` says."""
        shape = self.shape
        views, inputs = len(shape.decomposition.views), shape.group_inputs
        by_view = transformed.reshape(shape.groups, views, inputs, shape.group_outputs)
        rows = np.empty(self.filter_extents, transformed.dtype)
        rows[list(self._tap_of_view)] = by_view.transpose(1, 2, 0, 3).reshape(self.filter_extents)
        return rows

    @property
    def _tap_of_view(self) -> tuple[int, ...]:
        """The row-major number of the one tap that each view holds."""
        decomposition = self.shape.decomposition
        taps = list(product(*map(range, decomposition.kernel_size)))
        return tuple(
            taps.index(tap) for view in decomposition.views for tap in decomposition.taps(view) if tap
        )
