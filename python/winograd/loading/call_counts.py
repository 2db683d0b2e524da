"""How often sizes that programs leave open come."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

CALLS_FOR_PROGRAM = 100
"""Of sizes that have no program of their own, until there is to be one: compiling takes as long as some
hundreds of calls."""
_MOST_COUNTED = 1024
"""Sizes whose calls are counted."""


class CallCounts:
    """Counts the calls of sizes, those that came last."""

    def __init__(self) -> None:
        self._calls: OrderedDict[Hashable, int] = OrderedDict()

    def is_often(self, sizes: Hashable) -> bool:
        """Whether a call is one of so many of its `sizes` that these are worth a program."""
        calls = self._calls.pop(sizes, 0) + 1
        if calls > CALLS_FOR_PROGRAM:
            return True
        self._calls[sizes] = calls
        if len(self._calls) > _MOST_COUNTED:
            self._calls.popitem(last=False)
        return False
