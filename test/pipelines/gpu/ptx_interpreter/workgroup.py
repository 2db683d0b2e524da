"""Workgroups: warps that take turns, and run up to the next barrier each."""

from __future__ import annotations

from collections.abc import Iterator

from .warp import Warp
from .warp_state import LANES, WorkgroupState


class Workgroup(WorkgroupState):
    def run(self) -> Iterator[bool]:
        """Runs until the end; stops where it waits for its cluster."""
        warps = [Warp(self, i) for i in range(self.program.threads // LANES)]
        running = [each.run() for each in warps]
        while running:
            places = {each: next(each, "end") for each in running}
            while waiting := [each for each, place in places.items() if place == "phase"]:
                arrivals = sum(each.arrivals for each in self.phases.values())
                places.update({each: next(each, "end") for each in waiting})
                arrived = sum(each.arrivals for each in self.phases.values()) > arrivals
                assert arrived or set(places.values()) != {"phase"}, "all wait for each other"
            assert len(set(places.values())) == 1, "some warps end where others wait"
            if "end" in places.values():
                self.has_ended = True
                return
            if "cluster" in places.values():
                yield True
            # The one that was last goes first.
            running.reverse()
