"""Layer normalization of rows, which arrives as two reductions with elementwise operations around them."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.elementwise import Elementwise, broadcast_source, match_elementwise
from iree.winograd.passes.match.navigation import defining_operation, only_user
from iree.winograd.passes.match.normalizations.rows import (
    combined_with_rows,
    is_reduced,
    row_values,
    with_body,
)
from iree.winograd.passes.match.sizes import is_dynamic
from iree.winograd.passes.match.values.constants import scalar_constant


@dataclass(frozen=True)
class LayerNorm:
    """`(x - mean(x)) / sqrt(variance(x) + epsilon) * scale + shift` of the rows of `source`, f32.

    The variance is the mean of squared differences. `scale` and `shift` have an element for each of a row;
    None where the program has no such factor, or no such addend.
    """

    source: ir.Value
    epsilon: float
    scale: ir.Value | None
    shift: ir.Value | None
    last: ir.Operation
    """Its result is the normalized rows."""

    @property
    def length(self) -> int:
        """Elements of a row."""
        return int(ir.RankedTensorType(self.source.type).shape[-1])


def is_normalization(operation: ir.Operation) -> bool:
    """Whether `operation` reads an inverse root, as the one that `match_layer_norm` takes does."""
    return operation.name in ("linalg.generic", "linalg.mul") and any(
        _with_constant(source, ["math.rsqrt"]) is not None for source in map(row_values, operation.operands)
    )


def match_layer_norm(normalization: ir.Operation) -> LayerNorm | None:
    """The layer normalization whose product of differences and inverse roots `normalization` is.

    Rows have a static length. Scale and shift belong to it where nothing else reads what they
    are applied to.
    """
    normalized = combined_with_rows(normalization, ["arith.mulf"])
    if normalized is None:
        return None
    differences, inverse = normalized
    source = _centred_source(differences)
    if source is None:
        return None
    type_ = ir.RankedTensorType(source.type)
    if str(type_.element_type) != "f32" or is_dynamic(type_.shape[-1]):
        return None
    epsilon = _epsilon_of(inverse, source)
    if epsilon is None:
        return None
    scale, last = _applied_to_rows(normalization, "arith.mulf")
    shift, last = _applied_to_rows(last, "arith.addf")
    return LayerNorm(source, epsilon, scale, shift, last)


def _centred_source(differences: ir.Value) -> ir.Value | None:
    """What the mean of each row was subtracted from; None for others."""
    operation = defining_operation(differences)
    operands = None if operation is None else combined_with_rows(operation, ["arith.subf"])
    if operands is None:
        return None
    source, mean = operands
    sums = _divided_by_length(mean, source)
    return source if sums is not None and is_reduced(sums, source, "arith.addf", 0.0) else None


def _epsilon_of(inverse: ir.Value, source: ir.Value) -> float | None:
    """What is added to the variance of the rows of `source`, of whose sum `inverse` is the inverse root."""
    root = _with_constant(inverse, ["math.rsqrt"])
    added = None if root is None else _with_constant(row_values(root[0]), ["arith.addf"])
    if added is None or added[1] is None:
        return None
    variance, epsilon = added
    sums = _divided_by_length(row_values(variance), source)
    reduction = None if sums is None else defining_operation(sums)
    if reduction is None or sums is None:
        return None
    squares = reduction.operands[0]
    centred = _square_root_of(squares)
    if centred is None or centred != source or not is_reduced(sums, squares, "arith.addf", 0.0):
        return None
    return epsilon


def _square_root_of(squares: ir.Value) -> ir.Value | None:
    """The source of the differences that `squares` are the squares of."""
    operation = defining_operation(squares)
    elementwise = None if operation is None else with_body(operation, ["arith.mulf"])
    if elementwise is None or any(not map_.is_permutation for map_ in elementwise.indexing_maps):
        return None
    arguments = list(elementwise.body.arguments)
    read = [
        elementwise.inputs[arguments.index(operand)] for operand in elementwise.body.operations[0].operands
    ]
    if read[0] != read[1] or len(set(elementwise.indexing_maps)) != 1:
        return None
    return _centred_source(read[0])


def _divided_by_length(mean: ir.Value, source: ir.Value) -> ir.Value | None:
    """The sums of the rows of `source` that `mean` is, divided by their length."""
    divided = _with_constant(mean, ["arith.divf"])
    length = ir.RankedTensorType(source.type).shape[-1]
    return row_values(divided[0]) if divided is not None and divided[1] == length else None


def _with_constant(value: ir.Value, body: list[str]) -> tuple[ir.Value, float | None] | None:
    """The tensor whose elements one operation is applied to, and its other operand if it has one."""
    operation = defining_operation(value)
    elementwise = None if operation is None else with_body(operation, body)
    if elementwise is None or len(elementwise.inputs) != 2:
        return None
    if elementwise.indexing_maps[0] != elementwise.indexing_maps[1]:
        return None
    first, *others = elementwise.body.operations[0].operands
    if first != elementwise.body.arguments[0]:
        return None
    constants = [scalar_constant(other) for other in others]
    if None in constants:
        return None
    return elementwise.inputs[0], constants[0] if constants else None


def _applied_to_rows(operation: ir.Operation, name: str) -> tuple[ir.Value | None, ir.Operation]:
    """What each row of the result is combined with by the operation of this name, and what does so.

    None and `operation` itself where nothing does, or where another operation reads the result, too.
    """
    user = only_user(operation.results[0])
    elementwise = None if user is None else match_elementwise(user)
    if user is None or not isinstance(elementwise, Elementwise):
        return None, operation
    elementwise = with_body(user, [name])
    if elementwise is None or len(elementwise.inputs) != 3:
        return None, operation
    if set(elementwise.body.operations[0].operands) != set(list(elementwise.body.arguments)[:2]):
        return None, operation
    identity = elementwise.indexing_maps[-1]
    for (rows, rows_map), (other, other_map) in (elementwise.reads, elementwise.reads[::-1]):
        values, map_ = broadcast_source(other, other_map)
        if (
            rows == operation.results[0]
            and rows_map == identity
            and list(map_.results) == [ir.AffineExpr.get_dim(identity.n_dims - 1)]
            and ir.RankedTensorType(values.type).has_static_shape
        ):
            return values, user
    return None, operation
