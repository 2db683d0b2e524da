"""Graphs without tensors that have no elements: torch-mlir and IREE divide by their sizes, and abort."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

_aten = torch.ops.aten

# Write their last tensors into their first.
_WRITING = {
    _aten.copy.default,
    _aten.index_add.default,
    _aten.index_copy.default,
    _aten.index_put.default,
    _aten.masked_scatter.default,
    _aten.scatter.src,
    _aten.scatter.value,
    _aten.scatter_add.default,
    _aten.scatter_reduce.two,
    _aten.slice_scatter.default,
}


def compute_without_elements(graph: Graph) -> None:
    """Has nodes of `graph`, functional, compute nothing with tensors that are known to have no elements.

    Such results are made anew; what is computed of nothing else, as a sum of nothing, is a constant; they
    are left out of concatenations and are not written into others.
    """
    for node in list(graph.nodes):
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        tensors = [each for each in pytree.tree_leaves((node.args, node.kwargs)) if _is_tensor(each)]
        replacement = _replacement(graph, node, tensors)
        if replacement is not None:
            node.replace_all_uses_with(replacement)
    graph.eliminate_dead_code()


def _replacement(graph: Graph, node: Node, tensors: list[Any]) -> Node | None:
    result = node.meta.get("val")
    if not isinstance(result, torch.Tensor):
        return None
    empty = [each for each in tensors if _is_empty(_value(each))]
    if _is_empty(result):
        return _filled(graph, node, 0) if tensors else None
    if not empty:
        return None
    if len(empty) == len(tensors):
        return _constant(graph, node)
    if node.target is _aten.cat.default:
        parts = [each for each in tensors if not _is_empty(_value(each))]
        node.args = (parts, *node.args[1:])
    elif node.target in _WRITING and isinstance(node.args[0], Node) and not _is_empty(_value(node.args[0])):
        return node.args[0]
    return None


def _constant(graph: Graph, node: Node) -> Node | None:
    """What `node` computes of tensors without elements, if its elements are all one number."""

    def real(value: Any) -> Any:
        if not _is_tensor(value):
            return value
        like = _value(value)
        return torch.empty(tuple(like.shape), dtype=like.dtype)

    args, kwargs = pytree.tree_map(real, (node.args, dict(node.kwargs)))
    kwargs = {name: value for name, value in kwargs.items() if name != "device"}
    with _disable_current_modes():
        assert isinstance(node.target, torch._ops.OpOverload)
        elements = node.target(*args, **kwargs).flatten()
        is_uniform = bool(elements.isnan().all() or (elements == elements[0]).all())
        return _filled(graph, node, elements[0].item()) if is_uniform else None


def _filled(graph: Graph, node: Node, number: Any) -> Node:
    value = node.meta["val"]
    with graph.inserting_before(node):
        made = graph.call_function(
            _aten.full.default, (list(value.shape), number), {"dtype": value.dtype, "device": value.device}
        )
    made.meta = dict(node.meta)
    return made


def _is_tensor(value: Any) -> bool:
    return isinstance(_value(value), torch.Tensor)


def _value(value: Any) -> Any:
    return value.meta.get("val") if isinstance(value, Node) else value


def _is_empty(value: torch.Tensor) -> bool:
    return any(isinstance(size, int) and size == 0 for size in value.shape)
