"""Kernels, run on arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from .numbers import Array
from .program import Program
from .workgroup import Workgroup


@dataclass(frozen=True)
class Kernel:
    """A kernel of a module."""

    program: Program

    @staticmethod
    def parsed(text: str, name: str) -> Kernel:
        """The kernel of that name in a module."""
        return Kernel(Program.parsed(text, name))

    @property
    def threads(self) -> int:
        """Of a workgroup."""
        return self.program.threads

    @property
    def cluster(self) -> int:
        """Workgroups that run at once."""
        return self.program.cluster

    @staticmethod
    def by_stage(text: str) -> dict[str, Kernel]:
        """The kernels of a program that has one of each stage, after which they are named."""
        names = re.findall(r"\.entry (winograd_(\w+?)_\w+)\(", text)
        return {stage: Kernel.parsed(text, name) for name, stage in names}

    def run(self, arguments: Sequence[Array], workgroups: Iterator[tuple[int, ...]]) -> None:
        """Runs some workgroups on arrays, those that it writes to changed in place, and numbers (0-D arrays).

        Those of a cluster follow each other.
        """
        numbers = iter(workgroups)
        while together := [
            Workgroup(self.program, arguments, each) for each in islice(numbers, self.cluster)
        ]:
            assert len(together) == self.cluster
            for workgroup in together:
                workgroup.cluster = together
            running = [each.run() for each in together]
            while (waiting := [next(each, False) for each in running])[0]:
                assert all(waiting), "some workgroups of a cluster end where others wait"
            assert not any(waiting), "some workgroups of a cluster end where others wait"
