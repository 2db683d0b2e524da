"""Schedules of kernels whose threads compute neighbouring outputs of a quad of channels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from iree.winograd.dialect.decomposition import Decomposition
from iree.winograd.passes.match.element_types import ElementTypes
from iree.winograd.pipelines.problems.schedule import Schedule


@dataclass(frozen=True)
class ColumnsSchedule(Schedule):
    """How a workgroup computes directly: `threads`, each a quad of channels of so many output `columns`.

    Neighbouring threads take neighbouring quads, up to `quads` of them, then outputs below each other.

    Raises ValueError for sizes that are not positive, and for quads that are no power of two or that the
    threads aren't a multiple of.
    """

    stage: ClassVar[str]
    """What the one kernel is called."""

    threads: int = 128
    quads: int = 16
    columns: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.quads & (self.quads - 1) or self.threads % self.quads:
            raise ValueError(f"quads {self.quads} must be a power of two that divides threads {self.threads}")

    def shared_memory_bytes(self, types: ElementTypes) -> int:
        """None, whatever the types."""
        del types
        return 0


@dataclass(frozen=True)
class GpuDepthwiseSchedule(ColumnsSchedule):
    """Of the depthwise kernel."""

    kind = "gpu-depthwise"
    stage = "depthwise"


@dataclass(frozen=True)
class GroupedSchedule(ColumnsSchedule):
    """Of the kernel of groups of few channels, which are whole quads."""

    kind = "gpu-grouped"
    stage = "grouped"


def element_of(decomposition: Decomposition, column: int, tap: int) -> int:
    """Which element along the last dimension a tap multiplies for an output, from the first column's on."""
    return column * decomposition.step[-1] + tap * decomposition.dilation[-1]


def elements_read(decomposition: Decomposition, columns: int) -> tuple[int, ...]:
    """All that so many neighbouring outputs read along the last dimension, each once, in order."""
    taps = range(decomposition.kernel_size[-1])
    return tuple(sorted({element_of(decomposition, *each) for each in product(range(columns), taps)}))
