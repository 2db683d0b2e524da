"""What graphs as torch traces them, before they are made functional, tell of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

_MODE_ARGUMENTS = {"batch_norm": 5, "dropout": 2}
"""Functions that do otherwise in training, by their names, and which argument says so."""


def has_convolutions(graph: GraphModule) -> bool:
    """Whether `graph` has any, transposed ones included."""
    return any(True for _ in _convolutions(graph))


def has_open_images(graph: GraphModule) -> bool:
    """Whether `graph` convolves images, or by filters, of sizes that it has symbols for, batches aside."""
    for node in _convolutions(graph):
        images, *filters = [_example(each) for each in node.all_input_nodes]
        if images is None or not all(isinstance(size, int) for size in images.shape[1:]):
            return True
        if not all(each is not None and _is_static(each) for each in filters):
            return True
    return False


def has_only_empty_convolutions(graph: GraphModule) -> bool:
    """Whether all that `graph` convolves has no elements: there is next to nothing to compute."""
    operands = [map(_example, node.all_input_nodes) for node in _convolutions(graph)]
    return all(any(_is_empty(each) for each in each_operands) for each_operands in operands)


def may_need_gradients(inputs: Sequence[Any]) -> bool:
    """Whether gradients by `inputs` of a graph may be asked for."""
    return torch.is_grad_enabled() and any(
        isinstance(each, torch.Tensor) and each.requires_grad for each in inputs
    )


def is_in_evaluation_mode(graph: GraphModule) -> bool:
    """Whether the model is, as far as its normalization and dropout, if it has any, tell."""
    modes = []
    for node in graph.graph.nodes:
        index = _MODE_ARGUMENTS.get(getattr(node.target, "__name__", ""))
        if node.op == "call_function" and index is not None and len(node.args) > index:
            modes.append(node.args[index])
    return bool(modes) and not any(modes)


def _convolutions(graph: GraphModule) -> Iterator[Node]:
    for node in graph.graph.nodes:
        if node.op == "call_function" and "conv" in str(node.target):
            yield node


def _example(node: Node) -> torch.Tensor | None:
    value = node.meta.get("example_value")
    return value if isinstance(value, torch.Tensor) else None


def _is_static(tensor: torch.Tensor) -> bool:
    return all(isinstance(size, int) for size in tensor.shape)


def _is_empty(tensor: torch.Tensor | None) -> bool:
    return tensor is not None and _is_static(tensor) and 0 in tensor.shape
