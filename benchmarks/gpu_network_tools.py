"""What compiles the networks that `benchmarks.gpu_networks` calls."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import iree.winograd

from benchmarks.compile_contenders import OURS
from benchmarks.gpu_device import allow_tf32

if TYPE_CHECKING:
    import torch

INDUCTOR, GRAPHS, HALF_GRAPHS = "inductor", "inductor-graphs", "inductor-graphs-fp16"
AUTOTUNED = "inductor-max-autotune"
FEWER_GUARDS, LOADED = f"{OURS}-fewer-guards", f"{OURS}-loaded"
_Compile = Callable[["torch.nn.Module", Sequence["torch.Tensor"]], Callable[..., Any]]
"""Makes a model what is called with inputs like those that it is given."""


@dataclass(frozen=True)
class Tool:
    """What compiles a network, and the numbers that it computes with."""

    compile: _Compile
    dtype: str | None = None
    """None for the network's own."""
    tf32: bool = True
    channels_last: bool = True
    """Whether the model and its images are."""
    is_alone: bool = False
    """Whether it has a process of its own."""


def by_torch(**options: Any) -> _Compile:
    def compile(model: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
        import torch

        compiled: Callable[..., Any] = torch.compile(model, **options)
        return compiled

    return compile


def _loaded(model: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
    """The program that the model is, without torch's compiler."""
    from iree.winograd.torch_compile.part_device import part_device

    device = part_device(inputs[0].device, None)
    imported = iree.winograd.import_torch(model.cpu(), *(each.cpu() for each in inputs))
    program = iree.winograd.compile(imported, target=device.target)
    return iree.winograd.load(program, device.uri)


TOOLS: Mapping[str, Tool] = MappingProxyType(
    {
        OURS: Tool(by_torch(backend=OURS), tf32=False),
        FEWER_GUARDS: Tool(
            by_torch(backend=OURS, options={"guard_filter_fn": iree.winograd.fewer_guards}),
            tf32=False,
            is_alone=True,
        ),
        LOADED: Tool(_loaded, tf32=False, channels_last=False, is_alone=True),
        GRAPHS: Tool(by_torch(mode="reduce-overhead")),
        INDUCTOR: Tool(by_torch()),
        AUTOTUNED: Tool(by_torch(mode="max-autotune")),
        HALF_GRAPHS: Tool(by_torch(mode="reduce-overhead"), dtype="float16"),
    }
)
TYPES: Mapping[str, str] = MappingProxyType({"f32": "float32", "f16": "float16", "bf16": "bfloat16"})
"""Torch's names of the types of networks."""


def tools_for(names: Sequence[str], type_: str) -> Mapping[str, Tool]:
    """What networks of a type are measured by: of those of half precision without tools of another type."""
    tools = {name: TOOLS[name] for name in names}
    return {name: each for name, each in tools.items() if type_ == "f32" or each.dtype is None}


def processes(names: Sequence[str]) -> list[Sequence[str]]:
    """The tools of each process of a network."""
    together = [name for name in names if not TOOLS[name].is_alone]
    return [each for each in (together, *([name] for name in names if TOOLS[name].is_alone)) if each]


def prepared(tool: Tool, model: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
    """The model as the tool compiles it, for inputs that it has `taken`."""
    import torch

    own = copy.deepcopy(model)
    if tool.dtype is not None:
        own = own.to(getattr(torch, tool.dtype))
    if tool.channels_last:
        own = own.to(memory_format=torch.channels_last)
    compiled = tool.compile(own, inputs)

    def call(*inputs: torch.Tensor) -> Any:
        # Torch compiles anew where this isn't what it was.
        allow_tf32(tool.tf32)
        return compiled(*inputs)

    return call


def taken(tool: Tool, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Inputs, the first of which are images, as the tool takes them."""
    import torch

    dtype = inputs[0].dtype if tool.dtype is None else getattr(torch, tool.dtype)
    images, *conditions = [as_type(each, dtype) for each in inputs]
    if tool.channels_last:
        images = images.contiguous(memory_format=torch.channels_last)
    return [images, *conditions]


def as_type(tensor: torch.Tensor, type_: torch.dtype) -> torch.Tensor:
    """Numbers of a type; integers stay."""
    return tensor.to(type_) if tensor.is_floating_point() else tensor
