"""Compiled programs called on arrays that stay on the device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from iree import runtime
from iree.winograd.errors import LoadError
from iree.winograd.loading.device import open_device

_BYTES = 4


class DevicePrograms:
    """The functions of a compiled program whose argument and result are one array of f32 each.

    Raises `LoadError` when there is no device of the URI `device`, or it can't run the program.
    """

    def __init__(self, program: bytes, device: str) -> None:
        self._device = open_device(device)
        instance = runtime.VmInstance()
        try:
            self._module = runtime.VmModule.copy_buffer(instance, program)
            hal_module = runtime.create_hal_module(instance, self._device.hal)
            self._context = runtime.VmContext(instance, [hal_module, self._module])
        except (RuntimeError, ValueError) as error:
            raise LoadError(f"programs to measure it can't run on {device!r}: {error}") from error

    def bind(self, function: str, rows: int, columns: int) -> Callable[[], Any]:
        """A call of `function` on an array of `rows` x `columns` elements, whatever they are.

        The call returns when the device is done, and leaves the result there.
        """
        buffer = self._device.hal.allocator.allocate_buffer(
            memory_type=runtime.MemoryType.DEVICE_LOCAL,
            allowed_usage=runtime.BufferUsage.DEFAULT,
            allocation_size=_BYTES * rows * columns,
        )
        view = runtime.HalBufferView(buffer, (rows, columns), runtime.HalElementType.FLOAT_32)
        arguments = runtime.VmVariantList(1)
        arguments.push_ref(view)
        looked_up = self._module.lookup_function(function)

        return partial(self._device.invoke, self._context, looked_up, arguments)
