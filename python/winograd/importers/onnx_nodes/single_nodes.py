"""The nodes of a model as models of their own, to find the one that something can't be done with."""

from __future__ import annotations

from collections.abc import Iterator

from iree.winograd.importers.onnx_nodes.values import Values
from onnx import AttributeProto, ModelProto, NodeProto, helper


def single_nodes(model: ModelProto) -> Iterator[ModelProto]:
    """A model of each node whose operands have known types; one of those that are alike, subgraphs aside."""
    values, seen = Values(model.graph), set()
    for node in model.graph.node:
        if any(each.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for each in node.attribute):
            continue
        names = dict.fromkeys(name for name in (*node.input, *node.output) if name)
        types = {name: value for name in names if (value := values.typed(name)) is not None}
        key = _key(node, [value.type.SerializeToString() for value in types.values()])
        if key in seen or len(types) < len(names):
            continue
        seen.add(key)
        operands = [name for name in dict.fromkeys(node.input) if name]
        inputs = [types[name] for name in operands if values.tensor(name) is None]
        weights = [tensor for name in operands if (tensor := values.tensor(name)) is not None]
        results = [types[name] for name in node.output if name]
        graph = helper.make_graph([node], "main", inputs, results, weights)
        yield helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def _key(node: NodeProto, types: list[bytes]) -> tuple[object, ...]:
    attributes = tuple(each.SerializeToString() for each in node.attribute)
    return node.domain, node.op_type, attributes, *types
