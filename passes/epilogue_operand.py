"""What an epilogue reads beside the convolution's outputs: as small a tensor as holds it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.dialect.epilogue_read import read_refusal
from iree.winograd.passes.constants import constant_array, is_constant, resource_constant
from iree.winograd.passes.elementwise import broadcast_source
from iree.winograd.passes.rewrite import defining_operation


@dataclass(frozen=True)
class EpilogueOperand:
    """A tensor, and the map by which an epilogue reads it, from an output's index `(n, spatial..., k)`."""

    value: ir.Value
    indexing_map: ir.AffineMap


def match_epilogue_operand(
    value: ir.Value, indexing_map: ir.AffineMap, result_type: ir.RankedTensorType
) -> EpilogueOperand | None:
    """What an epilogue of results of `result_type` reads instead of `value`: the source of broadcasts.

    None when kernels can't read that, or its elements are of another type.
    """
    source, read = broadcast_source(value, indexing_map)
    source_type = ir.RankedTensorType(source.type)
    if source_type.element_type != result_type.element_type or read_refusal(source_type, read, result_type):
        return None
    return EpilogueOperand(source, read)


def build_epilogue_operand(operand: EpilogueOperand) -> EpilogueOperand:
    """`operand` without the dimensions that aren't read along, computed now if from constants."""
    value = operand.value
    definition = defining_operation(value)
    if is_constant(value) and definition is not None and definition.name != "arith.constant":
        array = constant_array(value)
        value = value if array is None else resource_constant(array, "epilogue")
    return _without_unit_dimensions(EpilogueOperand(value, operand.indexing_map))


def _without_unit_dimensions(operand: EpilogueOperand) -> EpilogueOperand:
    reads = operand.indexing_map.results
    shape = ir.RankedTensorType(operand.value.type).shape
    kept = [
        dimension
        for dimension, (size, index) in enumerate(zip(shape, reads, strict=True))
        if size != 1 or not isinstance(index, ir.AffineConstantExpr)
    ]
    if len(kept) in (0, len(shape)):
        return operand
    starts = [0, *kept[1:], len(shape)]
    groups = [list(range(start, end)) for start, end in pairwise(starts)]
    collapsed_type = ir.RankedTensorType.get(
        [shape[dimension] for dimension in kept], operand.value.type.element_type
    )
    return EpilogueOperand(
        tensor.collapse_shape(collapsed_type, operand.value, groups),
        ir.AffineMap.get(operand.indexing_map.n_dims, 0, [reads[dimension] for dimension in kept]),
    )
