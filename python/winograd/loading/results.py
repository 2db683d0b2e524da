"""Results of programs as arrays and tensors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from iree.runtime import HalBufferView
from iree.winograd.loading.element_types import ElementType, HostArray, named_type

_DLPACK_CPU = (1, 0)
"""DLPack's number of the kind of device, and of the device."""


class _Memory:
    """What an array on a buffer of a device needs: the buffer, which is mapped, and the device.

    A buffer goes back to its device, which it doesn't keep. Arrays may live longer than all programs, and
    the interpreter lets go of modules, which devices are in, in an order of its own.
    """

    __slots__ = ("__array_struct__", "_device")

    def __init__(self, device: Any, mapped: npt.NDArray[Any]) -> None:
        self._device = device
        # How numpy describes `mapped` to others, by what keeps it: read faster than `__array_interface__`.
        self.__array_struct__ = mapped.__array_struct__

    def __del__(self) -> None:
        # Before the device.
        del self.__array_struct__


class Result(NamedTuple):
    """A result in memory of the host: that of the buffer of `view`, the runtime's, or else numpy's."""

    array: HostArray
    device: Any = None
    view: Any = None

    def numpy(self) -> npt.NDArray[Any]:
        """As an array of numpy's, or of ml_dtypes."""
        memory, element_type = self.array
        return memory.view(element_type.dtype) if element_type.is_extension else memory

    def torch(self) -> Any:
        """As a tensor of torch's."""
        torch = sys.modules["torch"]
        memory, element_type = self.array
        if not element_type.is_extension:
            return self._tensor(torch, element_type)
        # torch has no unsigned integers of some sizes, DLPack no floating point of 8 bits.
        bits = named_type(f"int{8 * memory.itemsize}")
        assert bits is not None
        return self._tensor(torch, bits).view(getattr(torch, element_type.name))

    def _tensor(self, torch: ModuleType, element_type: ElementType) -> Any:
        memory = self.array.memory.view(element_type.memory)
        if self.view is None or memory.size == 0:
            return torch.from_numpy(memory)
        # As an array of numpy's memory it would outlive the interpreter with objects of the runtime's.
        from iree.winograd.loading.shared_memory import SHARED

        view = HalBufferView(self.view.get_buffer(), memory.shape, element_type.hal)
        tensor = torch.utils.dlpack.from_dlpack(self.device.create_dlpack_capsule(view, *_DLPACK_CPU))
        SHARED.add(tensor)
        return tensor


def mapped(device: Any, view: Any, element_type: ElementType) -> Result:
    """What a buffer view of the runtime holds in host memory, which `device`, the runtime's, has."""
    return Result(HostArray(array_of(device, view, element_type.memory), element_type), device, view)


def array_of(device: Any, view: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The memory of the host that a buffer view of the runtime is of, on `device`, as elements of `dtype`."""
    return np.asarray(_Memory(device, np.ndarray(view.shape, dtype, view.map())))


def has_tensor(arguments: Sequence[Any]) -> bool:
    """Whether a tensor of torch's is among `arguments`."""
    torch = sys.modules.get("torch")
    return torch is not None and any(isinstance(argument, torch.Tensor) for argument in arguments)
