"""Integers, pointers and structures of LLVM's dialect, in which kernels are when they come to be shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from iree.winograd.dialect.bindings import ir

_DYNAMIC = -(2**31)
"""In place of an index of `llvm.getelementptr` that is a value."""
_EXCHANGE, _ADD = 0, 1
"""Of `llvm.atomicrmw`."""
_EQUAL, _UNEQUAL, _BELOW, _ABOVE = 0, 1, 6, 8
"""Of `llvm.icmp`, of unsigned numbers."""


class Ordering(IntEnum):
    """How others see an access among those before and after it, as LLVM's dialect numbers that."""

    MONOTONIC = 2
    RELEASE = 5
    ACQUIRE_RELEASE = 6
    SEQUENTIALLY_CONSISTENT = 7


def integer_type(bits: int) -> ir.Type:
    """That of integers without a sign."""
    return ir.IntegerType.get_signless(bits)


def pointer_type() -> ir.Type:
    """That of addresses."""
    return ir.Type.parse("!llvm.ptr")


def number_attribute(number: int, bits: int = 64) -> ir.Attribute:
    """A number as an attribute."""
    return ir.IntegerAttr.get(integer_type(bits), number)


def emit(
    name: str,
    results: Sequence[ir.Type] = (),
    operands: Sequence[Value] = (),
    attributes: Mapping[str, ir.Attribute] | None = None,
    successors: Sequence[ir.Block] = (),
) -> ir.Operation:
    """Emits an operation of LLVM's dialect.

    Not by its bindings, which every process that compiles would have to load.
    """
    return ir.Operation.create(
        f"llvm.{name}",
        list(results),
        [each.value for each in operands],
        attributes=dict(attributes or {}),
        successors=list(successors),
    )


@dataclass(frozen=True)
class Value:
    """What can be stored, and be an operand."""

    value: ir.Value


@dataclass(frozen=True)
class Integer(Value):
    """A number without a sign."""

    @staticmethod
    def of(number: int, bits: int = 64) -> Integer:
        """A constant."""
        value = {"value": number_attribute(number, bits)}
        return Integer(emit("mlir.constant", [integer_type(bits)], attributes=value).result)

    def __add__(self, other: Integer) -> Integer:
        return self._combined("add", other)

    def __mul__(self, other: Integer) -> Integer:
        return self._combined("mul", other)

    def __floordiv__(self, other: Integer) -> Integer:
        return self._combined("udiv", other)

    def __mod__(self, other: Integer) -> Integer:
        return self._combined("urem", other)

    def __and__(self, other: Integer) -> Integer:
        return self._combined("and", other)

    def __or__(self, other: Integer) -> Integer:
        return self._combined("or", other)

    def equals(self, other: Integer) -> Integer:
        return Integer(_compared(self, _EQUAL, other))

    def differs(self, other: Integer) -> Integer:
        return Integer(_compared(self, _UNEQUAL, other))

    def is_below(self, other: Integer) -> Integer:
        return Integer(_compared(self, _BELOW, other))

    def is_above(self, other: Integer) -> Integer:
        return Integer(_compared(self, _ABOVE, other))

    def narrowed(self, bits: int) -> Integer:
        """The last bits."""
        return Integer(emit("trunc", [integer_type(bits)], [self]).result)

    def widened(self, bits: int) -> Integer:
        """The same number of more bits."""
        return Integer(emit("zext", [integer_type(bits)], [self]).result)

    def _combined(self, name: str, other: Integer) -> Integer:
        return Integer(emit(name, [self.value.type], [self, other]).result)


@dataclass(frozen=True)
class Structure(Value):
    """Fields side by side."""

    def integer(self, field: int, bits: int) -> Integer:
        """A field that is an integer."""
        return Integer(self._extracted(field, integer_type(bits)))

    def pointer(self, field: int) -> Pointer:
        """A field that is an address."""
        return Pointer(self._extracted(field, pointer_type()))

    def _extracted(self, field: int, result: ir.Type) -> ir.Value:
        position = {"position": ir.DenseI64ArrayAttr.get([field])}
        return emit("extractvalue", [result], [self], position).result


