"""What computes the images of a batch one by one."""

from __future__ import annotations

from iree.winograd.dialect.bindings import ir, linalg_structure
from iree.winograd.passes.match.elementwise import captures
from iree.winograd.passes.match.navigation import RESHAPES
from iree.winograd.passes.match.no_match import NoMatch


def image_operands(operation: ir.Operation) -> frozenset[int] | NoMatch:
    """The operands of which each image of the results reads its own alone, along their first dimension.

    All images read the same of the other operands. No match says what mixes images.
    """
    if not operation.results or not all(_holds_images(result) for result in operation.results):
        return NoMatch(operation, "it has other results than images of known sizes")
    if operation.name == "tensor.pad":
        return _operands_of_pad(operation)
    if operation.name in RESHAPES:
        shapes = [
            list(ir.RankedTensorType(each.type).shape) for each in (operation.operands[0], *operation.results)
        ]
        is_apart = shapes[0][:1] == shapes[1][:1] and len(operation.operands) == 1
        return frozenset({0}) if is_apart else NoMatch(operation, "it reshapes images together")
    if operation.name in ("tensor.extract_slice", "tensor.insert_slice"):
        return _operands_of_slice(operation)
    if operation.name == "tensor.concat":
        if ir.IntegerAttr(operation.attributes["dim"]).value == 0:
            return NoMatch(operation, "it concatenates images")
        return frozenset(range(len(operation.operands)))
    return _operands_of_loops(operation)


def _holds_images(value: ir.Value) -> bool:
    type_ = value.type
    return isinstance(type_, ir.RankedTensorType) and type_.rank > 0 and bool(type_.has_static_shape)


def _operands_of_pad(operation: ir.Operation) -> frozenset[int] | NoMatch:
    names = ("static_low", "static_high")
    low, high = (ir.DenseI64ArrayAttr(operation.attributes[name])[0] for name in names)
    if len(operation.operands) > 1 or low or high or captures(operation.regions[0].blocks[0]):
        return NoMatch(operation, "it pads images with others, or by sizes known only at run time")
    return frozenset({0})


def _operands_of_slice(operation: ir.Operation) -> frozenset[int] | NoMatch:
    parts = operation.operands[: 2 if operation.name == "tensor.insert_slice" else 1]
    # Reductions of rank would have the dimension of images be another one.
    ranks = {ir.RankedTensorType(each.type).rank for each in (*parts, operation.results[0])}
    if len(operation.operands) > len(parts) or len(ranks) > 1:
        return NoMatch(operation, "its part has other dimensions, or is known only at run time")
    first = [
        ir.DenseI64ArrayAttr(operation.attributes[f"static_{name}"])[0]
        for name in ("offsets", "sizes", "strides")
    ]
    if first != [0, ir.RankedTensorType(parts[0].type).shape[0], 1]:
        return NoMatch(operation, "its part isn't of all images")
    return frozenset(range(len(parts)))


def _operands_of_loops(operation: ir.Operation) -> frozenset[int] | NoMatch:
    """Those of an operation of linalg's whose outermost loop over results is over images."""
    is_loops = operation.name.startswith("linalg.")
    attributes = linalg_structure.get_indexing_maps(operation) if is_loops else None
    if attributes is None:
        return NoMatch(operation, "it isn't known what it computes")
    maps = [ir.AffineMapAttr(attribute).value for attribute in attributes]
    image_loops = {_first_loop(each) for each in maps[len(maps) - len(operation.results) :]}
    if len(image_loops) > 1 or None in image_loops:
        return NoMatch(operation, "the first dimensions of its results aren't one of its loops")
    (loop,) = image_loops
    assert loop is not None
    body = operation.regions[0].blocks[0]
    if captures(body) or any(_is_index_of(view.operation, loop) for view in body.operations):
        return NoMatch(operation, "its body reads other tensors, or which image it computes")
    found = set()
    for number, indexing_map in enumerate(maps):
        involved = [position for position, each in enumerate(indexing_map.results) if _involves(each, loop)]
        if involved and (involved != [0] or _first_loop(indexing_map) != loop):
            return NoMatch(operation, "it reads other images than that which it computes")
        if involved:
            found.add(number)
    return frozenset(found)


def _first_loop(indexing_map: ir.AffineMap) -> int | None:
    """The loop over the first dimension of what is read or written by a map."""
    first = indexing_map.results[0] if len(indexing_map.results) else None
    return first.position if isinstance(first, ir.AffineDimExpr) else None


def _involves(expression: ir.AffineExpr, loop: int) -> bool:
    if isinstance(expression, ir.AffineDimExpr):
        return bool(expression.position == loop)
    if isinstance(expression, ir.AffineBinaryExpr):
        return _involves(expression.lhs, loop) or _involves(expression.rhs, loop)
    return False


def _is_index_of(operation: ir.Operation, loop: int) -> bool:
    return operation.name == "linalg.index" and bool(
        ir.IntegerAttr(operation.attributes["dim"]).value == loop
    )
