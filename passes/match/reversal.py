"""Tensors that are others with dimensions transposed and reversed, as torch-mlir writes flipped filters."""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.navigation import defining_operation


@dataclass(frozen=True)
class Reversal:
    """A tensor whose dimension `i` is dimension `permutation[i]` of `source`, reversed if `reversed[i]`."""

    source: ir.Value
    permutation: tuple[int, ...]
    reversed: tuple[bool, ...]


def match_reversal(operation: ir.Operation) -> Reversal | None:
    """The reversal that a generic without inputs computes, element by element, from its own indices."""
    if operation.name != "linalg.generic" or len(operation.operands) != 1 or len(operation.results) != 1:
        return None
    result_type = ir.RankedTensorType(operation.results[0].type)
    (output_map,) = (ir.AffineMapAttr(attribute).value for attribute in operation.attributes["indexing_maps"])
    end = operation.regions[0].blocks[0].operations[-1].operation
    element = defining_operation(end.operands[0])
    if element is None or element.name != "tensor.extract" or element.block != end.block:
        return None
    if output_map != ir.AffineMap.get_identity(result_type.rank) or not result_type.has_static_shape:
        return None
    source, *indices = element.operands
    if len(indices) != result_type.rank:
        return None
    dimensions = {}
    only_element = [axis for axis, size in enumerate(source.type.shape) if size == 1]
    for axis, index in enumerate(indices):
        if axis in only_element:
            continue
        read = _match_index(index, result_type.shape)
        if read is None:
            return None
        dimension, is_reversed = read
        if source.type.shape[axis] != result_type.shape[dimension]:
            return None
        dimensions[dimension] = (axis, is_reversed)
    # Whether an index is that of a loop or a constant, there is but one element to read.
    left = [dimension for dimension in range(result_type.rank) if dimension not in dimensions]
    if len(left) != len(only_element) or any(result_type.shape[dimension] != 1 for dimension in left):
        return None
    dimensions |= {dimension: (axis, False) for dimension, axis in zip(left, only_element, strict=True)}
    reads = [dimensions[dimension] for dimension in range(result_type.rank)]
    return Reversal(source, tuple(axis for axis, _ in reads), tuple(flag for _, flag in reads))


def _match_index(index: ir.Value, shape: list[int]) -> tuple[int, bool] | None:
    """The loop that `index` is, and whether it counts down from the loop's last index."""
    definition = defining_operation(index)
    if definition is None:
        return None
    if definition.name == "linalg.index":
        return int(definition.attributes["dim"].value), False
    if definition.name != "arith.subi":
        return None
    last, loop = (defining_operation(operand) for operand in definition.operands)
    if last is None or loop is None or last.name != "arith.constant" or loop.name != "linalg.index":
        return None
    dimension = int(loop.attributes["dim"].value)
    return (dimension, True) if last.attributes["value"].value == shape[dimension] - 1 else None
