"""Sizes of tensors, known at compile time or not."""

from __future__ import annotations

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.navigation import defining_operation


def is_dynamic(size: int) -> bool:
    return bool(size == ir.ShapedType.get_dynamic_size())


def is_size_of(size: ir.Value, value: ir.Value, dimension: int) -> bool:
    """Whether `size`, an `index`, is certain to be the size of a tensor's dimension."""
    return _origin_of(size) == _origin_of_size(value, dimension)


def stated_size(value: ir.Value, dimension: int) -> int | ir.Value | None:
    """The size that a tensor's type says, or the operation that makes it: an empty one, or a kernel's."""
    shape = ir.RankedTensorType(value.type).shape
    if not is_dynamic(shape[dimension]):
        return int(shape[dimension])
    operation = defining_operation(value)
    if operation is None:
        return None
    before = sum(map(is_dynamic, shape[:dimension]))
    if operation.name == "tensor.empty":
        return operation.operands[before]
    if operation.name == "tensor.extract_slice":
        whole = operation.operands[0]
        is_placed = not any(map(is_dynamic, operation.attributes["static_offsets"]))
        return operation.operands[1 + before] if is_placed and whole.type.rank == len(shape) else None
    if operation.name == "flow.dispatch" and len(operation.results) == 1:
        # Its last operands are the sizes of its result.
        return operation.operands[len(operation.operands) - sum(map(is_dynamic, shape)) + before]
    return None


def source_of_size(value: ir.Value, dimension: int) -> ir.Value:
    """The tensor as far up as its size in `dimension` is that of `value`, or known."""
    while (
        stated_size(value, dimension) is None and (source := _operand_of_size(value, dimension)) is not None
    ):
        value = source
    return value


def _origin_of_size(value: ir.Value, dimension: int) -> object:
    """Where a size comes from: a number, a value that is no tensor's size, or a tensor and its dimension."""
    source = source_of_size(value, dimension)
    size = stated_size(source, dimension)
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
    if dimension == 0 and (transforms := transforms_of(value)) is not None:
        # Images: those of the input whose transform was multiplied.
        return transforms[1].input
    return None


def transforms_of(value: ir.Value) -> tuple[ops.OutputTransformOp, ops.InputTransformOp] | None:
    """The transform that makes a convolution's output, and that of its input; None for another value."""
    operation = defining_operation(value)
    if operation is None or operation.name != ops.OutputTransformOp.OPERATION_NAME:
        return None
    product = defining_operation(operation.operands[0])
    transform = None if product is None else defining_operation(product.operands[0])
    if transform is None or transform.name != ops.InputTransformOp.OPERATION_NAME:
        return None
    return ops.OutputTransformOp(operation), ops.InputTransformOp(transform)
