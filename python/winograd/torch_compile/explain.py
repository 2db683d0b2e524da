"""`explain`: what `torch.compile` with our backend makes of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from iree.winograd.errors import WinogradError
from iree.winograd.importers.torch_graphs import in_mode
from iree.winograd.torch_compile.backend import lent
from iree.winograd.torch_compile.explanation import ExplainedGraph, Explanation
from iree.winograd.torch_compile.graph_compiler import GraphCompiler
from iree.winograd.torch_compile.settings import read_settings
from torch._dynamo.exc import BackendCompilerFailed
from torch.utils import _pytree as pytree


def explain(
    model: torch.nn.Module, *inputs: Any, options: Mapping[str, Any] | None = None, training: bool = False
) -> Explanation:
    """Compile `model` as `torch.compile(model, backend="winograd", options=options)` does, and say how.

    It is called once on `inputs`, in evaluation mode and without gradients; with `training` in training mode,
    and its gradients are computed. The model stays as it is. Raises `WinogradError`s, such as
    `InvalidOptionError` for options that aren't known or have bad values.
    """
    settings = read_settings(None, options)
    graphs: list[ExplainedGraph] = []
    compiler = GraphCompiler(settings, graphs.append)
    compiled = torch.compile(model, backend=lent(compiler.compile))
    try:
        with in_mode(model, training=training):
            if training:
                _take_step(model, compiled, inputs)
            else:
                with torch.no_grad():
                    compiled(*inputs)
    except BackendCompilerFailed as error:
        if isinstance(error.inner_exception, WinogradError):
            raise error.inner_exception from None
        raise
    return Explanation(settings.fallback_for(training=training), tuple(graphs))


def _take_step(model: torch.nn.Module, compiled: Callable[..., Any], inputs: Sequence[Any]) -> None:
    """Has `compiled`, which is `model`, compute its gradients, and leaves the model as it was."""
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        with torch.enable_grad(), torch.random.fork_rng(devices=()):
            results = _differentiable(compiled(*inputs))
            sources = _differentiable((list(model.parameters()), inputs))
            if results:
                torch.autograd.grad(results, sources, list(map(torch.ones_like, results)), allow_unused=True)
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)


def _differentiable(values: Any) -> list[torch.Tensor]:
    leaves = pytree.tree_leaves(values)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
