"""Index arithmetic of places in tensors whose elements are read in another order."""

from __future__ import annotations

from iree.winograd.passes.match.layouts.places import Digit, DigitSum, Places

from .index import Index


def source_place(places: Places, place: Index) -> Index:
    """Where what is at `place` of a tensor is in the one that it is read from."""
    return _sum(places.place, place, places.elements)


def _sum(number: DigitSum, place: Index, elements: int) -> Index:
    result = Index(number.constant)
    for factor, digit in number.terms:
        result = result + _digit(digit, place, elements) * factor
    return result


def _digit(digit: Digit, place: Index, elements: int) -> Index:
    number, maximum = place, elements - 1
    if digit.number is not None:
        number, maximum = _sum(digit.number, place, elements), digit.number.maximum
    quotient = number // digit.divisor
    return quotient if maximum // digit.divisor < digit.extent else quotient % digit.extent
