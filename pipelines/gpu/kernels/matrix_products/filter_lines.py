"""Filters on their way to the second cache, before a workgroup needs the first of them.

Those of a network at batch 1 come from memory, not from a cache. Kernels that load some where they multiply
them would wait for memory each time.
"""

from __future__ import annotations

from iree.winograd.dialect.algebra.ceil_div import ceil_div
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.gpu.device.memory import LINE_ELEMENTS, GlobalBuffer, thread_id

_MAX_LINES = 8
"""Of a thread: what is behind them is asked for when others are multiplied."""


def fetch_lines(
    filters: GlobalBuffer, first: Index, rows: int, distance: int, elements: int, threads: int
) -> None:
    """Has all threads of a workgroup ask for lines of `rows` rows, of so many `elements` each.

    `first` is the offset of the first element, `distance` that from row to row. Lines that a row has none of
    are others of the array.
    """
    across = ceil_div(elements, LINE_ELEMENTS)
    lines = min(rows * across, _MAX_LINES * threads)
    for begin in range(0, lines, threads):
        # The last line is asked for several times.
        number = (thread_id() + begin).minimum(lines - 1)
        offset = first + number // across * distance + number % across * LINE_ELEMENTS
        filters.prefetch(offset.minimum(filters.size - 1))
