"""Weights that a graph divides and joins before it reads them.

Torch's newer exporter does so for recurrent layers, whose gates ONNX has in another order. A product by what
is joined would be one by no constant.
"""

from __future__ import annotations

import numpy as np
from iree.winograd.importers.onnx_nodes.constants import evaluated
from iree.winograd.importers.onnx_nodes.values import OWN_DOMAINS, Array, Values
from onnx import GraphProto, NodeProto, numpy_helper

_MOVES = frozenset(("Concat", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"))
"""Operators whose results have each element of their operands at most once."""


def join_weights(graph: GraphProto, operator_set: int) -> None:
    """Makes initializers of what `graph` joins of weights alone; what nothing reads then goes.

    `graph`, whose weights have their bytes, is changed.
    """
    joining = _Joining(graph, operator_set)
    joined = {
        node.output[0]: array
        for node in graph.node
        if node.op_type == "Concat" and (array := joining.weight(node.output[0])) is not None
    }
    if not joined:
        return
    kept = [node for node in graph.node if joined.keys().isdisjoint(node.output)]
    read = {each.name for each in graph.output} | _captured(graph)
    moves: list[NodeProto] = []
    for node in reversed(kept):
        if node.op_type not in _MOVES or read.intersection(node.output):
            moves.append(node)
            read.update(node.input)
    del graph.node[:]
    graph.node.extend(reversed(moves))
    weights = [each for each in graph.initializer if each.name in read]
    weights += [numpy_helper.from_array(array, name) for name, array in joined.items() if name in read]
    del graph.initializer[:]
    graph.initializer.extend(weights)


def _captured(graph: GraphProto) -> set[str]:
    """What subgraphs may read of the values around them."""
    graphs = [each.g for node in graph.node for each in node.attribute if each.HasField("g")]
    names = {name for each in graphs for node in each.node for name in node.input}
    return names.union({value.name for each in graphs for value in each.output}, *map(_captured, graphs))


class _Joining:
    def __init__(self, graph: GraphProto, operator_set: int) -> None:
        self._values, self._operator_set = Values(graph), operator_set
        moves = (node for node in graph.node if node.domain in OWN_DOMAINS and node.op_type in _MOVES)
        self._moves = {node.output[0]: node for node in moves}
        self._known: dict[str, Array | None] = {}

    def weight(self, name: str) -> Array | None:
        """What has this name, of weights alone; None for anything else."""
        array = self._constant(name)
        return array if array is not None and np.issubdtype(array.dtype, np.floating) else None

    def _constant(self, name: str) -> Array | None:
        if name not in self._known:
            constant, node = self._values.constant(name), self._moves.get(name)
            self._known[name] = self._moved(node) if constant is None and node is not None else constant
        return self._known[name]

    def _moved(self, node: NodeProto) -> Array | None:
        operands = {name: self._constant(name) for name in node.input if name}
        known = {name: array for name, array in operands.items() if array is not None}
        results = evaluated(node, known, self._operator_set) if len(known) == len(operands) else None
        return results[0] if results else None
