"""How workgroups share an image whose groups of channels one kernel normalizes, and what that takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.normalizations.image_sum import SummedExtents
from iree.winograd.pipelines.gpu.device.memory import QUAD, QUAD_BYTES
from iree.winograd.pipelines.gpu.device.target import GpuTarget

_WARP = 32
MOST_THREADS = 512
"""Of a workgroup, which has a multiprocessor's registers to itself then."""
MOST_HELD = 16
"""Quads in a thread's registers: half of what it has them for where threads are 512."""
MOST_SHARED = 24
"""The same in memory that threads share, of which sums have the rest."""
_MOST_SLICES = 32
"""Threads that share the sums of a group's threads."""

# What kernels take, of an H200, in seconds and bytes a second.
_KERNEL = 2e-6
"""From the end of the kernel before, where kernels are in a chain, to when all of memory is busy."""
_PARTS = 5.3e-6
"""The same of three kernels, two of which begin as those before them end, and the merging of all moments."""
_STATISTICS = 1e-6
"""Sums over a workgroup's threads for a mean, and again for deviations from it."""
_EXCHANGE = 2e-6
"""Two barriers of a cluster, and what its workgroups read of each other in between."""
_SHARED_MEMORY = 200e9
"""What a multiprocessor writes, or reads, of the memory that its threads share: a quad once, and twice."""
_MEMORY = 4.0e12
_CACHE = 6.5e12
"""Memory, of images that the second cache holds when they are read again."""
_CACHE_BYTES = 40 << 20
_MULTIPROCESSOR_MEMORY = 64e9
"""What one multiprocessor reads and writes."""
_AT_ONCE = MappingProxyType({1: 132, 2: 66, 4: 30, 8: 15})
"""Clusters of so many workgroups that run at once, one on a multiprocessor: those of a cluster are of the 14
to 18 that are neighbours."""

_GRANULE = 64
"""Bytes that memory gives at least, wherever they are in a row."""


