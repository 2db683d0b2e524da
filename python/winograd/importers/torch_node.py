"""A single node of a graph of torch's, as a graph."""

from __future__ import annotations

import operator
from typing import Any

import torch


def graph_of_node(node: torch.fx.Node) -> torch.fx.Graph | None:
    """A graph of what `node` computes, of tensors that are its arguments; None where others are computed."""
    arguments = node.all_input_nodes
    results = node.meta.get("val")
    if not all(isinstance(each.meta.get("val"), torch.Tensor) for each in arguments):
        return None
    if not isinstance(results, torch.Tensor | list | tuple):
        return None
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for argument in arguments:
        copies[argument] = graph.placeholder(argument.name)
        copies[argument].meta = dict(argument.meta)
    result = graph.node_copy(node, copies.__getitem__)
    graph.output((result,) if isinstance(results, torch.Tensor) else _elements(graph, result, results))
    return graph


def _elements(graph: torch.fx.Graph, node: torch.fx.Node, values: Any) -> tuple[torch.fx.Node, ...]:
    """Those tensors that `node` computes several of."""
    elements = []
    for index, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            element = graph.call_function(operator.getitem, (node, index))
            element.meta["val"] = value
            elements.append(element)
    return tuple(elements)
