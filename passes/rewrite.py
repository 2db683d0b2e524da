"""The vocabulary that rewrites share: walking, sizes, tensors, transpositions, erasing the unused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import arith, ir, linalg, tensor

Transform = TypeVar("Transform", bound=ops.TransformOp)

# Operations of these dialects that the passes leave without uses have no effect of their own.
_PURE_DIALECTS = ("affine.", "arith.", "linalg.", "math.", "tensor.", "winograd.")


def walk(root: ir.Operation) -> Iterator[ir.Operation]:
    """All operations inside `root` in program order; `root` must not be rewritten meanwhile."""
    for region in root.regions:
        for block in region.blocks:
            for view in block.operations:
                yield view.operation
                yield from walk(view.operation)


def transforms(root: ir.Operation, kind: type[Transform]) -> list[Transform]:
    """The transforms of one kind inside `root`, in program order."""
    return [kind(operation) for operation in walk(root) if operation.name == kind.OPERATION_NAME]


def defining_operation(value: ir.Value) -> ir.Operation | None:
    """The operation that `value` is a result of; None for a block argument."""
    return value.owner.operation if isinstance(value, ir.OpResult) else None


def only_user(value: ir.Value) -> ir.Operation | None:
    """The one operation that uses `value`, however often; None when there are several or none."""
    users = {use.owner.operation for use in value.uses}
    return users.pop() if len(users) == 1 else None


def erase_if_unused(operations: Iterable[ir.Operation]) -> None:
    """Erase each of `operations` whose results aren't used, then what only it used, and so on.

    Operations that may have effects stay.
    """
    pending = list(dict.fromkeys(operations))
    while pending:
        operation = pending.pop()
        if not operation.name.startswith(_PURE_DIALECTS):
            continue
        if any(True for result in operation.results for _ in result.uses):
            continue
        for operand in operation.operands:
            definition = defining_operation(operand)
            if definition is not None and definition not in pending:
                pending.append(definition)
        operation.erase()


def is_dynamic(size: int) -> bool:
    return bool(size == ir.ShapedType.get_dynamic_size())


def size_of(value: ir.Value, dimension: int) -> int | ir.Value:
    """The size of a tensor's dimension: a number, or an `index` value where it is known only at run time.

    Such a value is found as far up as the size is the same, so that it doesn't depend on what a rewrite
    replaces.
    """
    source = _source_of_size(value, dimension)
    size = _stated_size(source, dimension)
    return tensor.dim(source, index_constant(dimension)) if size is None else size


def is_size_of(size: ir.Value, value: ir.Value, dimension: int) -> bool:
    """Whether `size`, an `index`, is certain to be the size of a tensor's dimension."""
    return _origin_of(size) == _origin_of_size(value, dimension)


def _origin_of_size(value: ir.Value, dimension: int) -> object:
    """Where a size comes from: a number, a value that is no tensor's size, or a tensor and its dimension."""
    source = _source_of_size(value, dimension)
    size = _stated_size(source, dimension)
    if size is None:
        return source, dimension
    return size if isinstance(size, int) else _origin_of(size)


def _origin_of(size: ir.Value) -> object:
    query = defining_operation(size)
    index = (
        defining_operation(query.operands[1]) if query is not None and query.name == "tensor.dim" else None
    )
    if query is None or index is None or index.name != "arith.constant":
        return size
    return _origin_of_size(query.operands[0], index.attributes["value"].value)


def _stated_size(value: ir.Value, dimension: int) -> int | ir.Value | None:
    """The size that a tensor's type or, for an empty one, the operation that makes it says."""
    shape = ir.RankedTensorType(value.type).shape
    if not is_dynamic(shape[dimension]):
        return int(shape[dimension])
    operation = defining_operation(value)
    if operation is None or operation.name != "tensor.empty":
        return None
    return operation.operands[sum(map(is_dynamic, shape[:dimension]))]


