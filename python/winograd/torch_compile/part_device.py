"""Where the parts of a graph run: the device of torch's, what is compiled for it, and the runtime's name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from iree.winograd.targets import DEFAULT_DRIVERS
from torch.fx import Node

_CUDA_TARGETS = ((6, 0), (7, 0), (7, 5), (8, 0), (8, 6), (8, 9))
"""The compute capabilities that IREE compiles for, in order. GPUs run code for an older one."""
_OWN_CUDA_TARGETS: Mapping[tuple[int, int], str] = MappingProxyType({(9, 0): "sm_90a"})
"""Targets whose code runs on GPUs of one compute capability only, by that."""


@dataclass(frozen=True)
class PartDevice:
    """A device of torch's, and the `target` of `iree.winograd.compile` that programs for it have."""

    torch: torch.device
    target: str

    @property
    def uri(self) -> str:
        """The runtime's name of the device."""
        driver = DEFAULT_DRIVERS[self.torch.type]
        return driver if self.torch.type == "cpu" else f"{driver}://{self.torch.index or 0}"


def part_device(device: torch.device, target: str | None) -> PartDevice:
    """Where convolutions on tensors of `device` run; `target` is what the user asks for.

    A target for another kind of device is for tensors on such a one.
    """
    kind = device.type if target is None else target.partition(":")[0]
    if kind != device.type:
        return PartDevice(torch.device(kind), kind)
    if kind == "cuda" and target in (None, kind):
        return PartDevice(device, f"{kind}:{_architecture(torch.cuda.get_device_capability(device))}")
    return PartDevice(device, target or kind)


def device_of_convolutions(convolutions: Iterable[Node], target: str | None) -> PartDevice:
    """That of the first of a graph's convolutions, or gradients of one, which these usually share."""
    devices = (node.all_input_nodes[0].meta["val"].device for node in convolutions)
    return part_device(next(devices, torch.device("cpu")), target)


def _architecture(capability: tuple[int, int]) -> str:
    """That to compile for on a GPU of this compute capability."""
    if capability in _OWN_CUDA_TARGETS:
        return _OWN_CUDA_TARGETS[capability]
    major, minor = max((each for each in _CUDA_TARGETS if each <= capability), default=capability)
    return f"sm_{major}{minor}"
