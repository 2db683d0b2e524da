"""A compiled program bound to its device and arguments, so that a call of it is nothing but the call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from iree import runtime
from iree.winograd.loading.device import ELEMENT_TYPES, Device

# Programs give integers whose sign isn't known.
_SIGNLESS = {f"INT_{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)}
_DTYPES = {int(element_type): dtype for dtype, element_type in ELEMENT_TYPES.items()} | {
    int(getattr(runtime.HalElementType, name)): dtype for name, dtype in _SIGNLESS.items()
}


class BoundProgram:
    """Function `main` of a .vmfb, with f32 arguments, buffer views, that stay on the device."""

    def __init__(self, program: bytes | Path, arguments: Sequence[Any], device: Device) -> None:
        instance = runtime.VmInstance()
        module = (
            runtime.VmModule.copy_buffer(instance, program)
            if isinstance(program, bytes)
            else runtime.VmModule.mmap(instance, str(program))
        )
        self._device = device
        self._context = runtime.VmContext(instance, [runtime.create_hal_module(instance, device.hal), module])
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
        return tuple(self._device.copy_to_host(view, _DTYPES[view.element_type]) for view in views)
