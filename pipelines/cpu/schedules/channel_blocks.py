"""Output channels in blocks of one size: the passes of a kernel over its tiles or pixels."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.emission.index import Index


@dataclass(frozen=True)
class ChannelBlocks:
    """The output channels of `groups` groups in blocks of `size`, no block across groups.

    The last block of a group overlaps its neighbour rather than be cut short: what two blocks compute, they
    compute alike. Raises ValueError when a group has fewer channels than a block.
    """

    channels: int
    groups: int
    size: int

    def __post_init__(self) -> None:
        if not 1 <= self.size <= self.per_group:
            raise ValueError(f"blocks of {self.size} channels don't fit in groups of {self.per_group}")

    @property
    def per_group(self) -> int:
        """Channels of one group."""
        return self.channels // self.groups

    @property
    def blocks_per_group(self) -> int:
        return ceil_div(self.per_group, self.size)

    @property
    def count(self) -> int:
        return self.groups * self.blocks_per_group

    def group(self, block: Index) -> Index:
        """The group of a block."""
        return block // self.blocks_per_group

    def first_in_group(self, block: Index) -> Index:
        """The first channel of a block, counted within its group."""
        first = block % self.blocks_per_group * self.size
        return first if self.per_group % self.size == 0 else first.minimum(self.per_group - self.size)

    def first(self, block: Index) -> Index:
        """The first channel of a block."""
        return self.group(block) * self.per_group + self.first_in_group(block)

    def steps(self, part: Index, parts: int) -> Index:
        """Blocks of one of `parts` parts; the last parts may be left with fewer, or none."""
        size = self.part_size(parts)
        if self.count % parts == 0:
            return Index(size)
        return (Index(self.count) - part * size).minimum(size)

    def at(self, part: Index, parts: int, step: Index) -> Index:
        """The block that is number `step` of a part."""
        return part * self.part_size(parts) + step

    def part_size(self, parts: int) -> int:
        """The most blocks of one of `parts` parts."""
        return ceil_div(self.count, parts)
