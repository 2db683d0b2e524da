"""How many workgroups a dispatch may have, and the parts of the output channels that they take."""

from __future__ import annotations

WORKGROUPS_PER_THREAD = (1, 2, 3)
"""That dispatches may have, more only to keep within the caches."""


def workgroup_counts(threads: int) -> list[int]:
    """The numbers of workgroups that a dispatch may have, for threads to share."""
    return [1] if threads == 1 else [count * threads for count in WORKGROUPS_PER_THREAD]


def channel_parts(workgroups: int, blocks: int, channel_blocks: int) -> int:
    """The parts of the output channels for so many workgroups, where `blocks` share the tiles or pixels."""
    return max(1, min(channel_blocks, workgroups // blocks))


def powers_of_two(most: int) -> list[int]:
    return [2**power for power in range(most.bit_length())]