@dataclass(frozen=True)
class Pointer(Value):
    """The address of something in memory."""

    @staticmethod
    def null() -> Pointer:
        """That of nothing."""
        return Pointer(emit("mlir.zero", [pointer_type()]).result)

    @staticmethod
    def to(symbol: str) -> Pointer:
        """That of a function or of a global variable."""
        name = {"global_name": ir.FlatSymbolRefAttr.get(symbol)}
        return Pointer(emit("mlir.addressof", [pointer_type()], attributes=name).result)

    @staticmethod
    def to_new(count: Integer, element: ir.Type, alignment: int | None = None) -> Pointer:
        """That of memory on the stack for so many elements."""
        attributes: dict[str, ir.Attribute] = {"elem_type": ir.TypeAttr.get(element)}
        if alignment is not None:
            attributes["alignment"] = number_attribute(alignment)
        return Pointer(emit("alloca", [pointer_type()], [count], attributes).result)

    def equals(self, other: Pointer) -> Integer:
        return Integer(_compared(self, _EQUAL, other))

    def with_nothing_known(self) -> Pointer:
        """The same address, of which the compiler assumes nothing that is said of this one."""
        same = {"asm_string": ir.StringAttr.get(""), "constraints": ir.StringAttr.get("=r,0")}
        return Pointer(emit("inline_asm", [pointer_type()], [self], same).result)

    def byte(self, offset: int) -> Pointer:
        """That of what lies so many bytes further on."""
        return self._offset([offset], integer_type(8))

    def element(self, number: Integer, bits: int) -> Pointer:
        """That of one of several integers."""
        return self._offset([_DYNAMIC], integer_type(bits), [number])

    def field(self, number: int, structure: ir.Type) -> Pointer:
        """That of a field of the structure that it is the address of."""
        return self._offset([0, number], structure)

    def load_pointer(self) -> Pointer:
        return Pointer(self._loaded(pointer_type()))

    def load_integer(self, bits: int = 64) -> Integer:
        return Integer(self._loaded(integer_type(bits)))

    def load_structure(self, type_: ir.Type) -> Structure:
        return Structure(self._loaded(type_))

    def store(self, value: Value) -> None:
        emit("store", operands=[value, self])

    def _loaded(self, type_: ir.Type) -> ir.Value:
        return emit("load", [type_], [self]).result

    def _offset(self, indices: Sequence[int], element: ir.Type, numbers: Sequence[Integer] = ()) -> Pointer:
        attributes = {
            "elem_type": ir.TypeAttr.get(element),
            "rawConstantIndices": ir.DenseI32ArrayAttr.get(list(indices)),
        }
        return Pointer(emit("getelementptr", [pointer_type()], [self, *numbers], attributes).result)


@dataclass(frozen=True)
class Atomic:
    """An integer in memory that threads read and write at once."""

    pointer: Pointer
    bits: int

    def load(self, ordering: Ordering = Ordering.SEQUENTIALLY_CONSISTENT) -> Integer:
        return Integer(emit("load", [integer_type(self.bits)], [self.pointer], self._access(ordering)).result)

    def store(self, value: Integer, ordering: Ordering = Ordering.SEQUENTIALLY_CONSISTENT) -> None:
        emit("store", operands=[value, self.pointer], attributes=self._access(ordering))

    def exchange(self, value: Integer, ordering: Ordering = Ordering.SEQUENTIALLY_CONSISTENT) -> Integer:
        """Stores a number, and gives that which was there."""
        return self._update(_EXCHANGE, value, ordering)

    def add(self, value: Integer, ordering: Ordering = Ordering.SEQUENTIALLY_CONSISTENT) -> Integer:
        """Adds a number to the one that was there, which it gives."""
        return self._update(_ADD, value, ordering)

    def _access(self, ordering: Ordering) -> dict[str, ir.Attribute]:
        return {"alignment": number_attribute(self.bits // 8), "ordering": number_attribute(ordering)}

    def _update(self, operation: int, value: Integer, ordering: Ordering) -> Integer:
        attributes = {"bin_op": number_attribute(operation), "ordering": number_attribute(ordering)}
        return Integer(emit("atomicrmw", [integer_type(self.bits)], [self.pointer, value], attributes).result)


def _compared(left: Value, predicate: int, right: Value) -> ir.Value:
    kind = {"predicate": number_attribute(predicate)}
    return emit("icmp", [integer_type(1)], [left, right], kind).result
