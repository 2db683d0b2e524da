"""Tensors and loops in another order of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from iree.winograd.dialect.bindings import ir, linalg, tensor
from iree.winograd.passes.build.named import build_named
from iree.winograd.passes.build.tensors import size_of
from iree.winograd.passes.match.sizes import is_dynamic


def transposed(value: ir.Value, permutation: Sequence[int]) -> ir.Value:
    """Build the tensor whose dimension `i` is dimension `permutation[i]` of `value`.

    A transposition that moves nothing but dimensions of size 1 becomes a pair of reshapes.
    """
    if list(permutation) == sorted(permutation):
        return value
    shape = ir.RankedTensorType(value.type).shape
    moved = [dimension for dimension in permutation if shape[dimension] != 1]
    if moved == sorted(moved) and not any(is_dynamic(size) for size in shape[1:]):
        return _reshaped(value, [shape[dimension] for dimension in permutation])
    sizes = [size_of(value, dimension) for dimension in permutation]
    init = tensor.empty(sizes, value.type.element_type)
    return build_named(linalg.TransposeOp, value, init, permutation=list(permutation))


def inverse_permutation(permutation: Sequence[int]) -> list[int]:
    return [list(permutation).index(dimension) for dimension in range(len(permutation))]


def permuted_map(indexing_map: ir.AffineMap, permutation: Sequence[int]) -> ir.AffineMap:
    """`indexing_map` for loops in the order `permutation`: new loop `i` is old loop `permutation[i]`."""
    inverse = inverse_permutation(permutation)
    loops = [ir.AffineExpr.get_dim(position) for position in inverse]
    reorder = ir.AffineMap.get(len(inverse), 0, loops)
    return ir.AffineMap.get(len(inverse), 0, [result.compose(reorder) for result in indexing_map.results])


def merged_to(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Build `value` as a tensor of `shape`, whose sizes are products of its neighbouring ones, or 1.

    Those of `value` are static, and none is 1, unless it is of that shape.
    """
    type_ = ir.RankedTensorType(value.type)
    if list(type_.shape) == list(shape):
        return value
    merged = [size for size in shape if size != 1]
    if len(merged) < type_.rank:
        groups: list[list[int]] = []
        for size in merged:
            begin = groups[-1][-1] + 1 if groups else 0
            end = begin + 1
            while prod(type_.shape[begin:end]) != size:
                end += 1
            groups.append(list(range(begin, end)))
        value = tensor.collapse_shape(ir.RankedTensorType.get(merged, type_.element_type), value, groups)
    return value if merged == list(shape) else _reshaped(value, shape)


def _reshaped(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Build `value` with its dimensions of size 1 placed as in `shape`; the others keep their order."""
    source_shape = ir.RankedTensorType(value.type).shape
    collapsed_shape = [size for size in source_shape if size != 1] or [1]
    element_type = value.type.element_type
    collapsed = tensor.collapse_shape(
        ir.RankedTensorType.get(collapsed_shape, element_type), value, _reassociation(source_shape)
    )
    sizes = [size_of(value, 0) if is_dynamic(size) else size for size in shape]
    return tensor.expand_shape(
        ir.RankedTensorType.get(list(shape), element_type),
        collapsed,
        _reassociation(shape),
        [size for size in sizes if not isinstance(size, int)],
        list(shape),
    )


def _reassociation(shape: Sequence[int]) -> list[list[int]]:
    """Groups of adjacent dimensions of `shape` that hold at most one whose size is not 1."""
    groups: list[list[int]] = [[]]
    filled_group = False
    for dimension, size in enumerate(shape):
        if size != 1:
            if filled_group:
                groups.append([])
            filled_group = True
        groups[-1].append(dimension)
    return groups
