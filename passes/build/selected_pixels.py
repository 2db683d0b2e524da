"""Tensors that select rows or columns of an image."""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir, linalg, tensor
from iree.winograd.passes.build.generic import build_elementwise, build_sum
from iree.winograd.passes.build.slices import Size, element_of
from iree.winograd.passes.build.tensors import shape_of, size_of
from iree.winograd.passes.match.pixels.selected_pixels import ResizedPixels


def selected(image: ir.Value, dimension: int, positions: ir.Value, size: Size) -> ir.Value:
    """Build the elements of `image` at `positions`, integers and as many as `size` says, of a dimension."""
    sizes = shape_of(image)
    sizes[dimension] = size
    along = ir.AffineMap.get(len(sizes), 0, [ir.AffineExpr.get_dim(dimension)])

    def body(elements: list[ir.Value]) -> ir.Value:
        indices = [linalg.IndexOp(loop).result for loop in range(len(sizes))]
        indices[dimension] = arith.index_cast(ir.IndexType.get(), elements[0])
        return element_of(image, indices)

    init = tensor.empty(sizes, image.type.element_type)
    return build_elementwise([(positions, along)], init, body)


def resized(image: ir.Value, resizing: ResizedPixels) -> ir.Value:
    """Build what `resizing` makes of its image of another one, of as many pixels and any channels."""
    for step in reversed(resizing.steps):
        size = size_of(step.result, step.dimension)
        parts = []
        for tap in step.taps:
            part = selected(image, step.dimension, tap.positions, size)
            parts.append(part if tap.weights is None else _weighted(part, tap.weights, step.dimension))
        image = build_sum(parts) if len(parts) > 1 else parts[0]
    return image


def _weighted(image: ir.Value, weights: ir.Value, dimension: int) -> ir.Value:
    """Build the product of an image and weights along a dimension."""
    identity = ir.AffineMap.get_identity(image.type.rank)
    along = ir.AffineMap.get(image.type.rank, 0, [ir.AffineExpr.get_dim(dimension)])
    init = tensor.empty(shape_of(image), image.type.element_type)
    return build_elementwise(
        [(image, identity), (weights, along)], init, lambda elements: arith.mulf(*elements[:2])
    )
