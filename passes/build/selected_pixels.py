"""Tensors that select rows or columns of an image."""

from __future__ import annotations

from iree.winograd.dialect.bindings import arith, ir, linalg, tensor
from iree.winograd.passes.build.generic import build_elementwise
from iree.winograd.passes.build.slices import Size, element_of
from iree.winograd.passes.build.tensors import shape_of


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
