"""How workgroups share an image whose groups of channels one kernel normalizes, and what that takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.image_sum import SummedExtents
from iree.winograd.pipelines.gpu.device.memory import QUAD
from iree.winograd.pipelines.gpu.device.target import GpuTarget

_WARP = 32
MOST_THREADS = 512
"""Of a workgroup, which has a multiprocessor's registers to itself then."""
MOST_HELD = 16
"""Quads of a thread: half of what it has registers for where these are 512."""

# What kernels take, of an H200, in seconds and bytes a second.
_KERNEL = 2e-6
"""From the end of the kernel before, where kernels are in a chain, to when all of memory is busy."""
_STATISTICS = 0.5e-6
"""Sums over a workgroup's threads for a mean, and again for deviations from it."""
_EXCHANGE = 1e-6
"""Two barriers of a cluster, and what its workgroups read of each other in between."""
_MERGES = 1.5e-6
"""Of the moments of all workgroups by a kernel of its own, beside the time in which it begins."""
_MEMORY = 4.0e12
_MULTIPROCESSOR_MEMORY = 64e9
"""What one multiprocessor reads and writes."""
_MULTIPROCESSORS = 128
"""Of a large GPU, that hold clusters."""
_GRANULE = 64
"""Bytes that memory gives at least, wherever they are in a row."""


@dataclass(frozen=True)
class GroupNormSchedule:
    """Blocks of an image `outer x rows x kept x inner`, which threads hold in registers.

    A cluster has all rows of `groups` neighbouring groups, each of its workgroups as many of them but for the
    last. `across` threads of a workgroup read a row, a quad each, and `along` rows are read at a time.
    """

    extents: SummedExtents
    groups: int
    cluster: int
    along: int

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
        rounds = ceil_div(cluster * blocks * outer, _MULTIPROCESSORS)
        of_workgroup = self.rows * self.columns * (touched + written)
        of_all = self.extents.sums * self.extents.summed * (touched + written)
        moving = max(of_all / _MEMORY, rounds * of_workgroup / _MULTIPROCESSOR_MEMORY)
        return _KERNEL + _STATISTICS + (_EXCHANGE if cluster > 1 else 0.0) + moving


def seconds_of_parts(extents: SummedExtents, read: int, written: int) -> float:
    """What three kernels take that sum parts of the image, combine these, and normalize it."""
    return 3 * _KERNEL + _MERGES + extents.sums * extents.summed * (2 * read + written) / _MEMORY


def group_norm_schedule(
    extents: SummedExtents, target: GpuTarget, read: int, written: int
) -> GroupNormSchedule | None:
    """The fastest by what is predicted; None where no workgroup, or cluster, holds a group.

    Elements have so many bytes as they are read and as they are written.
    """
    return min(_schedules(extents, target), key=lambda each: each.seconds(read, written), default=None)


def _schedules(extents: SummedExtents, target: GpuTarget) -> Iterator[GroupNormSchedule]:
    """Those that the target has threads and registers for, the smallest clusters first."""
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
            # Each workgroup of a cluster has rows, so that what it counts isn't zero.
            if held <= MOST_HELD and (cluster - 1) * rows < extents.rows and _fits(found.grid, target):
                yield found
        cluster *= 2


def _fits(grid: tuple[int, int, int], target: GpuTarget) -> bool:
    """Whether it is launched as it is, so that workgroups of a cluster are neighbours."""
    return all(count <= limit for count, limit in zip(grid, target.max_workgroups, strict=True))
