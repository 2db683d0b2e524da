"""Dimensions made one or several: groups and the channels of each, the pixels of an image."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.passes.build.slices import padded
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.match.groups import merging, merging_pixels, reassociation_of, split_source
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.values.constants import scalar_constant


def merged(value: ir.Value, dimension: int) -> ir.Value:
    """Build `value` with `dimension` and the one after it as one; reads what was split to make it.

    Where that was split and then padded along other dimensions, it is padded as a whole.
    """
    source = split_source(value, dimension) or _padded_source(value, dimension)
    if source is not None:
        return source
    shape = ir.RankedTensorType(value.type).shape
    size = shape[dimension] * shape[dimension + 1]
    merged_type = ir.RankedTensorType.get(
        [*shape[:dimension], size, *shape[dimension + 2 :]], value.type.element_type
    )
    return tensor.collapse_shape(merged_type, value, merging(len(shape), dimension))


def merged_to_counts(value: ir.Value, counts: Sequence[int]) -> ir.Value:
    """Build `value` with so many neighbouring dimensions as one each."""
    shape = ir.RankedTensorType(value.type).shape
    groups: list[list[int]] = []
    sizes: list[int] = []
    for count in counts:
        first = sum(map(len, groups))
        groups.append(list(range(first, first + count)))
        part = shape[first : first + count]
        sizes.append(ir.ShapedType.get_dynamic_size() if any(map(is_dynamic, part)) else prod(part))
    type_ = ir.RankedTensorType.get(sizes, value.type.element_type)
    return tensor.collapse_shape(type_, value, groups)


def _padded_source(value: ir.Value, dimension: int) -> ir.Value | None:
    """Build the padding of what was split, if `value` is that of its parts."""
    pad = defining_operation(value)
    if pad is None or pad.name != "tensor.pad" or len(pad.operands) != 1:
        return None
    source = split_source(pad.operands[0], dimension)
    element = pad.regions[0].blocks[0].operations[-1].operation.operands[0]
    low, high = (list(pad.attributes[name]) for name in ("static_low", "static_high"))
    if source is None or scalar_constant(element) is None:
        return None
    if any(amounts[d] for amounts in (low, high) for d in (dimension, dimension + 1)):
        return None
    del low[dimension], high[dimension]
    shape = list(ir.RankedTensorType(value.type).shape)
    shape[dimension : dimension + 2] = [shape[dimension] * shape[dimension + 1]]
    return padded(source, shape, low, high, element)


def split(value: ir.Value, dimension: int, sizes: tuple[int, ...]) -> ir.Value:
    """Build `value` with `dimension` as those of `sizes`."""
    shape = ir.RankedTensorType(value.type).shape
    split_shape = [*shape[:dimension], *sizes, *shape[dimension + 1 :]]
    return tensor.expand_shape(
        ir.RankedTensorType.get(split_shape, value.type.element_type),
        value,
        merging(len(split_shape), dimension, len(sizes)),
        [size_of(value, d) for d, size in enumerate(shape) if is_dynamic(size)],
        split_shape,
    )


def image_of_rows(rows: ir.Value, pixels: Sequence[int]) -> ir.Value:
    """Build the image, `pixels` and channels, whose pixels `rows` are; reads what was merged to make them."""
    shape = [*pixels, rows.type.shape[-1]]
    groups = merging_pixels(len(shape))
    definition = defining_operation(rows)
    if definition is not None and definition.name == "tensor.collapse_shape":
        (source,) = definition.operands
        if list(source.type.shape) == shape and reassociation_of(definition) == groups:
            return source
    return tensor.expand_shape(
        ir.RankedTensorType.get(shape, rows.type.element_type), rows, groups, [], shape
    )


def rows_of_image(image: ir.Value) -> ir.Value:
    """Build the rows that the pixels of an image of static shape are."""
    *pixels, channels = image.type.shape
    rows_type = ir.RankedTensorType.get([prod(pixels), channels], image.type.element_type)
    return tensor.collapse_shape(rows_type, image, merging_pixels(len(pixels) + 1))


def image_like(rows: ir.Value, image: ir.Value) -> ir.Value:
    """Build the image of the sizes of another one whose pixels `rows` are."""
    shape = list(ir.RankedTensorType(image.type).shape)
    type_ = ir.RankedTensorType.get(shape, rows.type.element_type)
    sizes = [size_of(image, d) for d, size in enumerate(shape) if is_dynamic(size)]
    return tensor.expand_shape(type_, rows, merging_pixels(len(shape)), sizes, shape)
