"""Functions of LLVM's dialect: blocks, branches between them, calls; and global variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir

from .values import Integer, Pointer, Value, emit, integer_type, number_attribute, pointer_type

_ERROR_BITS = 32
"""Of what each function returns: 0 where nothing failed."""


@dataclass(frozen=True)
class Block:
    """Operations one after the other, with what branches to it give it."""

    block: ir.Block

    @property
    def pointers(self) -> list[Pointer]:
        """Its arguments that are addresses."""
        pointer = pointer_type()
        return [Pointer(each) for each in self.block.arguments if each.type == pointer]

    @property
    def integers(self) -> list[Integer]:
        """Its arguments that are numbers."""
        pointer = pointer_type()
        return [Integer(each) for each in self.block.arguments if each.type != pointer]

    @contextmanager
    def at_end(self) -> Iterator[None]:
        """Has what is emitted within be added to it."""
        with ir.InsertionPoint(self.block):
            yield


@dataclass(frozen=True)
class Function:
    """One that takes pointers, and then integers of 64 bits, and returns whether something failed."""

    operation: ir.Operation
    entry: Block

    @staticmethod
    def emit(
        name: str,
        pointers: int,
        integers: int = 0,
        *,
        is_internal: bool = True,
        arguments: Sequence[ir.Attribute] | None = None,
    ) -> Function:
        """Emits it with its first block; `arguments` are attributes of these."""
        types = [pointer_type()] * pointers + [integer_type(64)] * integers
        taken = ", ".join(["ptr"] * pointers + ["i64"] * integers)
        attributes = {
            "sym_name": ir.StringAttr.get(name),
            "function_type": ir.TypeAttr.get(ir.Type.parse(f"!llvm.func<i{_ERROR_BITS} ({taken})>")),
            "linkage": _linkage(is_internal),
        }
        if arguments is not None:
            attributes["arg_attrs"] = ir.ArrayAttr.get(list(arguments))
        operation = ir.Operation.create("llvm.func", attributes=attributes, regions=1)
        locations = [ir.Location.current] * len(types)
        return Function(operation, Block(operation.regions[0].blocks.append(*types, arg_locs=locations)))

    def add_block(self, integers: int = 0, bits: int = 64) -> Block:
        """One behind those that there are, which is given integers."""
        types, locations = [integer_type(bits)] * integers, [ir.Location.current] * integers
        return Block(self.operation.regions[0].blocks.append(*types, arg_locs=locations))


def branch(target: Block, *operands: Value) -> None:
    """Goes on at a block."""
    emit("br", operands=operands, successors=[target.block])


def branch_if(condition: Integer, then: Block, otherwise: Block, *operands: Value) -> None:
    """Goes on at one of two blocks, of which the second is given operands."""
    emit(
        "cond_br",
        operands=[condition, *operands],
        attributes={"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, len(operands)])},
        successors=[then.block, otherwise.block],
    )


def leave(error: Integer) -> None:
    """Returns from the function."""
    emit("return", operands=[error])


def call(function: str | Pointer, *operands: Value) -> Integer:
    """Calls a function by its name or its address."""
    attributes: dict[str, ir.Attribute] = {"op_bundle_sizes": ir.DenseI32ArrayAttr.get([])}
    if isinstance(function, str):
        attributes["callee"] = ir.FlatSymbolRefAttr.get(function)
    else:
        operands = (function, *operands)
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([len(operands), 0])
    return Integer(emit("call", [integer_type(_ERROR_BITS)], operands, attributes).result)


def emit_global(name: str, type_: ir.Type, value: ir.Attribute, alignment: int | None = None) -> None:
    """Emits a variable of the program's."""
    attributes = {
        "sym_name": ir.StringAttr.get(name),
        "global_type": ir.TypeAttr.get(type_),
        "linkage": _linkage(is_internal=True),
        "value": value,
        "addr_space": number_attribute(0, 32),
    }
    if alignment is not None:
        attributes["alignment"] = number_attribute(alignment)
    ir.Operation.create("llvm.mlir.global", attributes=attributes, regions=1)


def _linkage(is_internal: bool) -> ir.Attribute:
    return ir.Attribute.parse(f"#llvm.linkage<{'internal' if is_internal else 'external'}>")
