"""How warps share an image whose groups of channels one kernel normalizes, each with rows of one group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import lcm
from types import MappingProxyType

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.passes.match.normalizations.image_sum import SummedExtents
from iree.winograd.pipelines.gpu.device.memory import OCTET, PAIR, QUAD, QUAD_BYTES
from iree.winograd.pipelines.gpu.device.target import GpuTarget

_WARP = 32
MOST_THREADS = 640
"""Of a workgroup."""
MOST_HELD = 32
"""Elements in a thread's registers: half of what it has them for where a multiprocessor has 1024 threads."""
_MOST_GROUPS = 4
"""Of a workgroup, whose warps read neighbours in the same lines of the cache."""
_RESIDENT_THREADS = 1024

# What kernels are expected to take, of an H200, in seconds and bytes a second.
_KERNEL = 1.6e-6
"""In a chain, with statistics."""
_EXCHANGE = 0.5e-6
"""Two barriers of a cluster."""
_MEMORY = 4.0e12
_MULTIPROCESSOR_MEMORY = 40e9
_GRANULE = 32
"""Bytes that the second cache gives at least."""
_MULTIPROCESSORS = MappingProxyType({1: 132, 2: 132, 4: 124, 8: 120})
"""Those that clusters of so many workgroups run on: they are of the 14 to 18 that are neighbours."""


@dataclass(frozen=True)
class WarpGroupNormSchedule:
    """Blocks of an image `outer x rows x kept x inner`, which threads hold in registers.

    A cluster has all rows of `groups` neighbouring groups, each of its workgroups as many of them. Of each
    group a workgroup has `group_threads`, whole warps, each of which has as many vectors of `width` elements.
    """

    extents: SummedExtents
    width: int
    groups: int
    cluster: int
    group_threads: int

    @property
    def across(self) -> int:
        """Threads that read neighbours in a row."""
        return self.extents.inner // self.width

    @property
    def along(self) -> int:
        """Rows that are read at a time."""
        return self.group_threads // self.across

    @property
    def rows(self) -> int:
        """Of a workgroup."""
        return self.extents.rows // self.cluster

    @property
    def held(self) -> int:
        """Vectors of a thread."""
        return self.rows // self.along

    @property
    def group_warps(self) -> int:
        return self.group_threads // _WARP

    @property
    def parts(self) -> int:
        """Of a group: all warps that have rows of it."""
        return self.cluster * self.group_warps

    @property
    def threads(self) -> int:
        return self.groups * self.group_threads

    @property
    def resident(self) -> int:
        """Threads that a multiprocessor should have registers for: those of whole workgroups."""
        return max(1, _RESIDENT_THREADS // self.threads) * self.threads

    @property
    def grid(self) -> tuple[int, int, int]:
        """Workgroups: of a cluster, of blocks of groups, of what is outer."""
        return self.cluster, self.extents.kept // self.groups, self.extents.outer

    @property
    def workgroups(self) -> int:
        cluster, blocks, outer = self.grid
        return cluster * blocks * outer

    @property
    def runs_at_once(self) -> bool:
        """Whether no workgroup waits for another one's end."""
        return self.workgroups <= _MULTIPROCESSORS[self.cluster] * (self.resident // self.threads)

    def seconds(self, read: int, written: int) -> float:
        """What it takes, where elements have so many bytes as they are read and as they are written."""
        row = self.groups * self.extents.inner
        touched = (ceil_div(row * read, _GRANULE) + 1) * _GRANULE / row
        of_all = self.extents.sums * self.extents.summed * (touched + written)
        multiprocessors = min(_MULTIPROCESSORS[self.cluster], self.workgroups)
        moving = of_all / min(_MEMORY, multiprocessors * _MULTIPROCESSOR_MEMORY)
        return _KERNEL + (_EXCHANGE if self.cluster > 1 else 0.0) + moving


def warp_group_norm_schedules(
    extents: SummedExtents, target: GpuTarget, read: int, written: int
) -> Iterator[WarpGroupNormSchedule]:
    """Those that the target has warps, threads and registers for."""
    widest = QUAD_BYTES // read
    width = next((each for each in (OCTET, QUAD, PAIR) if each <= widest and extents.inner % each == 0), None)
    if width is None or not target.takes_ptx:
        return
    step = lcm(_WARP, extents.inner // width)
    cluster = 1
    while cluster <= target.cluster_workgroups:
        for groups in range(1, _MOST_GROUPS + 1):
            for group_threads in range(step, min(MOST_THREADS, target.max_threads) // groups + 1, step):
                found = WarpGroupNormSchedule(extents, width, groups, cluster, group_threads)
                is_even = extents.rows % (cluster * found.along) == 0 and extents.kept % groups == 0
                fits = all(n <= most for n, most in zip(found.grid, target.max_workgroups, strict=True))
                if is_even and fits and found.held * width <= MOST_HELD and found.runs_at_once:
                    yield found
        cluster *= 2
