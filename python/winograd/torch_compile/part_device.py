"""Where the parts of a graph run: the device of torch's, what is compiled for it, and the runtime's name."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from iree.winograd.targets import DEFAULT_DRIVERS

_NEWEST_CUDA = (8, 0)
"""The compute capability that this project's kernels for newer GPUs are compiled for."""


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
        major, minor = min(torch.cuda.get_device_capability(device), _NEWEST_CUDA)
        return PartDevice(device, f"{kind}:sm_{major}{minor}")
    return PartDevice(device, target or kind)
