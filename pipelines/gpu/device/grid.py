"""Grids of workgroups, laid out so that no extent exceeds what the target admits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from iree.winograd.pipelines.emission.index import Index, ceildiv
from iree.winograd.pipelines.emission.work import Sizes, Work

UNLIMITED = 2**31 - 1
"""An extent that nobody reaches."""


@dataclass(frozen=True)
class Grid:
    """The workgroups of a kernel, as many as `extents` gives for the sizes along up to three dimensions.

    Where these may exceed `limits`, as many are launched in rows of at most `limits[0]`, in the same order.
    """

    extents: Callable[[Sizes], tuple[Index, ...]]
    limits: tuple[int, int, int]

    def launched(self, sizes: Sizes) -> tuple[Index, ...]:
        """The extents to launch. Raises ValueError for more workgroups than limits of any layout admit."""
        extents = self.extents(sizes)
        if self._fit(extents):
            return extents
        rows = self._rows(extents)
        if rows.known is not None and rows.known > self.limits[1]:
            raise ValueError(f"{prod(extent.known or 1 for extent in extents)} workgroups are too many")
        return self._columns(extents), rows

    def place(self, launched: Work) -> Work:
        """The work of a workgroup that was launched: the last ones may be the last, and write the same."""
        extents = self.extents(launched.sizes)
        if self._fit(extents):
            return launched
        workgroup = launched.workgroup
        x, y, _ = (*extents, Index(1), Index(1))[:3]
        number = (workgroup[0] + workgroup[1] * self._columns(extents)).minimum(_count(extents) - 1)
        return replace(launched, workgroup=(number % x, number // x % y, number // (x * y)))

    def _fit(self, extents: tuple[Index, ...]) -> bool:
        return all(
            limit >= UNLIMITED if extent.known is None else extent.known <= limit
            for extent, limit in zip(extents, self.limits, strict=False)
        )

    def _rows(self, extents: tuple[Index, ...]) -> Index:
        return ceildiv(_count(extents), self.limits[0]).maximum(1)

    def _columns(self, extents: tuple[Index, ...]) -> Index:
        return ceildiv(_count(extents), self._rows(extents))


def _count(extents: tuple[Index, ...]) -> Index:
    count = Index(1)
    for extent in extents:
        count = count * extent
    return count
