"""Threads that share the workgroups of a dispatch: what each has to do, and what it waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import log2

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.machines.model import CpuMachine

from .rates import STRAGGLING_PER_DOUBLING


def complete(stages: Mapping[str, float], workers: Workers) -> dict[str, float]:
    """The stages of a dispatch with launching it, and waiting for those that share it."""
    work = sum(stages.values()) - stages.get("filters", 0)
    return {
        **stages,
        "dispatch": workers.machine.dispatch_seconds,
        "waiting": workers.start_seconds + workers.waiting_seconds(work),
    }


def in_turn(*dispatches: Mapping[str, float]) -> dict[str, float]:
    """The stages of dispatches that run one after the other, those of one name together."""
    names = dict.fromkeys(name for stages in dispatches for name in stages)
    return {name: sum(stages.get(name, 0.0) for stages in dispatches) for name in names}


@dataclass(frozen=True)
class Workers:
    """`threads` threads of a machine, each of which takes one workgroup of a dispatch after another.

    The `workgroups` are equal. Where they are fewer than threads, each has a thread of its own.
    """

    machine: CpuMachine
    threads: int
    workgroups: int

    @cached_property
    def count(self) -> int:
        """Threads that have something to do."""
        return min(self.threads, self.workgroups)

    @cached_property
    def share(self) -> float:
        """Workgroups of each thread, on average."""
        return self.workgroups / self.count

    @cached_property
    def load(self) -> float:
        """Workgroups that a core would do in the time that a thread does its share.

        More threads than there are cores share the units of these.
        """
        return self.share * max(1, self.count / self.machine.cores)

    @property
    def taken(self) -> int:
        """Workgroups that a thread takes at a time."""
        most = self.machine.workgroups_at_a_time
        return most if self.workgroups >= most * self.threads else 1

    @property
    def memory_bandwidth(self) -> float:
        """Bytes per second that all of them read from memory."""
        return min(self.count * self.machine.memory_bandwidth, self.machine.shared_memory_bandwidth)

    def shared_bandwidth(self, size: int) -> float:
        """Bytes per second at which each reads what others have of `size` bytes that all read or write."""
        if self.count == 1:
            return self.machine.bandwidth(size)
        last = self.machine.caches[-1]
        return last.bandwidth if size <= last.size else self.memory_bandwidth / self.count

    @property
    def start_seconds(self) -> float:
        """Until the last thread starts: they wake up one after the other."""
        return 0.0 if self.count == 1 else self.machine.wake_seconds

    def waiting_seconds(self, work_seconds: float) -> float:
        """Until the last thread is done, of threads that work for so long on average.

        In the last round some have nothing to do, and the others what threads share to themselves. None is
        done when the rounds would be: they start apart and aren't equally fast.
        """
        if self.count == 1:
            return 0.0
        rounds, remaining = divmod(ceil_div(self.workgroups, self.taken), self.count)
        cores = self.machine.cores
        last = max(1, remaining / cores) if remaining else 0
        idle = self.taken * (rounds * max(1, self.count / cores) + last) - self.load
        return work_seconds / self.load * (idle + self.taken * STRAGGLING_PER_DOUBLING * log2(self.count))
