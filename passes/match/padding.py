"""Padding with zeros."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.constants import is_zero
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.slices import match_slice


@dataclass(frozen=True)
class Padding:
    """Zeros around the spatial dimensions of `source`."""

    source: ir.Value
    low: tuple[int, ...]
    high: tuple[int, ...]


def match_padding(value: ir.Value) -> Padding | None:
    """The padding that makes `value`; None when it isn't zeros, known at compile time and spatial only."""
    operation = defining_operation(value)
    if operation is None:
        return None
    if operation.name == "tensor.pad":
        return _match_pad(operation)
    if operation.name == "tensor.insert_slice":
        return _match_insert(operation)
    return None


def _match_pad(operation: ir.Operation) -> Padding | None:
    low, high = list(operation.attributes["static_low"]), list(operation.attributes["static_high"])
    element = operation.regions[0].blocks[0].operations[-1].operation.operands[0]
    if not is_zero(element):
        return None
    return _spatial_padding(operation.operands[0], low, high)


def _match_insert(operation: ir.Operation) -> Padding | None:
    source, destination = operation.operands[0], operation.operands[1]
    slice_ = match_slice(operation)
    if slice_ is None or not is_zero(destination) or set(slice_.strides) != {1}:
        return None
    shape, whole = list(source.type.shape), list(destination.type.shape)
    if list(slice_.sizes) != shape or any(map(is_dynamic, (*shape[1:], *whole[1:]))):
        return None
    if is_dynamic(shape[0]) != is_dynamic(whole[0]):
        return None
    high = [size - offset - part for size, offset, part in zip(whole, slice_.offsets, shape, strict=True)]
    return _spatial_padding(source, list(slice_.offsets), high)


def _spatial_padding(source: ir.Value, low: list[int], high: list[int]) -> Padding | None:
    if any(is_dynamic(size) or size < 0 for size in (*low, *high)):
        return None
    if any(sizes[0] or sizes[-1] for sizes in (low, high)):
        return None
    return Padding(source, tuple(low[1:-1]), tuple(high[1:-1]))
