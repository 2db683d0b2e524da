"""Schedules of kernels whose threads compute neighbouring outputs of a quad of channels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import ClassVar

from iree.winograd.dialect.decomposition import Decomposition
from iree.winograd.passes.match.element_types import ElementTypes
from iree.winograd.pipelines.gpu.device.memory import QUAD_BYTES
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape

RESIDENT_THREADS_AHEAD = 384
"""Of depthwise kernels whose rows are ahead: for 7 x 7 taps NVIDIA's assembler gave threads 56 registers by
itself, in which there is room for no row but the one that is multiplied."""


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

    @property
    def resident_threads(self) -> int | None:
        """Threads for which a multiprocessor should have registers; None for what the compiler takes."""
        return None

    def shared_memory_bytes(self, types: ElementTypes) -> int:
        """None, whatever the types; `bytes_for` says what depthwise convolutions take."""
        del types
        return 0


@dataclass(frozen=True)
class GpuDepthwiseSchedule(ColumnsSchedule):
    """Of the depthwise kernel.

    With `rows_ahead` a workgroup has all of its filters brought to shared memory first, and a thread asks for
    what so many rows of taps read before it multiplies the one in front of them.
    """

    kind = "gpu-depthwise"
    stage = "depthwise"

    rows_ahead: int | None = None

    @property
    def resident_threads(self) -> int | None:
        """Fewer than the compiler would have, which then loads rows when they are multiplied."""
        return None if self.rows_ahead is None else RESIDENT_THREADS_AHEAD

    def bytes_for(self, shape: ConvolutionShape) -> int:
        """Shared memory of a workgroup for a convolution."""
        return QUAD_BYTES * self.quads * prod(shape.kernel_size) if self.rows_ahead is not None else 0


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
