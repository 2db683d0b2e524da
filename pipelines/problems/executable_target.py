"""The executable targets that a module is compiled for, as IREE states them in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.navigation import operations_of

CPU_BACKEND = "llvm-cpu"
"""IREE's name of the back end for CPUs."""
VULKAN_FORMAT = "vulkan-spirv-fb"
CUDA_FORMAT = "cuda-nvptx-fb"
GPU_FORMATS = (CUDA_FORMAT, VULKAN_FORMAT, "rocm-hsaco-fb")
"""IREE's names of what kernels of GPUs are compiled to."""
"""That of kernels for Vulkan."""
_EXECUTABLE_TARGET = re.compile(r'#hal\.executable\.target<"(?P<backend>[^"]+)", "(?P<format>[^"]+)"')
_STRING_FIELD = r'\b{name} = "(?P<value>[^"]*)"'


@dataclass(frozen=True)
class ExecutableTarget:
    """One `#hal.executable.target`: a back end, its format, and its configuration as MLIR text."""

    backend: str
    format: str
    configuration: str

    def field(self, name: str) -> str:
        """A string of the configuration, empty if it isn't there."""
        match = re.search(_STRING_FIELD.format(name=re.escape(name)), self.configuration)
        return "" if match is None else match["value"]


def executable_targets(module: ir.Operation) -> tuple[ExecutableTarget, ...]:
    """All targets of the devices that the module declares, in their order, each once."""
    found: dict[ExecutableTarget, None] = {}
    for device in devices(module):
        # The bindings have no accessors for device attributes; their text is all there is.
        text = str(device.attributes["initial_value"])
        starts = [match.start() for match in _EXECUTABLE_TARGET.finditer(text)]
        for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
            match = _EXECUTABLE_TARGET.match(text, start)
            assert match is not None
            found[ExecutableTarget(match["backend"], match["format"], text[start:end])] = None
    return tuple(found)


def binary_formats(module: ir.Operation) -> frozenset[str]:
    """What the kernels of a module are compiled to, by IREE's names, after its phase `hal`."""
    return frozenset(
        ir.StringAttr(binary.attributes["format"]).value
        for executable in operations_of(module)
        if executable.name == "hal.executable"
        for binary in operations_of(executable)
        if binary.name == "hal.executable.binary"
    )


def only_device(module: ir.Operation) -> str | None:
    """The symbol of the device that the module declares; None where it declares several, or none."""
    names = [ir.StringAttr(device.attributes["sym_name"]).value for device in devices(module)]
    return names[0] if len(names) == 1 else None


def devices(module: ir.Operation) -> Iterator[ir.Operation]:
    """The globals by which the module declares them."""
    for view in module.regions[0].blocks[0].operations:
        operation = view.operation
        if operation.name != "util.global" or "initial_value" not in operation.attributes:
            continue
        if str(ir.TypeAttr(operation.attributes["type"]).value) == "!hal.device":
            yield operation
