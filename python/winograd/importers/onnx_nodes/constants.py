"""Computing what a graph computes from constants and known sizes before it is imported.

Exporters compute shapes by chains of nodes (`Shape`, `Gather`, `Div`, `Cast`, `Concat`), and ONNX can't tell
the rank of what such a shape makes unless it is a constant. ONNX's own evaluator computes them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import prod

import numpy as np
from iree.winograd.importers.onnx_nodes.values import OWN_DOMAINS, Array, Values
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

MAX_ELEMENTS = 4096
"""Tensors with more are data, not shapes: neither are they computed, nor anything from them."""
_UNKNOWN = np.iinfo(np.int64).min
"""Stands for a size that is known only at run time, in a shape of which others are known."""

_VARYING = frozenset(
    (
        "Bernoulli",
        "Dropout",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    )
)
"""Operators with other results each time."""
_MOVES = frozenset(("Concat", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Unsqueeze"))
"""Operators whose results are elements of their operands, whatever these are."""


def fold_constants(graph: GraphProto, operator_set: int) -> bool:
    """Makes constants of the nodes of `graph` whose results are known; returns whether there were any.

    An `If` whose condition is known becomes the nodes of its branch, and a `Reshape` to a shape with one size
    that is known only at run time has ONNX find it. `graph`, whose values have inferred types, is changed.
    """
    folding = _Folding(Values(graph), operator_set)
    nodes = [each for node in graph.node for each in folding.folded(node)]
    if folding.changed:
        del graph.node[:]
        graph.node.extend(nodes)
    return folding.changed


class _Folding:
    def __init__(self, values: Values, operator_set: int) -> None:
        self.values = values
        self.operator_set = operator_set
        self.changed = False
        self.partial: dict[str, Array] = {}
        """Shapes of which some sizes are known."""

    def folded(self, node: NodeProto) -> list[NodeProto]:
        """What takes the place of `node`: itself where nothing is known of it."""
        if node.domain not in OWN_DOMAINS or node.op_type in ("Constant", *_VARYING):
            return [node]
        if node.op_type == "If":
            return self._branch(node)
        if any(each.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for each in node.attribute):
            return [node]
        results = self._empty(node) or self._results(node)
        if results is None:
            return [*self._with_one_size_open(node)]
        if any(array.dtype == np.int64 and (array == _UNKNOWN).any() for array in results):
            self.partial.update(zip(node.output, results, strict=True))
            return [*self._with_one_size_open(node)]
        self.changed = True
        return [self._constant(name, array) for name, array in zip(node.output, results, strict=True) if name]

    def _constant(self, name: str, array: Array) -> NodeProto:
        tensor = numpy_helper.from_array(array, name)
        self.values.add_constant(tensor)
        return helper.make_node("Constant", [], [name], value=tensor)

    def _branch(self, node: NodeProto) -> list[NodeProto]:
        condition = self.values.constant(node.input[0])
        if condition is None:
            return [node]
        self.changed = True
        name = "then_branch" if condition.item() else "else_branch"
        (branch,) = (each.g for each in node.attribute if each.name == name)
        weights = [helper.make_node("Constant", [], [each.name], value=each) for each in branch.initializer]
        results = [
            helper.make_node("Identity", [value.name], [result], name=node.name)
            for value, result in zip(branch.output, node.output, strict=True)
        ]
        return [*weights, *branch.node, *results]

    def _empty(self, node: NodeProto) -> Sequence[Array] | None:
        """The results where they have no elements, so that nothing has to be computed."""
        shapes = [self.values.shape(name) for name in node.output]
        known = [
            tuple(size or 0 for size in shape) for shape in shapes if shape is not None and None not in shape
        ]
        if len(known) < len(shapes) or not all(0 in shape for shape in known):
            return None
        types = [helper.tensor_dtype_to_np_dtype(self.values.element_type(name)) for name in node.output]
        return [np.zeros(shape, dtype) for shape, dtype in zip(known, types, strict=True)]

    def _results(self, node: NodeProto) -> Sequence[Array] | None:
        """The values of the results; sizes that aren't known may be among them."""
        if node.op_type == "Shape":
            return self._shape(node)
        # What is made of constants may be large, such as a range or a tensor of zeros.
        if any(self._is_large(name) for name in (*node.input, *node.output)):
            return None
        moves = node.op_type in _MOVES
        operands = {name: self._operand(name, moves) for name in node.input if name}
        known = {name: array for name, array in operands.items() if array is not None}
        results = evaluated(node, known, self.operator_set) if len(known) == len(operands) else None
        return results if results and all(each.size <= MAX_ELEMENTS for each in results) else None

    def _is_large(self, name: str) -> bool:
        shape = self.values.shape(name) if name else ()
        return shape is not None and prod(size or 0 for size in shape) > MAX_ELEMENTS

    def _operand(self, name: str, moves: bool) -> Array | None:
        """The elements of an operand, with those of a shape that aren't known if they are only moved."""
        array = self.values.constant(name)
        if array is not None or not moves:
            return array
        if name in self.partial:
            return self.partial[name]
        shape = self.values.shape(name)
        if self.values.element_type(name) != TensorProto.INT64 or shape is None or len(shape) > 1:
            return None
        return None if None in shape else np.full([size or 0 for size in shape], _UNKNOWN)

    def _shape(self, node: NodeProto) -> list[Array] | None:
        shape = self.values.shape(node.input[0])
        if shape is None:
            return None
        bounds = {each.name: each.i for each in node.attribute}
        sizes = shape[bounds.get("start", 0) : bounds.get("end", len(shape))]
        return [np.array([_UNKNOWN if size is None else size for size in sizes], np.int64)]

    def _with_one_size_open(self, node: NodeProto) -> list[NodeProto]:
        sizes = self.partial.get(node.input[1]) if node.op_type == "Reshape" else None
        if (
            sizes is None
            or sizes.ndim != 1
            or np.count_nonzero(sizes == _UNKNOWN) != 1
            or np.isin(sizes, (0, -1)).any()
        ):
            return [node]
        self.changed = True
        shape = self._constant(f"{node.output[0]}/shape", np.where(sizes == _UNKNOWN, -1, sizes))
        changed = NodeProto()
        changed.CopyFrom(node)
        changed.input[1] = shape.output[0]
        return [shape, changed]


def evaluated(node: NodeProto, operands: dict[str, Array], operator_set: int) -> list[Array] | None:
    """The results of a node whose operands are known; None where ONNX's evaluator has none."""
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in operands.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "node", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", operator_set)])
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results = ReferenceEvaluator(model).run(None, operands)
    except Exception:
        # What the evaluator can't compute is computed when the model runs, or refused by the importer.
        return None
    are_arrays = len(results) == len(node.output) and all(isinstance(each, np.ndarray) for each in results)
    return [np.asarray(each) for each in results] if are_arrays else None
