"""The data of `dense_resource` attributes.

The bindings create these attributes from a buffer but can't read them back. An array that one was created of
here is remembered as long as the attribute keeps it; other data is taken from the bytecode of an operation
that holds the attribute. MLIR writes a resource from its place in memory, where large ones are read.
In its bytecode format a resource is the last thing in its section, as it is.
"""

from __future__ import annotations

import ctypes
import io
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.bindings import c_library, c_pointer, ir

_MAGIC = b"ML\xefR"
_RESOURCE_SECTION = 5
_ALIGNED = 0x80
_PADDING = 0xCB
_LARGE = 1 << 16
"""Bytes of a resource that are worth more than what is written beside it."""


_arrays: WeakValueDictionary[tuple[int, str], npt.NDArray[Any]] = WeakValueDictionary()
"""What attributes were created of, by the address of their context and their text."""


class _StringRef(ctypes.Structure):
    """`MlirStringRef`."""

    _fields_ = (("data", ctypes.c_void_p), ("length", ctypes.c_size_t))


_WRITE = ctypes.CFUNCTYPE(None, _StringRef, ctypes.c_void_p)
_write_bytecode = c_library.mlirOperationWriteBytecode
_write_bytecode.restype, _write_bytecode.argtypes = None, [ctypes.c_void_p, _WRITE, ctypes.c_void_p]


def resource_attribute(
    array: npt.NDArray[Any], name: str, type_: ir.RankedTensorType
) -> ir.DenseResourceElementsAttr:
    """A `dense_resource` of `type_` on the memory of `array`, contiguous, which it keeps.

    Nobody else has this view of it: it is remembered until the attribute's context is gone.
    """
    kept = array.view()
    attribute = ir.DenseResourceElementsAttr.get_from_buffer(kept, name, type_)
    _arrays[_key(attribute)] = kept
    return attribute


def _key(attribute: ir.Attribute) -> tuple[int, str]:
    # Objects of Python that stand for a context come and go.
    return c_pointer(attribute.context), str(attribute)


def resource_data(constant: ir.Operation, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The elements of the `dense_resource` that `constant` holds as its only one, in the shape of its result.

    The result is read-only. Raises ValueError when the bytecode doesn't hold data of that size.
    """
    remembered = _arrays.get(_key(constant.attributes["value"]))
    if remembered is not None:
        known: npt.NDArray[Any] = remembered.reshape(-1).view(dtype)
        known = known.reshape(ir.RankedTensorType(constant.results[0].type).shape)
        known.flags.writeable = False
        return known
    with constant.location:
        module = ir.Module.create()
        module.body.append(constant.clone(ip=False))
    shape = ir.RankedTensorType(constant.results[0].type).shape
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    memory = _in_place(module.operation, size) or _copied(module.operation, size)
    values: npt.NDArray[Any] = np.frombuffer(memory, dtype).reshape(shape)
    values.flags.writeable = False
    return values


def _in_place(module: ir.Operation, size: int) -> Any:
    """The memory of the only resource of `module`, of `size` bytes, or None for one that isn't found so.

    It is there as long as the context, which the result keeps.
    """
    found: list[int] = []
    others = 0

    def write(chunk: _StringRef, _: object) -> None:
        nonlocal others
        if chunk.length == size:
            found.append(chunk.data)
        else:
            others += chunk.length

    if size < _LARGE:
        return None
    _write_bytecode(c_pointer(module), _WRITE(write), None)
    # All that isn't the resource is less than it.
    if len(found) != 1 or others >= size:
        return None
    memory = (ctypes.c_byte * size).from_address(found[0])
    memory.context = module.context  # type: ignore[attr-defined]
    return memory


def _copied(module: ir.Operation, size: int) -> memoryview:
    """The only resource of `module`, at least `size` bytes. Raises ValueError where it doesn't have them."""
    buffer = io.BytesIO()
    module.write_bytecode(buffer)
    section = _section(buffer.getbuffer(), _RESOURCE_SECTION)
    if len(section) < size:
        raise ValueError(f"the resource has {len(section)} bytes, but its type needs {size}")
    return section[len(section) - size :]


def _section(bytecode: memoryview, wanted: int) -> memoryview:
    """The contents of one section. Raises ValueError when there is none."""
    if bytecode[: len(_MAGIC)] != _MAGIC:
        raise ValueError("not MLIR bytecode")
    _, position = _variable_length_integer(bytecode, len(_MAGIC))
    position = bytes(bytecode[position : position + 256]).index(0) + position + 1
    while position < len(bytecode):
        kind = bytecode[position]
        length, position = _variable_length_integer(bytecode, position + 1)
        if kind & _ALIGNED:
            _, position = _variable_length_integer(bytecode, position)
            while bytecode[position] == _PADDING:
                position += 1
        if kind & ~_ALIGNED == wanted:
            return bytecode[position : position + length]
        position += length
    raise ValueError("the bytecode holds no resource")


def _variable_length_integer(bytecode: memoryview, position: int) -> tuple[int, int]:
    """The integer at `position` and where it ends; low zeros count the bytes that follow the first."""
    first = bytecode[position]
    if first == 0:
        return int.from_bytes(bytecode[position + 1 : position + 9], "little"), position + 9
    following = (first & -first).bit_length() - 1
    end = position + 1 + following
    return int.from_bytes(bytecode[position:end], "little") >> (following + 1), end
