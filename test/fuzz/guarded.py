"""Arrays beside pages that may not be touched: an access out of bounds ends the process."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from iree.winograd.dialect.algebra.ceil_div import ceil_div

ALIGNMENT = 64
"""Bytes; code that IREE generates relies on it."""
CANARY = 0xA5
_PROT_NONE = 0
_LIBC = ctypes.CDLL(None, use_errno=True)

Edge = Literal["start", "end"]


class GuardedArray:
    """A copy of an array that starts after, or ends before, a page that may not be touched.

    Its address is a multiple of `alignment`. Between the end and that page are the bytes that the alignment
    of the start leaves; `is_intact` says whether they are as they were.
    """

    def __init__(self, array: npt.NDArray[Any], edge: Edge, alignment: int = ALIGNMENT) -> None:
        page = mmap.PAGESIZE
        body = ceil_div(max(array.nbytes, 1), page) * page
        self._memory = mmap.mmap(-1, body + 2 * page)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        for guard in (address, address + page + body):
            if _LIBC.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), _PROT_NONE):
                raise OSError(ctypes.get_errno(), "mprotect failed")
        offset = 0 if edge == "start" else (body - array.nbytes) // alignment * alignment
        self._body = np.frombuffer(self._memory, np.uint8, body, page)
        self._body[:] = CANARY
        self._inside = slice(offset, offset + array.nbytes)
        self.array = self._body[self._inside].view(array.dtype).reshape(array.shape)
        self.array[...] = array

    @property
    def is_intact(self) -> bool:
        outside = (self._body[: self._inside.start], self._body[self._inside.stop :])
        return all(bool((part == CANARY).all()) for part in outside)
