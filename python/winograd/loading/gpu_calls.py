"""Calls of programs for CUDA on arrays that are on the GPU already: torch's, and others' by DLPack."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from iree.winograd.cuda.driver import CudaError, cuda_driver
from iree.winograd.errors import CallError
from iree.winograd.loading.launchable import Launchable, OpenLaunchable
from iree.winograd.loading.signatures import FunctionSignature, TensorSignature

if TYPE_CHECKING:
    import torch

_CUDA_KINDS = (2, 13)
"""DLPack's numbers for memory of CUDA's, and for that which it manages."""
_URI = re.compile(r"cuda(?:://(\d+))?")


def is_on_cuda(argument: Any) -> bool:
    """Whether an argument of a call is on a GPU of NVIDIA's."""
    place = getattr(argument, "__dlpack_device__", None)
    return place is not None and place()[0] in _CUDA_KINDS


class GpuCalls:
    """Calls of the function `name` on a device of this `uri`, on arrays some of which are on a GPU.

    They are launched on torch's current stream, and return tensors of torch's there at once. What has no list
    of launches is copied to the host and called there: `on_host`.
    """

    def __init__(
        self,
        name: str,
        uri: str,
        signature: FunctionSignature | None,
        launchable: Launchable | OpenLaunchable | None,
        read_only: frozenset[int],
        on_host: Callable[..., Any],
    ) -> None:
        self._name = name
        self._signature = signature
        self._on_host = on_host
        match = _URI.fullmatch(uri)
        self._index = None if match is None else int(match[1] or 0)
        self._launched = self._launched_function(launchable, read_only)

    def __call__(self, given: Sequence[Any]) -> Any:
        """The results: tensors on the GPU. Raises `CallError`."""
        if self._launched is None or self._signature is None:
            return self._by_host(*given)
        tensors = [
            self._taken(number, argument, expected)
            for number, (argument, expected) in enumerate(zip(given, self._signature.inputs, strict=True))
        ]
        return self._launched(*tensors)

    def _launched_function(
        self, launchable: Launchable | OpenLaunchable | None, read_only: frozenset[int]
    ) -> Callable[..., Any] | None:
        if launchable is None or self._signature is None or self._index is None:
            return None
        import torch
        from iree.winograd.loading.launched_function import TYPES, Argument
        from iree.winograd.loading.open_launched_function import launched_function

        types = {each.element_type for each in (*self._signature.inputs, *self._signature.outputs)}
        if not types <= TYPES.keys():
            return None
        arguments = [
            Argument(number, None, number in read_only) for number in range(len(self._signature.inputs))
        ]
        orders = [None] * len(self._signature.outputs)
        try:
            return launched_function(
                cuda_driver(),
                launchable,
                arguments,
                orders,
                torch.device("cuda", self._index),
                lambda reason: self._by_host,
                self._by_host,
            )
        except (CudaError, OSError):
            return None

    def _taken(self, number: int, argument: Any, expected: TensorSignature) -> torch.Tensor:
        """An argument as a tensor on the GPU, of the type and shape that are expected."""
        import torch
        from iree.winograd.loading.launched_function import TYPES

        tensor = _tensor(argument).detach()
        if tensor.dtype != TYPES[expected.element_type] or not expected.accepts(tuple(tensor.shape)):
            got = f"{tuple(tensor.shape)} of {tensor.dtype}"
            raise CallError(f"argument {number} of {self._name} must be {expected}, got {got}")
        place = torch.device("cuda", self._index or 0)
        if tensor.device.type == "cuda" and tensor.device != place:
            raise CallError(
                f"argument {number} of {self._name} is on {tensor.device}, the program on {place}"
            )
        return tensor.to(place)

    def _by_host(self, *given: Any) -> Any:
        tensors = [_tensor(argument) for argument in given]
        device = next(tensor.device for tensor in tensors if tensor.device.type == "cuda")
        results = self._on_host(*(tensor.cpu() for tensor in tensors))
        if isinstance(results, tuple):
            return tuple(result.to(device) for result in results)
        return results.to(device)


def _tensor(argument: Any) -> torch.Tensor:
    """A tensor of torch's on the memory of an array of others', where that is on a GPU or of numpy's."""
    import torch

    if isinstance(argument, torch.Tensor):
        return argument
    tensor: torch.Tensor = (
        torch.from_dlpack(argument) if is_on_cuda(argument) else torch.as_tensor(argument)  # type: ignore[attr-defined]
    )
    return tensor
