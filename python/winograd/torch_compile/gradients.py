"""Gradients of convolutions in torch's graphs, each as an operator of its own."""

from __future__ import annotations

import operator
from collections.abc import Container

import torch
from iree.winograd.torch_compile.division import Gradient
from torch.fx import Graph, Node

CONVOLUTION_BACKWARD = torch.ops.aten.convolution_backward.default

_INPUT, _WEIGHT, _BIAS = range(3)
_SUFFIXES = ("_input", "_weight")


def split_gradients(graph: Graph, left: Container[str]) -> list[Node]:
    """Have `graph` compute the gradients of a convolution's input and weight by an operator each.

    Those whose operators would have names in `left` stay together, as torch computes them. Returns others.
    """
    split = []
    for node in graph.find_nodes(op="call_function", target=CONVOLUTION_BACKWARD):
        results = {user.args[1]: user for user in node.users}
        for index in (_INPUT, _WEIGHT):
            if index in results and node.name + _SUFFIXES[index] not in left:
                gradient, result = _gradient(graph, node, index)
                _replace(graph, results.pop(index), result)
                split.append(gradient)
        # Torch would compute the gradient of the weight beside that of the bias.
        if _BIAS in results and _WEIGHT not in results:
            _replace(graph, results.pop(_BIAS), _bias_gradient(graph, node))
        if results:
            _keep(node, results)
        else:
            graph.erase_node(node)
    return split


def _gradient(graph: Graph, node: Node, index: int) -> tuple[Node, Node]:
    """An operator for one of the three gradients that `node` computes, and its result."""
    with graph.inserting_before(node):
        alone = graph.create_node("call_function", node.target, node.args, name=node.name + _SUFFIXES[index])
        alone.meta = dict(node.meta)
        _keep(alone, (index,))
        return alone, graph.call_function(operator.getitem, (alone, index))


def _bias_gradient(graph: Graph, node: Node) -> Node:
    gradient = node.all_input_nodes[0]
    dimensions = [each for each in range(gradient.meta["val"].dim()) if each != 1]
    with graph.inserting_before(node):
        return graph.call_function(torch.ops.aten.sum.dim_IntList, (gradient, dimensions))


def _replace(graph: Graph, result: Node, replacement: Node) -> None:
    replacement.meta = dict(result.meta)
    result.replace_all_uses_with(replacement)
    graph.erase_node(result)


def _keep(node: Node, indices: Container[object]) -> None:
    """Has `node` compute no other gradients."""
    node.args = (*node.args[:-1], [index in indices for index in range(3)])
    values = enumerate(node.meta["val"])
    node.meta["val"] = tuple(value if index in indices else None for index, value in values)
    node.meta.pop("tensor_meta", None)


def gradient_of(node: Node) -> Gradient | None:
    """Which gradient `node`, of those that `split_gradients` returns, computes; None for convolutions."""
    if node.target is not CONVOLUTION_BACKWARD:
        return None
    return "weight" if node.meta["val"][_INPUT] is None else "input"
