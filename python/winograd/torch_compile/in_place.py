"""Operators of functional graphs that write their results over operands which nothing else reads."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

_ATEN = torch.ops.aten

_IN_PLACE: Mapping[object, OpOverload] = MappingProxyType(
    {_ATEN.relu.default: _ATEN.relu_.default, _ATEN.add.Tensor: _ATEN.add_.Tensor}
)
"""Operators that write to their first operand in place of others."""

_ALLOCATING = (
    _ATEN.convolution.default,
    _ATEN.convolution_backward.default,
    _ATEN._native_batch_norm_legit_functional.default,
    _ATEN.native_batch_norm_backward.default,
    _ATEN.max_pool2d_with_indices_backward.default,
)
"""Operators, apart from those on each element, whose results are memory of their own."""


def write_in_place(graph: Graph) -> None:
    """Have activations, their gradients, and sums in `graph` be written over their first operands.

    Only where nothing else reads these, in the graph or later. What torch traces is functional: eagerly, a
    model's own activations may be in place, and gradients are summed so.
    """
    for node in graph.nodes:
        if node.op != "call_function" or not node.args or not _may_overwrite(node.args[0], node):
            continue
        if node.target is _ATEN.threshold_backward.default:
            node.target = _ATEN.threshold_backward.grad_input
            node.kwargs = {**node.kwargs, "grad_input": node.args[0]}
        elif node.target in _IN_PLACE:
            node.target = _IN_PLACE[node.target]


def _may_overwrite(operand: object, node: Node) -> bool:
    """Whether `operand` is as large as the result of `node` and, once that is computed, of no use."""
    if not isinstance(operand, Node) or set(operand.users) != {node}:
        return False
    before, after = operand.meta.get("val"), node.meta.get("val")
    if not isinstance(before, torch.Tensor) or not isinstance(after, torch.Tensor):
        return False
    is_alike = (before.dtype, before.shape, before.stride()) == (after.dtype, after.shape, after.stride())
    return is_alike and _owns_memory(operand)


def _owns_memory(node: Node) -> bool:
    """Whether the result of `node` lies in memory of its own."""
    if node.target is operator.getitem:
        return _owns_memory(node.all_input_nodes[0])
    if not isinstance(node.target, OpOverload):
        return False
    return node.target in _ALLOCATING or torch.Tag.pointwise in node.target.tags
