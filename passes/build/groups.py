"""Groups and the channels of each, made one dimension or two."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.match.groups import merging, split_source
from iree.winograd.passes.match.sizes import is_dynamic


def merged(value: ir.Value, dimension: int) -> ir.Value:
    """Build `value` with `dimension` and the one after it as one; reads what was split to make it."""
    source = split_source(value, dimension)
    if source is not None:
        return source
    shape = ir.RankedTensorType(value.type).shape
    size = shape[dimension] * shape[dimension + 1]
    merged_type = ir.RankedTensorType.get(
        [*shape[:dimension], size, *shape[dimension + 2 :]], value.type.element_type
    )
    return tensor.collapse_shape(merged_type, value, merging(len(shape), dimension))


def split(value: ir.Value, dimension: int, sizes: tuple[int, int]) -> ir.Value:
    """Build `value` with `dimension` as two of `sizes`."""
    shape = ir.RankedTensorType(value.type).shape
    split_shape = [*shape[:dimension], *sizes, *shape[dimension + 1 :]]
    return tensor.expand_shape(
        ir.RankedTensorType.get(split_shape, value.type.element_type),
        value,
        merging(len(split_shape), dimension),
        [size_of(value, d) for d, size in enumerate(shape) if is_dynamic(size)],
        split_shape,
    )
