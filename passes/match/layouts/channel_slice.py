"""Neighbouring channels of a tensor: where a convolution reads from or writes to part of a larger one."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.sizes import is_dynamic, is_size_of


@dataclass(frozen=True)
class ChannelSlice:
    """The channels of `whole` from `first` on, as many as whatever reads or writes them has."""

    whole: ir.Value
    first: int = 0


def match_extract(value: ir.Value) -> ChannelSlice:
    """What `value` is read from: part of a tensor whose channels it is, else itself."""
    operation = defining_operation(value)
    if operation is None or operation.name != "tensor.extract_slice":
        return ChannelSlice(value)
    first = _first_channel(operation, operation.operands[0], value)
    return ChannelSlice(value) if first is None else ChannelSlice(operation.operands[0], first)


def match_insert(operation: ir.Operation) -> ChannelSlice | None:
    """Where `operation` inserts channels into a tensor; None when it doesn't."""
    if operation.name != "tensor.insert_slice":
        return None
    source, destination = operation.operands[0], operation.operands[1]
    first = _first_channel(operation, destination, source)
    return None if first is None else ChannelSlice(destination, first)


def overlap(one: ChannelSlice, one_size: int, other: ChannelSlice, other_size: int) -> bool:
    """Whether slices of so many channels have channels of one tensor in common."""
    if one.whole != other.whole:
        return False
    return one.first < other.first + other_size and other.first < one.first + one_size


def _first_channel(operation: ir.Operation, whole: ir.Value, part: ir.Value) -> int | None:
    """The offset in the last dimension of a slice that has all of the others, of known sizes or not."""
    offsets = list(operation.attributes["static_offsets"])
    sizes, strides = list(operation.attributes["static_sizes"]), list(operation.attributes["static_strides"])
    shape = list(whole.type.shape)
    is_known = not any(map(is_dynamic, (*offsets, shape[-1], sizes[-1])))
    if not is_known or set(strides) != {1} or sizes != list(part.type.shape) or any(offsets[:-1]):
        return None
    if sizes[:-1] != shape[:-1]:
        return None
    unknown = [dimension for dimension, size in enumerate(sizes) if is_dynamic(size)]
    stated = list(operation.operands)[1 if operation.name == "tensor.extract_slice" else 2 :]
    covers = all(is_size_of(size, whole, each) for size, each in zip(stated, unknown, strict=True))
    return int(offsets[-1]) if covers else None
