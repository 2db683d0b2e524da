"""Positions of an image that are whole parts of a line: threads compute them beside loads of weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iree.winograd.passes.match.pixels.resampling import Axis
from iree.winograd.pipelines.emission.index import Index

_FRACTIONS = 1 << 16
_LAST = (1 << 31) - 1
"""What indices of 32 bits hold: places beyond the border, in fractions, before they are brought there."""


@dataclass(frozen=True)
class TapLine:
    """Tap `t` of element `o` reads `(slope * o + begins[t]) // 2^16`, or the border of what it reads."""

    slope: int
    begins: tuple[int, ...]
    borders: tuple[tuple[int, int], ...]
    """Of each tap, the first and the last place that it reads."""

    @staticmethod
    def of(axis: Axis, size: int) -> TapLine | None:
        """That of an axis of an image of so many elements; None where no line is found for all taps."""
        places = [[int(each) for each in taps] for taps in axis.indices]
        for slope in _slopes(axis, size):
            begins = [_begin(slope, each) for each in places]
            known = tuple(each for each in begins if each is not None)
            if len(known) == len(begins) and slope * (axis.size - 1) + max(known) <= _LAST:
                return TapLine(slope, known, tuple((min(each), max(each)) for each in places))
        return None

    def places(self, element: Index) -> list[Index]:
        """Those of the taps of an element."""
        return [
            self._place(element, begin, *border)
            for begin, border in zip(self.begins, self.borders, strict=True)
        ]

    def _place(self, element: Index, begin: int, first: int, last: int) -> Index:
        place = element * self.slope + begin
        if begin < first * _FRACTIONS:
            place = place.maximum(first * _FRACTIONS)
        return (place // _FRACTIONS).minimum(last)


def _slopes(axis: Axis, size: int) -> Iterator[int]:
    """Steps of a position from one element to the next: torch's with and without aligned corners, others."""
    steps = [size / axis.size, (size - 1) / max(1, axis.size - 1)]
    places = axis.indices[0]
    inner = [number for number, place in enumerate(places) if 0 < place < size - 1]
    if len(inner) > 1:
        begin, end = inner[0], inner[-1]
        distance = float(places[end]) - float(places[begin])
        if axis.taps == 2:
            distance += float(axis.weights[1][end]) - float(axis.weights[1][begin])
        steps.append(distance / (end - begin))
    return (round(step * _FRACTIONS) for step in steps)


def _begin(slope: int, places: Sequence[int]) -> int | None:
    """Where a line of that slope begins whose whole parts are the places, but for those at the borders."""
    first, last = min(places), max(places)
    least = [place * _FRACTIONS - slope * o for o, place in enumerate(places) if place > first]
    most = [(place + 1) * _FRACTIONS - 1 - slope * o for o, place in enumerate(places) if place < last]
    if first == last:
        return first * _FRACTIONS
    return None if max(least) > min(most) else (max(least) + min(most)) // 2
