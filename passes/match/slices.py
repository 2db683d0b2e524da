"""Slices of tensors: extracted or inserted at a place that is known at compile time, all of the batch."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.sizes import is_dynamic, is_size_of


@dataclass(frozen=True)
class Slice:
    """The elements `offsets + strides * i` of a tensor for i below `sizes`, per dimension.

    A size known only at run time is that of `ir.ShapedType`. The first size is then that of the whole tensor,
    others are known unless `match_slice` is asked for slices of any size.
    """

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def of_array(self) -> tuple[slice, ...]:
        """What reads these elements of an array of numpy's; their number is known."""
        bounds = zip(self.offsets, self.sizes, self.strides, strict=True)
        return tuple(slice(offset, offset + size * stride, stride) for offset, size, stride in bounds)


def match_slice(operation: ir.Operation, *, of_any_size: bool = False) -> Slice | None:
    """The slice that a `tensor.extract_slice` reads or a `tensor.insert_slice` writes.

    None where its place isn't known at compile time, or its sizes aren't, but for that of the whole batch. Of
    a slice that may be `of_any_size` the last one has to be known.
    """
    offsets, sizes, strides = (
        tuple(operation.attributes[name]) for name in ("static_offsets", "static_sizes", "static_strides")
    )
    if any(map(is_dynamic, (*offsets, *(sizes[-1:] if of_any_size else sizes[1:]), *strides))):
        return None
    if sizes and is_dynamic(sizes[0]):
        tensors = 1 if operation.name == "tensor.extract_slice" else 2
        if not is_size_of(operation.operands[tensors], operation.operands[tensors - 1], 0):
            return None
    return Slice(offsets, sizes, strides)
