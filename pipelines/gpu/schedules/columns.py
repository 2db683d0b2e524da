"""Schedules of kernels whose threads compute neighbouring outputs of a quad of channels."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.passes.match.element_types import ElementTypes
from iree.winograd.pipelines.problems.schedule import Schedule


@dataclass(frozen=True)
class ColumnsSchedule(Schedule):
    """How a workgroup computes directly: `threads`, each a quad of channels of so many output `columns`.

    Neighbouring threads take neighbouring quads, up to `quads` of them, then outputs below each other.

    Raises ValueError for sizes that are not positive, and for quads that are no power of two or that the
    threads aren't a multiple of.
    """

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


@dataclass(frozen=True)
class GroupedSchedule(ColumnsSchedule):
    """Of the kernel of groups of few channels, which are whole quads."""

    kind = "gpu-grouped"
