"""Facts of views and elements of tiles whose numbers are known only when a kernel runs."""

from __future__ import annotations

from iree.winograd.dialect.decomposition import Decomposition

from .index import Index, select_index


def view_offsets(decomposition: Decomposition, view: Index) -> tuple[Index, ...]:
    """The offset of a view, by its number."""
    if view.known is not None:
        return tuple(map(Index, decomposition.views[view.known]))
    return tuple(
        table_entry(view, [offsets[d] for offsets in decomposition.views])
        for d in range(decomposition.spatial_rank)
    )


def table_entry(position: Index, entries: list[int]) -> Index:
    """The entry of a table at a position; arithmetic where the table repeats, selection elsewhere."""
    period = next(p for p in range(1, len(entries) + 1) if entries == _tiled(entries[:p], len(entries)))
    if period < len(entries):
        return table_entry(position % period, entries[:period])
    run = next((i for i, entry in enumerate(entries) if entry != entries[0]), len(entries))
    if run > 1 and all(entries[i] == entries[i - i % run] for i in range(len(entries))):
        return table_entry(position // run, entries[::run])
    step = entries[1] - entries[0] if len(entries) > 1 else 0
    if entries == [entries[0] + i * step for i in range(len(entries))] and step >= 0:
        return position * step + entries[0]
    result = Index(entries[-1])
    for i in reversed(range(len(entries) - 1)):
        if entries[i] == entries[i + 1]:
            continue
        result = select_index(position.less_than(i + 1), entries[i], result)
    return result


def _tiled(entries: list[int], length: int) -> list[int]:
    return [entries[i % len(entries)] for i in range(length)]
