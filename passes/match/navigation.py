"""From operations to those inside of them, before them and after them, and to those that they name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from iree.winograd.dialect import ops
from iree.winograd.dialect.bindings import ir

KERNEL = "stream.executable"
"""The name of operations that hold a kernel."""

KEEPING_ELEMENTS = (
    "linalg.transpose",
    "tensor.collapse_shape",
    "tensor.expand_shape",
    "tensor.extract_slice",
)
"""Operations whose results are elements of their first operand, as they are."""

EXITS = ("func.return", "hal.tensor.export", "util.return")
"""What takes a result out of the program, in the layout that it has there."""

SIZE = "tensor.dim"
"""The operation that asks for one size of a tensor."""

LAYOUT_CAST = "builtin.unrealized_conversion_cast"
"""What stands for a result in a layout of kernels' own, until the kernels that read it are there."""

RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape")
_VIEWS = ("tensor.cast", *RESHAPES, "tensor.extract_slice")
_HOLDERS = (KERNEL, "hal.executable", "hal.executable.variant")
"""Operations that hold the module of a kernel, or each other."""

Transform = TypeVar("Transform", bound=ops.TransformOp)


def walk(root: ir.Operation) -> Iterator[ir.Operation]:
    """All operations inside `root` in program order, but those of kernels: by far the most, for no pass."""
    inside: list[ir.Operation] = []
    # Looked up once: this runs for each operation, for each pass.
    add, advance, skip = inside.append, ir.WalkResult.ADVANCE, ir.WalkResult.SKIP

    def visit(operation: ir.Operation) -> ir.WalkResult:
        add(operation)
        return skip if operation.name == KERNEL else advance

    root.walk(visit, ir.WalkOrder.PRE_ORDER)
    return iter(inside[1:])


def kernel_functions(holder: ir.Operation) -> Iterator[ir.Operation]:
    """Those with a body in kernels inside `holder`, a program or a part of it, without a walk of bodies."""
    for each in operations_of(holder):
        if each.name in _HOLDERS:
            yield from kernel_functions(each)
        elif each.name == "builtin.module" and holder.name in _HOLDERS:
            functions = [inner for inner in operations_of(each) if inner.name == "func.func"]
            yield from (function for function in functions if function.regions[0].blocks)


def operations_of(parent: ir.Operation) -> list[ir.Operation]:
    """Those in the only block of `parent`."""
    return [view.operation for view in parent.regions[0].blocks[0].operations]


def transforms(root: ir.Operation, kind: type[Transform]) -> list[Transform]:
    """The transforms of one kind inside `root`, in program order."""
    return [kind(operation) for operation in walk(root) if operation.name == kind.OPERATION_NAME]


def operand_groups(operation: ir.Operation) -> list[list[ir.Value]]:
    """The operands of an operation with groups of them, by group."""
    remaining = iter(operation.operands)
    sizes = ir.DenseI32ArrayAttr(operation.attributes["operandSegmentSizes"])
    return [[next(remaining) for _ in range(size)] for size in sizes]


def defining_operation(value: ir.Value) -> ir.Operation | None:
    """The operation that `value` is a result of; None for a block argument."""
    return value.owner.operation if isinstance(value, ir.OpResult) else None


def unreshaped(value: ir.Value) -> ir.Value:
    """The tensor that `value` is with other dimensions, all elements in the same order."""
    definition = defining_operation(value)
    while definition is not None and definition.name in RESHAPES:
        value = definition.operands[0]
        definition = defining_operation(value)
    return value


def viewed(value: ir.Value) -> ir.Value:
    """The tensor whose memory `value` may be a part of, or have in another shape."""
    while (operation := defining_operation(value)) is not None and operation.name in _VIEWS:
        value = operation.operands[0]
    return value


def is_empty(value: ir.Value) -> bool:
    """Whether a tensor holds nothing yet."""
    operation = defining_operation(value)
    return operation is not None and operation.name == "tensor.empty"


def only_user(value: ir.Value) -> ir.Operation | None:
    """The one operation that uses `value`, however often; None when there are several or none."""
    users = {use.owner.operation for use in value.uses}
    return users.pop() if len(users) == 1 else None


def readers(tensor: ir.Value) -> list[ir.Operation]:
    """The operations that read elements of a tensor, each once: not those that ask for its sizes."""
    users = dict.fromkeys(use.owner.operation for use in tensor.uses)
    return [user for user in users if user.name != SIZE]


def symbol_name(symbol: ir.Operation) -> str:
    """The name of an operation that defines a symbol."""
    return str(ir.StringAttr(symbol.attributes["sym_name"]).value)


def is_public(function: ir.Operation) -> bool:
    """Whether a function may be called from outside of the program."""
    visibility = function.attributes.get("sym_visibility")
    return visibility is None or ir.StringAttr(visibility).value == "public"


def called_function(call: ir.Operation) -> str:
    """The name of the function that a `util.call` calls."""
    return str(ir.FlatSymbolRefAttr(call.attributes["callee"]).value)


def called_kernels(dispatch: ir.Operation) -> tuple[str, ...]:
    """The symbols of the kernels that a dispatch calls, of several targets when there are several."""
    return tuple(
        ir.SymbolRefAttr(each).value[0] for each in ir.ArrayAttr(dispatch.attributes["entry_points"])
    )
