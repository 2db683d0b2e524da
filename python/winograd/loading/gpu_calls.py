"""Calls of programs for CUDA on arrays that are on the GPU already: torch's, and others' by DLPack."""

from __future__ import annotations

import re
import sys
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
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(argument, torch.Tensor):
        return bool(argument.is_cuda and torch.version.cuda)
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
        self._on_host = on_host
        match = _URI.fullmatch(uri)
        self._launched: Callable[..., Any] | None = None
        self._parameters: Sequence[_Parameter] = ()
        if launchable is not None and signature is not None and match is not None:
            index = int(match[1] or 0)
            self._launched = self._launched_function(launchable, signature, read_only, index)
            if self._launched is not None:
                self._parameters = [
                    _Parameter(f"argument {number} of {name}", expected, index)
                    for number, expected in enumerate(signature.inputs)
                ]

    def __call__(self, given: Sequence[Any]) -> Any:
        """The results: tensors on the GPU. Raises `CallError`."""
        if self._launched is None:
            return self._by_host(*given)
        return self._launched(
            *[parameter.take(each) for parameter, each in zip(self._parameters, given, strict=True)]
        )

    def _launched_function(
        self,
        launchable: Launchable | OpenLaunchable,
        signature: FunctionSignature,
        read_only: frozenset[int],
        index: int,
    ) -> Callable[..., Any] | None:
        import torch
        from iree.winograd.loading.launched_function import TYPES, Argument
        from iree.winograd.loading.open_launched_function import launched_function

        types = {each.element_type for each in (*signature.inputs, *signature.outputs)}
        if not types <= TYPES.keys():
            return None
        arguments = [Argument(number, None, number in read_only) for number in range(len(signature.inputs))]
        orders = [None] * len(signature.outputs)
        try:
            return launched_function(
                cuda_driver(),
                launchable,
                arguments,
                orders,
                torch.device("cuda", index),
                lambda reason: self._by_host,
                self._by_host,
            )
        except (CudaError, OSError):
            return None

    def _by_host(self, *given: Any) -> Any:
        tensors = [_tensor(argument) for argument in given]
        device = next(tensor.device for tensor in tensors if tensor.device.type == "cuda")
        results = self._on_host(*(tensor.cpu() for tensor in tensors))
        if isinstance(results, tuple):
            return tuple(result.to(device) for result in results)
        return results.to(device)


class _Parameter:
    """What an argument, named `name`, has to be on the GPU of number `index`."""

    def __init__(self, name: str, expected: TensorSignature, index: int) -> None:
        import torch
        from iree.winograd.loading.launched_function import TYPES

        self._name = name
        self._expected = expected
        self._type = TYPES[expected.element_type]
        self._place = torch.device("cuda", index)

    def take(self, argument: Any) -> torch.Tensor:
        """The argument as a tensor there. Raises `CallError`."""
        # Each operation on a tensor takes as long as a tenth of the call.
        tensor = _tensor(argument)
        if tensor.requires_grad:
            tensor = tensor.detach()
        if tensor.dtype != self._type or not self._expected.accepts(tensor.shape):
            got = f"{tuple(tensor.shape)} of {tensor.dtype}"
            raise CallError(f"{self._name} must be {self._expected}, got {got}")
        place = tensor.device
        if place == self._place:
            return tensor
        if place.type == "cuda":
            raise CallError(f"{self._name} is on {place}, the program on {self._place}")
        return tensor.to(self._place)


def _tensor(argument: Any) -> torch.Tensor:
    """A tensor of torch's on the memory of an array of others', where that is on a GPU or of numpy's."""
    import torch

    if isinstance(argument, torch.Tensor):
        return argument
    tensor: torch.Tensor = (
        torch.from_dlpack(argument) if is_on_cuda(argument) else torch.as_tensor(argument)  # type: ignore[attr-defined]
    )
    return tensor