def _source_of_size(value: ir.Value, dimension: int) -> ir.Value:
    """The tensor as far up as its size in `dimension` is that of `value`, or known."""
    while (
        _stated_size(value, dimension) is None and (source := _operand_of_size(value, dimension)) is not None
    ):
        value = source
    return value


def _operand_of_size(value: ir.Value, dimension: int) -> ir.Value | None:
    """The operand of what defines `value` whose size in `dimension` is the same."""
    operation = defining_operation(value)
    if operation is None:
        return None
    if operation.name.startswith("linalg."):
        number = ir.OpResult(value).result_number - len(operation.results)
        init = operation.operands[len(operation.operands) + number]
        return init if init.type == value.type else None
    if operation.name == "tensor.insert_slice":
        return operation.operands[1]
    if operation.name == "tensor.pad":
        low, high = operation.attributes["static_low"], operation.attributes["static_high"]
        return operation.operands[0] if low[dimension] == high[dimension] == 0 else None
    if operation.name == ops.OutputTransformOp.OPERATION_NAME and dimension == 0:
        # Images: those of the input whose transform was multiplied.
        product = defining_operation(operation.operands[0])
        transform = None if product is None else defining_operation(product.operands[0])
        if transform is not None and transform.name == ops.InputTransformOp.OPERATION_NAME:
            return transform.operands[0]
    return None


def index_constant(number: int) -> ir.Value:
    return arith.constant(ir.IndexType.get(), number)


def zero_filled(sizes: Sequence[int | ir.Value], element_type: ir.Type) -> ir.Value:
    """Build a tensor of zeros."""
    return filled(arith.constant(element_type, 0.0), sizes, element_type)


def filled(element: ir.Value, sizes: Sequence[int | ir.Value], element_type: ir.Type) -> ir.Value:
    """Build a tensor whose elements are all `element`."""
    return linalg.fill(element, outs=[tensor.empty(list(sizes), element_type)])


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
    return linalg.transpose(value, outs=[init], permutation=list(permutation)).results[0]


def inverse_permutation(permutation: Sequence[int]) -> list[int]:
    return [list(permutation).index(dimension) for dimension in range(len(permutation))]


def permuted_map(indexing_map: ir.AffineMap, permutation: Sequence[int]) -> ir.AffineMap:
    """`indexing_map` for loops in the order `permutation`: new loop `i` is old loop `permutation[i]`."""
    inverse = inverse_permutation(permutation)
    loops = [ir.AffineExpr.get_dim(position) for position in inverse]
    reorder = ir.AffineMap.get(len(inverse), 0, loops)
    return ir.AffineMap.get(len(inverse), 0, [result.compose(reorder) for result in indexing_map.results])


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


def inline_block(block: ir.Block, arguments: Sequence[ir.Value]) -> list[ir.Value]:
    """Clone the operations of `block` to the current insertion point; returns what its terminator would.

    Constants that `block` uses from outside are cloned as well, so that the copy stands on its own.
    """
    values = dict(zip(block.arguments, arguments, strict=True))
    return inline_operations([view.operation for view in block.operations], values)


def inline_operations(operations: Sequence[ir.Operation], values: dict[ir.Value, ir.Value]) -> list[ir.Value]:
    """Clone `operations`, which end with a terminator, with `values` for operands; returns what it would."""
    *body, terminator = operations
    for operation in body:
        operands = [_inlined(operand, values) for operand in operation.operands]
        copy = operation.clone()
        for index, operand in enumerate(operands):
            copy.operands[index] = operand
        values |= dict(zip(operation.results, copy.results, strict=True))
    return [_inlined(operand, values) for operand in terminator.operands]


def _inlined(value: ir.Value, values: dict[ir.Value, ir.Value]) -> ir.Value:
    if value not in values:
        definition = defining_operation(value)
        if definition is None or definition.name != "arith.constant":
            return value
        values[value] = definition.clone().results[0]
    return values[value]
