"""Padding with zeros."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.navigation import KEEPING_ELEMENTS, defining_operation
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.slices import match_slice
from iree.winograd.passes.match.values.constants import is_zero, scalar_constant, uniform_constant


@dataclass(frozen=True)
class Padding:
    """Equal numbers, zeros unless others were asked for, around the spatial dimensions of `source`."""

    source: ir.Value
    low: tuple[int, ...]
    high: tuple[int, ...]


def match_padding(value: ir.Value) -> Padding | NoMatch | None:
    """The padding that makes `value`, if it is zeros, known at compile time and spatial only.

    None where nothing pads it: neither a `tensor.pad`, nor an insertion of neighbouring elements into zeros.
    """
    operation = defining_operation(value)
    if operation is None:
        return None
    if operation.name == "tensor.pad":
        return _match_pad(operation)
    if operation.name == "tensor.insert_slice":
        return _match_insert(operation)
    return None


def match_paddings(value: ir.Value) -> tuple[Padding, NoMatch | None]:
    """All padding, one around the other, that makes `value`, and what keeps further padding out of it."""
    none = (0,) * (ir.RankedTensorType(value.type).rank - 2)
    whole = Padding(value, none, none)
    while isinstance(further := match_padding(whole.source), Padding):
        low, high = (
            tuple(map(sum, zip(inner, outer, strict=True)))
            for inner, outer in ((further.low, whole.low), (further.high, whole.high))
        )
        whole = Padding(further.source, low, high)
    return whole, further


def match_pad(operation: ir.Operation, number: float) -> Padding | NoMatch:
    """The padding of a `tensor.pad`, if it is with a number, known at compile time and spatial only."""
    low, high = list(operation.attributes["static_low"]), list(operation.attributes["static_high"])
    element = operation.regions[0].blocks[0].operations[-1].operation.operands[0]
    if scalar_constant(element) != number:
        return NoMatch(operation, f"its padding is not {number}")
    return _spatial_padding(operation, low, high)


def _match_pad(operation: ir.Operation) -> Padding | NoMatch:
    low, high = list(operation.attributes["static_low"]), list(operation.attributes["static_high"])
    element = operation.regions[0].blocks[0].operations[-1].operation.operands[0]
    if not is_zero(element):
        return NoMatch(operation, "its padding is not zeros")
    return _spatial_padding(operation, low, high)


def _match_insert(operation: ir.Operation) -> Padding | NoMatch | None:
    source, destination = operation.operands[0], operation.operands[1]
    if not is_zero(destination) or source.type.rank != destination.type.rank:
        return None
    slice_ = match_slice(operation)
    if slice_ is None:
        return NoMatch(operation, "what it inserts where is known only at run time")
    if set(slice_.strides) != {1}:
        return None
    shape, whole = list(source.type.shape), list(destination.type.shape)
    if any(map(is_dynamic, (*shape[1:], *whole[1:]))) or is_dynamic(shape[0]) != is_dynamic(whole[0]):
        return NoMatch(operation, "its sizes are known only at run time")
    high = [size - offset - part for size, offset, part in zip(whole, slice_.offsets, shape, strict=True)]
    return _spatial_padding(operation, list(slice_.offsets), high)


def _spatial_padding(operation: ir.Operation, low: list[int], high: list[int]) -> Padding | NoMatch:
    if any(is_dynamic(size) for size in (*low, *high)):
        return NoMatch(operation, "its padding is known only at run time")
    if any(size < 0 for size in (*low, *high)):
        return NoMatch(operation, "it takes elements away")
    if any(sizes[0] or sizes[-1] for sizes in (low, high)):
        return NoMatch(operation, "it pads the batch or channels")
    return Padding(operation.operands[0], tuple(low[1:-1]), tuple(high[1:-1]))


def is_padded_with_infinity(image: ir.Value) -> bool:
    """Whether a NaN or an infinity, known at compile time, is among what pads an image.

    It may be transposed, reshaped, sliced and padded further.
    """
    while (operation := defining_operation(image)) is not None:
        if operation.name == "tensor.pad":
            number = scalar_constant(operation.regions[0].blocks[0].operations[-1].operation.operands[0])
        elif operation.name == "tensor.insert_slice":
            number = filled_number(operation.operands[1])
        elif operation.name in KEEPING_ELEMENTS:
            number = None
        else:
            return False
        if number is not None and not isfinite(number):
            return True
        image = operation.operands[0]
    return False


def filled_number(value: ir.Value) -> float | None:
    """The number that all elements of a tensor are, if it is known."""
    if is_zero(value):
        return 0.0
    operation = defining_operation(value)
    if operation is not None and operation.name == "linalg.fill":
        return scalar_constant(operation.operands[0])
    return uniform_constant(value)
