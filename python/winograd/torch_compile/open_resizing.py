"""Images that are resized in a graph of open sizes, in operators that kernels are found for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from iree.winograd.importers.torch_operators.resizing import interpolate
from torch.overrides import TorchFunctionMode


class OpenResizing(TorchFunctionMode):
    """Has what is traced meanwhile resize images of open sizes as an imported model does.

    Where sizes are symbols torch takes what resizes apart itself, before tables of decompositions are asked,
    and computes positions in another form, in f64.
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if function is torch.nn.functional.interpolate and _is_open(args[0] if args else kwargs["input"]):
            image, *others = args or (kwargs["input"],)
            options = {name: value for name, value in kwargs.items() if name != "input"}
            resized = interpolate(image, *others, **options)
            if resized is not NotImplemented:
                return resized
        return function(*args, **kwargs)


def _is_open(image: torch.Tensor) -> bool:
    return any(isinstance(size, torch.SymInt) for size in image.shape)
