"""What a kernel is told when its body is emitted: which part of the work it does, of sizes known or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from .index import Index, IndexLike

WorkgroupId = tuple[Index, Index, Index]


class Size(NamedTuple):
    """A size by what it is of, such as `Size("input", 1)`, along a spatial dimension if there are several."""

    of: str
    dimension: int = 0


BATCH = Size("batch")


@dataclass(frozen=True)
class Sizes:
    """Sizes of a kernel's arrays, each of them known while the kernel is built or a value at run time."""

    values: Mapping[Size, Index]

    @staticmethod
    def of_batch(batch: IndexLike) -> Sizes:
        """Those of a kernel that is told no other size."""
        return Sizes({BATCH: Index.of(batch)})

    @property
    def batch(self) -> Index:
        return self[BATCH]

    def spatial(self, of: str) -> tuple[Index, ...]:
        """Those along the spatial dimensions of what is called `of`, in order."""
        found = (size for size in self.values if size.of == of)
        return tuple(self.values[size] for size in sorted(found))

    def __getitem__(self, size: Size) -> Index:
        """Raises KeyError for a size that the dispatch's signature doesn't state."""
        return self.values[size]


@dataclass(frozen=True)
class Work:
    """A workgroup's part of a kernel's work."""

    workgroup: WorkgroupId
    sizes: Sizes
