"""The data of `dense_resource` attributes.

The bindings create these attributes from a buffer but can't read them back, so the data is taken from the
bytecode of an operation that holds the attribute. In MLIR's bytecode format a resource is the last thing in
its section, as it is.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.bindings import ir

_MAGIC = b"ML\xefR"
_RESOURCE_SECTION = 5
_ALIGNED = 0x80
_PADDING = 0xCB


def resource_data(constant: ir.Operation, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The elements of the `dense_resource` that `constant` holds as its only one, in the shape of its result.

    The result is read-only. Raises ValueError when the bytecode doesn't hold data of that size.
    """
    with constant.location:
        module = ir.Module.create()
        module.body.append(constant.clone(ip=False))
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
    shape = ir.RankedTensorType(constant.results[0].type).shape
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    section = _section(buffer.getbuffer(), _RESOURCE_SECTION)
    if len(section) < size:
        raise ValueError(f"the resource has {len(section)} bytes, but its type needs {size}")
    values: npt.NDArray[Any] = np.frombuffer(section[len(section) - size :], dtype).reshape(shape)
    values.flags.writeable = False
    return values


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
