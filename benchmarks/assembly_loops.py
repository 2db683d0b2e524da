"""Loops in assembly, as compilers write it for processors and GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Syntax:
    """How an assembly language writes what loops are made of. Group 1 of both patterns is a label."""

    label: re.Pattern[str]
    branch: re.Pattern[str]


def loops(lines: Sequence[str], syntax: Syntax) -> Iterator[Sequence[str]]:
    """The lines of each loop: from a label, which is there once, to the last branch back to it."""
    for span in _spans(lines, syntax):
        yield lines[span.start : span.stop]


def innermost_loops(lines: Sequence[str], syntax: Syntax) -> Iterator[Sequence[str]]:
    """Those without another one in them."""
    spans = _spans(lines, syntax)
    for span in spans:
        if not any(span.start < other.start and other.stop <= span.stop for other in spans):
            yield lines[span.start : span.stop]


def _spans(lines: Sequence[str], syntax: Syntax) -> list[range]:
    labels = {match[1]: number for number, line in enumerate(lines) if (match := syntax.label.match(line))}
    ends: dict[int, int] = {}
    for number, line in enumerate(lines):
        if branch := syntax.branch.match(line):
            first = labels.get(branch[1], number)
            if first < number:
                ends[first] = number
    return [range(first, end + 1) for first, end in ends.items()]
