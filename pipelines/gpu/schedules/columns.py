"""Schedules of kernels whose threads compute neighbouring outputs of a quad of channels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import ClassVar

from iree.winograd.dialect.decomposition import Decomposition
from iree.winograd.passes.match.convolutions.element_types import ElementTypes
from iree.winograd.pipelines.gpu.device.memory import QUAD, QUAD_BYTES
from iree.winograd.pipelines.problems.schedule import Schedule
from iree.winograd.pipelines.problems.shape import ConvolutionShape

RESIDENT_THREADS_AHEAD = 384
"""Of depthwise kernels whose rows are ahead: for 7 x 7 taps NVIDIA's assembler gave threads 56 registers by
itself, in which there is room for no row but the one that is multiplied."""

_FEW_TAPS = 9


@dataclass(frozen=True)
class ThreadOutputsSchedule(Schedule):
    """How threads of workgroups compute outputs directly, each by itself."""

    stage: ClassVar[str]
    """What the one kernel is called."""

    threads: int = 128

    @property
    def resident_threads(self) -> int | None:
        """Threads for which a multiprocessor should have registers; None for what the compiler takes."""
        return None

    def shared_memory_bytes(self, types: ElementTypes) -> int:
        """None, whatever the types; `bytes_for` says what depthwise convolutions take."""
        del types
        return 0


@dataclass(frozen=True)
class ColumnsSchedule(ThreadOutputsSchedule):
    """How a workgroup computes directly: `threads`, each a quad of channels of so many output `columns`.

    Neighbouring threads take neighbouring quads, up to `quads` of them, then outputs below each other.

    Raises ValueError for sizes that are not positive, and for quads that are no power of two or that the
    threads aren't a multiple of.
    """

    quads: int = 16
    columns: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.quads & (self.quads - 1) or self.threads % self.quads:
            raise ValueError(f"quads {self.quads} must be a power of two that divides threads {self.threads}")


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
class BlockSchedule(ThreadOutputsSchedule):
    """How threads compute `rows` x `columns` outputs of neighbouring `channels` each.

    Neighbouring threads take neighbouring channels, `lanes` of them or as many as all take; then so many
    blocks `beside` each other, and those below.

    Raises ValueError for channels that don't divide a quad, and for lanes that don't divide threads.
    """

    rows: int = 2
    columns: int = 2
    resident: int = 512
    """Threads for which a multiprocessor should have registers."""
    channels: int = QUAD
    lanes: int | None = None
    beside: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if QUAD % self.channels:
            raise ValueError(f"channels {self.channels} must divide a quad")
        if self.lanes is not None and self.threads % self.lanes:
            raise ValueError(f"lanes {self.lanes} must divide threads {self.threads}")

    @property
    def resident_threads(self) -> int:
        """By itself NVIDIA's assembler takes fewer registers, and loads later."""
        return self.resident


@dataclass(frozen=True)
class DepthwiseBlockSchedule(BlockSchedule):
    """Of the depthwise kernel whose threads compute blocks of outputs."""

    kind = "gpu-depthwise-block"
    stage = "depthwise"


@dataclass(frozen=True)
class DepthwiseStripSchedule(ThreadOutputsSchedule):
    """Of the depthwise kernel whose threads walk down strips of so many `columns` of whole images.

    Each computes neighbouring `channels`, and `lanes` neighbouring threads neighbouring channels.

    Raises ValueError for channels that don't divide a quad, and for lanes that don't divide threads.
    """

    kind = "gpu-depthwise-strip"
    stage = "depthwise"

    columns: int = 2
    resident: int = 512
    """Threads for which a multiprocessor should have registers."""
    channels: int = 1
    lanes: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        if QUAD % self.channels:
            raise ValueError(f"channels {self.channels} must divide a quad")
        if self.threads % self.lanes:
            raise ValueError(f"lanes {self.lanes} must divide threads {self.threads}")

    @property
    def resident_threads(self) -> int:
        return self.resident


@dataclass(frozen=True)
class GroupedBlockSchedule(BlockSchedule):
    """Of the kernel of groups of few channels whose threads compute blocks of outputs, whole quads each.

    Raises ValueError as `BlockSchedule` does, and for parts of quads.
    """

    kind = "gpu-grouped-block"
    stage = "grouped"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.channels != QUAD:
            raise ValueError(f"groups are computed by whole quads, not by {self.channels} channels")


@dataclass(frozen=True)
class GroupedSchedule(ColumnsSchedule):
    """Of the kernel of groups of few channels, which are whole quads."""

    kind = "gpu-grouped"
    stage = "grouped"


def has_few_taps(decomposition: Decomposition) -> bool:
    """Whether a thread of a block of outputs has registers for the quads of all taps."""
    return prod(decomposition.kernel_size) <= _FEW_TAPS


def element_of(decomposition: Decomposition, output: int, tap: int, dimension: int = -1) -> int:
    """Which element along a dimension a tap multiplies for an output, from the first output's on."""
    return output * decomposition.step[dimension] + tap * decomposition.dilation[dimension]


def elements_read(decomposition: Decomposition, outputs: int, dimension: int = -1) -> tuple[int, ...]:
    """All that so many neighbouring outputs read along a dimension, each once, in order."""
    taps = range(decomposition.kernel_size[dimension])
    read = (element_of(decomposition, *each, dimension) for each in product(range(outputs), taps))
    return tuple(sorted(set(read)))
