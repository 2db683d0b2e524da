"""A compiled program bound to its device and arguments, so that a call of it is nothing but the call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
from iree import runtime
from iree.winograd.loading.device import Device
from iree.winograd.loading.element_types import type_of_hal
from iree.winograd.loading.program_module import program_module


class BoundProgram:
    """Function `main` of a .vmfb, with f32 arguments, buffer views, that stay on the device."""

    def __init__(self, program: bytes | Path, arguments: Sequence[Any], device: Device) -> None:
        instance = runtime.VmInstance()
        module = program_module(instance, program)
        self._device, self._context = device.open_context(self, instance, module)
        self._function = module.lookup_function("main")
        self._arguments = runtime.VmVariantList(len(arguments))
        for argument in arguments:
            self._arguments.push_ref(argument)

    def run(self) -> Any:
        """Call the function; returns what holds the result, when it is there."""
        return self._device.invoke(self._context, self._function, self._arguments)

    def results(self) -> tuple[npt.NDArray[Any], ...]:
        """Call the function and copy its results."""
        values = self.run()
        views = (values.get_as_object(index, runtime.HalBufferView) for index in range(len(values)))
        return tuple(map(self._copied, views))

    def _copied(self, view: Any) -> npt.NDArray[Any]:
        element_type = type_of_hal(view.element_type)
        assert element_type is not None
        return self._device.copy_to_host(view, element_type.memory).view(element_type.dtype)
