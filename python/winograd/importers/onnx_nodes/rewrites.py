"""Writing the operators of a model that torch-mlir has wrong in others, all of its subgraphs included."""

from __future__ import annotations

from collections.abc import Collection

from iree.winograd.importers.onnx_nodes.refusals import require_element_types
from iree.winograd.importers.onnx_nodes.registry import REWRITES
from iree.winograd.importers.onnx_nodes.rewriting import Rewriting
from iree.winograd.importers.onnx_nodes.values import OWN_DOMAINS, Values
from iree.winograd.passes.infrastructure.modules import import_modules
from onnx import AttributeProto, GraphProto, NodeProto

CHANGED_OPERATORS = ("Hardmax", "Resize", "Scan", "Upsample")
"""Operators that ONNX's conversion takes for what newer ones are."""
CURRENT_OPERATOR_SET = 13
"""That from which on none of them changes."""

EXPANDED = [
    ("", operator)
    for operator in (
        "Attention",
        "CausalConvWithState",
        "NegativeLogLikelihoodLoss",
        "RMSNormalization",
        "RotaryEmbedding",
        "SoftmaxCrossEntropyLoss",
        "Swish",
    )
]
"""Operators, with their domains, that ONNX defines by others, and torch-mlir has not, or wrong."""


def rewrite(
    graph: GraphProto,
    operator_set: int,
    operators: Collection[str] = REWRITES,
    outer: Values | None = None,
) -> bool:
    """Has other operators do what those of `operators` do in `graph`, whose values have inferred types.

    `graph` is changed; returns whether it was. Raises `ModelImportError`, which names the node and the
    operator, for what can't be lowered.
    """
    values = Values(graph, outer)
    changed = False
    nodes: list[NodeProto] = []
    retyped: set[str] = set()
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                changed |= rewrite(attribute.g, operator_set, operators, values)
        rewriting = Rewriting(node, values, operator_set)
        require_element_types(rewriting)
        if node.domain in OWN_DOMAINS and node.op_type in operators:
            REWRITES[node.op_type](rewriting)
        changed |= bool(rewriting.nodes)
        retyped |= rewriting.retyped | _moved(rewriting, retyped)
        nodes.extend(rewriting.nodes or [node])
    if changed:
        del graph.node[:]
        graph.node.extend(nodes)
    for value in [each for each in graph.value_info if each.name in retyped]:
        graph.value_info.remove(value)
    return changed


_MOVING = (
    "Concat",
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Gather",
    "Identity",
    "MaxPool",
    "Reshape",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
)
"""Operators that move elements of any type, or choose among them, the first operand's, of `Concat` all
operands'."""
_READING = ("Cast", "DequantizeLinear", "Shape", "Size")
"""Operators that take f32 where the graph says another type."""


def _is_nearest(rewriting: Rewriting) -> bool:
    """Whether a node takes the element that is nearest to each position."""
    return rewriting.node.op_type == "Resize" and rewriting.text("mode", "nearest") == "nearest"


def _moved(rewriting: Rewriting, retyped: Collection[str]) -> set[str]:
    """The results of a node that moves elements of another type than it says.

    Raises `ModelImportError` for a node that does something else with such, but to read them.
    """
    node = rewriting.node
    if node.op_type in _READING or not any(name in retyped for name in node.input):
        return set()
    data = node.input if node.op_type == "Concat" else node.input[:1]
    moves = node.op_type in _MOVING or _is_nearest(rewriting)
    if not moves or any(name not in retyped for name in data):
        rewriting.refuse("integers of 16 bits")
    if any(map(rewriting.values.is_output, node.output)):
        rewriting.refuse("integers of 16 bits as results of the model")
    return set(node.output)


import_modules("iree.winograd.importers.onnx_nodes")
