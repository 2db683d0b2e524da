"""Images resampled along some of their dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

import numpy as np
from iree.winograd.dialect.bindings import arith, ir, linalg, tensor
from iree.winograd.passes.build.constants import resource_constant
from iree.winograd.passes.build.generic import Read, build_elementwise
from iree.winograd.passes.build.slices import element_of
from iree.winograd.passes.match.pixels.resampling import Array, Axis


def resampled(source: ir.Value, axes: Mapping[int, Axis]) -> ir.Value:
    """Build `source`, of static shape, with the dimensions of `axes` resampled, in one operation.

    Positions are looked up in tables by the loop's index: where the innermost dimension is read as it is,
    IREE then vectorizes along that. Elements that are read as they are have a weight, too, of one: IREE would
    make one loop of dimensions that no operand tells apart, and read single elements.
    """
    if not axes:
        return source
    shape = list(ir.RankedTensorType(source.type).shape)
    for dimension, axis in axes.items():
        shape[dimension] = axis.size
    tables = {dimension: [_table(indices) for indices in axis.indices] for dimension, axis in axes.items()}
    reads: list[Read] = []
    numbers: dict[tuple[int, int], int] = {}
    for dimension, axis in axes.items():
        if axis.taps == 1 and dimension == len(shape) - 1:
            continue
        along = ir.AffineMap.get(len(shape), 0, [ir.AffineExpr.get_dim(dimension)])
        for tap, weight in enumerate(axis.weights if axis.taps > 1 else np.ones_like(axis.weights)):
            numbers[dimension, tap] = len(reads)
            reads.append((resource_constant(weight, "weights"), along))

    def body(elements: list[ir.Value]) -> ir.Value:
        loops = [linalg.IndexOp(dimension).result for dimension in range(len(shape))]
        rows = {
            dimension: [_looked_up(table, loops[dimension]) for table in tables[dimension]]
            for dimension in axes
        }

        def read(place: Mapping[int, ir.Value]) -> ir.Value:
            return element_of(source, [place.get(d, loop) for d, loop in enumerate(loops)])

        return _blended(
            list(axes), {}, rows, {key: elements[number] for key, number in numbers.items()}, read
        )

    return build_elementwise(reads, tensor.empty(shape, source.type.element_type), body)


def repeated(source: ir.Value, times: Mapping[int, int]) -> ir.Value:
    """Build `source`, of static shape, with each element along dimension `d` there `times[d]` times in a row.

    A loop over the repetitions follows that over the elements, so that nothing is looked up, and what
    follows elementwise may be computed in the same loops.
    """
    shape = list(ir.RankedTensorType(source.type).shape)
    sizes: list[int] = []
    groups: list[list[int]] = []
    for dimension, size in enumerate(shape):
        group = [size, times[dimension]] if dimension in times else [size]
        groups.append([len(sizes) + place for place in range(len(group))])
        sizes += group
    elements = ir.AffineMap.get(len(sizes), 0, [ir.AffineExpr.get_dim(group[0]) for group in groups])
    init = tensor.empty(sizes, source.type.element_type)
    spread = build_elementwise([(source, elements)], init, lambda values: values[0])
    whole = [size * times.get(dimension, 1) for dimension, size in enumerate(shape)]
    return tensor.collapse_shape(ir.RankedTensorType.get(whole, source.type.element_type), spread, groups)


def _blended(
    dimensions: list[int],
    place: Mapping[int, ir.Value],
    rows: Mapping[int, list[ir.Value]],
    weights: Mapping[tuple[int, int], ir.Value],
    read: Callable[[Mapping[int, ir.Value]], ir.Value],
) -> ir.Value:
    """Build the sum over the taps of `dimensions`, those of the last one first, at `place` in the others."""
    if not dimensions:
        return read(place)
    dimension, *others = dimensions
    parts = [_blended(others, {**place, dimension: row}, rows, weights, read) for row in rows[dimension]]
    if (dimension, 0) not in weights:
        return parts[0]
    return reduce(arith.addf, [arith.mulf(part, weights[dimension, tap]) for tap, part in enumerate(parts)])


def _looked_up(table: ir.Value, index: ir.Value) -> ir.Value:
    return arith.index_cast(ir.IndexType.get(), tensor.extract(table, [index]))


def _table(indices: Array) -> ir.Value:
    elements = np.ascontiguousarray(indices, np.int32)
    type_ = ir.RankedTensorType.get(list(elements.shape), ir.IntegerType.get_signless(32))
    return arith.constant(type_, ir.DenseElementsAttr.get(elements, type=type_))
