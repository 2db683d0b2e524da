"""What an epilogue reads, made as small as holds it."""

from __future__ import annotations

from itertools import pairwise

from iree.winograd.dialect.bindings import ir, tensor
from iree.winograd.passes.build.constants import resource_constant
from iree.winograd.passes.match.epilogues.epilogue_operand import EpilogueOperand
from iree.winograd.passes.match.navigation import defining_operation
from iree.winograd.passes.match.values.constants import constant_array, is_constant


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
