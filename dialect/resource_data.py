"""The data of `dense_resource` attributes.

The bindings create these attributes from a buffer but can't read them back. An array that one was created of
here is remembered as long as the attribute keeps it; other data is taken from the bytecode of an operation
that holds the attribute. In MLIR's bytecode format a resource is the last thing in its section, as it is.
"""

from __future__ import annotations

import ctypes
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.bindings import ir

_MAGIC = b"ML\xefR"
_RESOURCE_SECTION = 5
_ALIGNED = 0x80
_PADDING = 0xCB


_arrays: WeakValueDictionary[tuple[int, str], npt.NDArray[Any]] = WeakValueDictionary()
"""What attributes were created of, by the address of their context and their text."""

_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


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
    capsule = attribute.context._CAPIPtr
    return _capsule_pointer(capsule, _capsule_name(capsule)), str(attribute)


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
        written = _Chunks()
        module.operation.write_bytecode(written)
    shape = ir.RankedTensorType(constant.results[0].type).shape
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    values: npt.NDArray[Any] = np.frombuffer(written.resource(size), dtype).reshape(shape)
    values.flags.writeable = False
    return values


class _Chunks:
    """A file in memory, as it was written: a resource is a chunk of its own, which isn't copied."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []

    def write(self, chunk: bytes) -> None:
        self._chunks.append(chunk)

    def resource(self, size: int) -> memoryview:
        """The only resource of a module, of `size` bytes. Raises ValueError where it doesn't have them."""
        largest = max(self._chunks, key=len)
        # All that is not the resource is less than it then.
        if len(largest) == size and 2 * size > sum(map(len, self._chunks)):
            return memoryview(largest)
        section = _section(memoryview(b"".join(self._chunks)), _RESOURCE_SECTION)
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
