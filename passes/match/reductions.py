"""Reductions, as `linalg.generic` states them."""

from __future__ import annotations

from math import prod

from iree.winograd.dialect.bindings import ir, linalg_structure
from iree.winograd.passes.match.navigation import RESHAPES, defining_operation
from iree.winograd.passes.match.sizes import is_dynamic


def is_reduction(operation: ir.Operation) -> bool:
    return operation.name == "linalg.generic" and bool(reduced_loops(operation))


def is_reducing(operation: ir.Operation) -> bool:
    """Whether an operation of linalg, generic or named, reduces a loop: sums, products, pooling, ..."""
    attributes = linalg_structure.get_indexing_maps(operation)
    if not operation.name.startswith("linalg.") or attributes is None:
        return False
    written = ir.AffineMapAttr(attributes[len(attributes) - 1]).value
    loops = {each.position for each in written.results if isinstance(each, ir.AffineDimExpr)}
    return bool(len(loops) < written.n_dims)


def reduced_loops(generic: ir.Operation) -> list[int]:
    """The numbers of the loops that a generic reduces."""
    kinds = enumerate(generic.attributes["iterator_types"])
    return [loop for loop, kind in kinds if "reduction" in str(kind)]


def generic_maps(generic: ir.Operation) -> list[ir.AffineMap]:
    """The indexing maps of all operands of a generic."""
    return [ir.AffineMapAttr(each).value for each in generic.attributes["indexing_maps"]]


def loop_extents(generic: ir.Operation) -> tuple[int, ...]:
    """The length of each loop of a `linalg.generic`, negative for one that is known only at run time."""
    sizes = {
        ir.AffineDimExpr(expression).position: size
        for map_, operand in zip(generic_maps(generic), generic.operands, strict=True)
        if isinstance(operand.type, ir.ShapedType)
        for expression, size in zip(map_.results, operand.type.shape, strict=True)
        if isinstance(expression, ir.AffineDimExpr)
    }
    return tuple(sizes[loop] for loop in sorted(sizes))


def row_length(reduction: ir.Operation) -> int | None:
    """Elements of the rows that `reduction` reduces: the innermost dimensions of what nothing transposes.

    None where it reduces something else, or where the length is known only at run time.
    """
    loops = reduced_loops(reduction)
    source, indexing_map = reduction.operands[0], generic_maps(reduction)[0]
    if not isinstance(source.type, ir.RankedTensorType) or not indexing_map.is_projected_permutation:
        return None
    positions = [ir.AffineDimExpr(each).position for each in indexing_map.results]
    extents = dict(zip(positions, source.type.shape, strict=True))
    # Where a dimension of one element is doesn't matter.
    long = [loop for loop in positions if extents[loop] != 1]
    reduced = [loop for loop in long if loop in loops]
    if reduced != long[len(long) - len(reduced) :] or _is_transposed(source):
        return None
    return (
        None
        if any(is_dynamic(extents[loop]) for loop in reduced)
        else prod(extents[loop] for loop in reduced)
    )


def _is_transposed(value: ir.Value) -> bool:
    """Whether `value` is computed, element by element, of what has its dimensions in another order."""
    operation = defining_operation(value)
    if operation is None:
        return False
    if operation.name == "linalg.transpose":
        return True
    if operation.name in RESHAPES:
        return _is_transposed(operation.operands[0])
    if operation.name != "linalg.generic" or is_reduction(operation):
        return False
    maps = generic_maps(operation)
    return any(
        len(indexing_map.results) == indexing_map.n_dims
        and (not _keeps_order(indexing_map, maps[-1]) or _is_transposed(operand))
        for operand, indexing_map in zip(operation.operands, maps, strict=True)
    )


def _keeps_order(read: ir.AffineMap, result: ir.AffineMap) -> bool:
    """Whether dimensions that are read are in the order of the result's, but for those of one element."""
    order = list(result.results)
    dimensions = [each for each in read.results if not isinstance(each, ir.AffineConstantExpr)]
    return dimensions == [each for each in order if each in dimensions]