@dataclass(frozen=True)
class GroupNormSchedule:
    """Blocks of an image `outer x rows x kept x inner`, which threads hold in registers and shared memory.

    A cluster has all rows of `groups` neighbouring groups, each of its workgroups as many of them but for the
    last. `across` threads of a workgroup read a row, a quad each, and `along` rows are read at a time.
    """

    extents: SummedExtents
    groups: int
    cluster: int
    along: int

    @property
    def width(self) -> int:
        """Elements that a thread reads at a time."""
        return QUAD

    @property
    def resident(self) -> int | None:
        """Threads that a multiprocessor should have registers for: no more than one workgroup's."""
        return None

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return self.groups * self.extents.inner

    @property
    def across(self) -> int:
        return self.columns // QUAD

    @property
    def rows(self) -> int:
        """Of a workgroup."""
        return ceil_div(self.extents.rows, self.cluster)

    @property
    def held(self) -> int:
        """Quads of a thread."""
        return ceil_div(self.rows, self.along)

    @property
    def shared(self) -> int:
        """Those of a thread's quads that it has no registers for, the first ones."""
        return max(0, self.held - MOST_HELD)

    @property
    def is_even(self) -> bool:
        """Whether all threads have as many quads: conditions on many take registers, too."""
        is_whole = self.held * self.along * self.cluster == self.extents.rows
        return is_whole and self.across * self.along == self.threads

    def shares_within(self, target: GpuTarget) -> bool:
        """Whether a workgroup has memory for what its threads share."""
        return self.shared <= MOST_SHARED and self.shared_bytes <= target.shared_memory_bytes

    @property
    def unit(self) -> int:
        """Lanes of each quad that are of one group."""
        return next(unit for unit in (4, 2, 1) if self.extents.inner % unit == 0)

    @property
    def slices(self) -> int:
        """Threads that share a group's sum, a power of two."""
        most = min(self.along, self.threads // self.groups, _MOST_SLICES)
        return 1 << (most.bit_length() - 1)

    @property
    def sum_extents(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Those of a thread's units of lanes, and of slices. Odd rows, of which neighbours' banks differ."""
        return (self.along, self.columns // self.unit | 1), (self.groups, self.slices | 1)

    @property
    def shared_bytes(self) -> int:
        """Of a workgroup's memory: sums, two numbers of a group for itself and for all, and quads."""
        scalars = sum(rows * columns for rows, columns in self.sum_extents) + 4 * self.groups
        return 4 * scalars + QUAD_BYTES * self.shared * self.threads

    @property
    def threads(self) -> int:
        """Whole warps, of which the last one may have threads without work."""
        return ceil_div(self.across * self.along, _WARP) * _WARP

    @property
    def grid(self) -> tuple[int, int, int]:
        """Workgroups: of a cluster, of blocks of groups, of what is outer."""
        return self.cluster, self.extents.kept // self.groups, self.extents.outer

    def seconds(self, read: int, written: int) -> float:
        """What it takes, where elements have so many bytes as they are read and as they are written."""
        row = self.columns * read
        touched = ceil_div(row, _GRANULE) * _GRANULE / self.columns
        cluster, blocks, outer = self.grid
        rounds = ceil_div(blocks * outer, _AT_ONCE[cluster])
        of_workgroup = self.rows * self.columns * (touched + written)
        of_all = self.extents.sums * self.extents.summed * (touched + written)
        moving = max(of_all / _MEMORY, rounds * of_workgroup / _MULTIPROCESSOR_MEMORY)
        # Of all workgroups of a round memory waits for the statistics.
        waiting = _STATISTICS + (_EXCHANGE if cluster > 1 else 0.0)
        again = 3 * QUAD_BYTES * self.shared * self.threads / _SHARED_MEMORY
        return _KERNEL + rounds * (waiting + again) + moving


def seconds_of_parts(extents: SummedExtents, read: int, written: int) -> float:
    """What three kernels take that sum parts of the image, combine these, and normalize it."""
    elements = extents.sums * extents.summed
    memory = _CACHE if elements * read <= _CACHE_BYTES else _MEMORY
    return _PARTS + elements * (2 * read + written) / memory


def group_norm_schedule(
    extents: SummedExtents, target: GpuTarget, read: int, written: int
) -> GroupNormSchedule | None:
    """The fastest by what is predicted; None where no workgroup, or cluster, holds a group.

    Elements have so many bytes as they are read and as they are written.
    """
    return min(_schedules(extents, target), key=lambda each: each.seconds(read, written), default=None)


def _schedules(extents: SummedExtents, target: GpuTarget) -> Iterator[GroupNormSchedule]:
    """Those that the target has threads, registers and memory for, the smallest clusters first."""
    most_threads = min(MOST_THREADS, target.max_threads) // _WARP * _WARP
    cluster = 1
    while cluster <= min(target.cluster_workgroups, extents.rows):
        for groups in range(1, extents.kept + 1):
            columns = groups * extents.inner
            across = columns // QUAD
            if extents.kept % groups or columns % QUAD or across > most_threads:
                continue
            rows = ceil_div(extents.rows, cluster)
            held = ceil_div(rows, min(rows, most_threads // across))
            found = GroupNormSchedule(extents, groups, cluster, ceil_div(rows, held))
            fits = found.shared == 0 or (found.is_even and found.shares_within(target))
            # Each workgroup of a cluster has rows, so that what it counts isn't zero.
            if fits and (cluster - 1) * rows < extents.rows and _fits(found.grid, target):
                yield found
        cluster *= 2


def _fits(grid: tuple[int, int, int], target: GpuTarget) -> bool:
    """Whether it is launched as it is, so that workgroups of a cluster are neighbours."""
    return all(count <= limit for count, limit in zip(grid, target.max_workgroups, strict=True))
