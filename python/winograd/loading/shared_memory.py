"""Memory of IREE's that torch uses, which has to stay when the interpreter ends."""

from __future__ import annotations

import atexit
import ctypes
import threading
from weakref import WeakSet

import torch


class SharedMemory:
    """The memory of results and constants. It goes back to the device when no tensor uses it any more.

    A buffer doesn't keep the cache of its device that it goes back to. When the interpreter ends, devices are
    freed with the modules, in no order that could be relied on, and tensors may live longer: to give their
    memory back would be a crash. What tensors use at that time is never given back, and returns to the system
    with the process.
    """

    def __init__(self) -> None:
        # torch keeps the Python object of a storage as long as the storage, for views and in C++ too.
        self._used: WeakSet[torch.UntypedStorage] = WeakSet()
        # Garbage that is collected meanwhile may call a model.
        self._lock = threading.RLock()
        self._kept = False

    def add(self, tensor: torch.Tensor) -> None:
        """Share the memory of `tensor`, which is IREE's."""
        storage = tensor.untyped_storage()
        with self._lock:
            if self._kept:
                _keep(storage)
            else:
                self._used.add(storage)

    def keep(self) -> None:
        """From here on never give back what tensors use, or will use."""
        with self._lock:
            self._kept = True
            for storage in self._used:
                _keep(storage)


def _keep(storage: torch.UntypedStorage) -> None:
    # A reference of an object's would be gone with the interpreter.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(storage))


SHARED = SharedMemory()
"""That of all programs of the process."""

# Before modules, and devices with them, are freed.
atexit.register(SHARED.keep)
