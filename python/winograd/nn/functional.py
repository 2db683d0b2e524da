"""What `torch.nn.functional` has, computed by this project's kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from iree.winograd.torch_compile.explanation import GraphKind
from iree.winograd.torch_compile.settings import TorchCompileOptions
from iree.winograd.torch_compile.training_compiler import TrainingCompiler
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.function import once_differentiable
from torch.fx.experimental.proxy_tensor import make_fx

_LOADED_PROGRAMS = 1024
"""Of types of arguments that a process calls programs for; those used last stay loaded."""


def conv2d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] | str = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
) -> torch.Tensor:
    """`torch.nn.functional.conv2d`, with gradients by all three tensors.

    `input` is N x C x H x W, or C x H x W for one image, `weight` K x C/groups x R x S and `bias` K; the
    result is N x K x OH x OW. `padding` may be "valid" or "same".

    The result and each gradient is computed by a program of its own, where that is predicted to be faster
    than torch. It is compiled when it is first called for on tensors of such sizes and strides, kept on disk
    (docs/guides/torch-compile.md), and takes tensors where they are. The rest torch computes, with a
    `FallbackWarning` that says why: also tensors of float64. Under `torch.autocast` tensors are converted as
    by torch. Gradients can't be differentiated again. In a function that `torch.compile` traces this is
    torch's own operator, which the backend takes as any other.

    Raises what torch raises for arguments that don't fit, and `CallError` when a program fails. That the
    gradients are convolutions is in Huang et al., "DWM: A Decomposable Winograd Method for Convolution
    Acceleration", AAAI 2020, section Backward.
    """
    if torch.compiler.is_compiling():
        return torch.nn.functional.conv2d(input, weight, bias, stride, padding, dilation, groups)
    strides, dilations = _pair(stride), _pair(dilation)
    input, weight = _autocast(input), _autocast(weight)
    bias = None if bias is None else _autocast(bias)
    if isinstance(padding, str):
        input, padding = _pad(input, weight, strides, padding, dilations)
    images = input.unsqueeze(0) if input.dim() == 3 else input
    window = Window(strides, _pair(padding), dilations, groups)
    result: torch.Tensor = _Convolution.apply(images, weight, bias, window)  # type: ignore[no-untyped-call]
    return result.squeeze(0) if input.dim() == 3 else result


@dataclass(frozen=True)
class Window:
    """What of a convolution its tensors don't tell; per dimension, the padding is that on both sides."""

    strides: tuple[int, int]
    padding: tuple[int, int]
    dilations: tuple[int, int]
    groups: int

    @property
    def arguments(self) -> tuple[Any, ...]:
        """As torch's operators take them."""
        sizes = map(list, (self.strides, self.padding, self.dilations))
        return (*sizes, False, [0, 0], self.groups)


@dataclass(frozen=True)
class _TensorType:
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, tensor: torch.Tensor | None) -> _TensorType | None:
        if tensor is None:
            return None
        return cls(tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device)

    def example(self) -> torch.Tensor:
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=self.device)


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, window: Window
    ) -> torch.Tensor:
        context.save_for_backward(images, weight)
        context.window = window
        result: torch.Tensor
        (result,) = _call(_Forward(window), images, weight, bias)
        return result

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        mask = context.needs_input_grad[:3]
        results = iter(_call(_Backward(context.window, mask), gradient, *context.saved_tensors))
        return (*(next(results) if is_needed else None for is_needed in mask), None)


@dataclass(frozen=True)
class _Forward:
    """The convolution of images and a weight, and a bias or None."""

    window: Window

    def __call__(self, images: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
        return (torch.ops.aten.convolution.default(images, weight, bias, *self.window.arguments),)


@dataclass(frozen=True)
class _Backward:
    """Gradients by images, weight and bias, those that `mask` asks for."""

    window: Window
    mask: tuple[bool, bool, bool]

    def __call__(self, gradient: Any, images: Any, weight: Any) -> tuple[Any, ...]:
        gradients = torch.ops.aten.convolution_backward.default(
            gradient, images, weight, [weight.shape[0]], *self.window.arguments, list(self.mask)
        )
        return tuple(each for each, is_needed in zip(gradients, self.mask, strict=True) if is_needed)


def _call(operator: _Forward | _Backward, *tensors: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    function = _compiled(operator, tuple(map(_TensorType.of, tensors)), torch.get_num_threads())
    results: tuple[torch.Tensor, ...] = function([each for each in tensors if each is not None])
    return results


@lru_cache(_LOADED_PROGRAMS)
def _compiled(
    operator: _Forward | _Backward, types: tuple[_TensorType | None, ...], threads: int
) -> Callable[..., Any]:
    """`operator` on a list of tensors of these types, those that are None left out."""

    def on_tensors(*tensors: Any) -> Any:
        given = iter(tensors)
        return operator(*(None if each is None else next(given) for each in types))

    with FakeTensorMode():
        examples = [each.example() for each in types if each is not None]
        graph = make_fx(on_tensors)(*examples)
    kind: GraphKind = "forward" if isinstance(operator, _Forward) else "backward"
    settings = TorchCompileOptions(threads=threads, fallback="eager")
    return TrainingCompiler(settings, lambda explained: None).compile_half(graph, examples, kind)


def _autocast(tensor: torch.Tensor) -> torch.Tensor:
    """What torch's operator takes under `torch.autocast`: it converts all floating point but float64."""
    device = tensor.device.type
    is_taken = tensor.is_floating_point() and tensor.dtype != torch.float64
    if not is_taken or not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
        return tensor
    return tensor.to(torch.get_autocast_dtype(device))


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    first, second = (value, value) if isinstance(value, int) else tuple(value)
    return first, second


def _pad(
    input: torch.Tensor,
    weight: torch.Tensor,
    strides: tuple[int, int],
    padding: str,
    dilations: tuple[int, int],
) -> tuple[torch.Tensor, tuple[int, int]]:
    """`input` for a padding of this name, and what is left to pad with on both sides."""
    if padding == "valid":
        return input, (0, 0)
    if padding != "same" or strides != (1, 1):
        raise ValueError(f"padding must be numbers, 'valid' or, where strides are 1, 'same', got {padding!r}")
    totals = [d * (taps - 1) for d, taps in zip(dilations, weight.shape[2:], strict=True)]
    low = (totals[0] // 2, totals[1] // 2)
    # Torch has the element that is left over at the end.
    over = [total % 2 for total in reversed(totals)]
    if any(over):
        input = torch.nn.functional.pad(input, (0, over[0], 0, over[1]))
    return input, low
