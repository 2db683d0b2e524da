"""From an ONNX model to linalg on tensors, by way of IREE's importer and torch-mlir's lowerings.

The weights are neither printed nor copied by passes: they enter the program as resources that refer to the
model's own memory, as those of torch models do.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from iree.compiler.extras import onnx_importer
from iree.winograd.dialect.bindings import PassManager, ir
from iree.winograd.errors import ModelImportError
from iree.winograd.importers.imported_model import ImportedModel, Weights, imported_model, resource_name
from iree.winograd.importers.onnx_nodes.single_nodes import single_nodes
from iree.winograd.passes.match.navigation import walk
from onnx import ModelProto, TensorProto, numpy_helper

_TO_TORCH = "builtin.module(torch-onnx-to-torch-backend-pipeline)"
_TO_LINALG = "builtin.module(torch-backend-to-linalg-on-tensors-backend-pipeline{allow-non-finites=true})"

_WEIGHT_ELEMENTS = 64
"""Constants with more elements are weights; operators may have to know the values of smaller ones."""

_SEARCH_SECONDS = 20.0
"""For how long the operator is searched for that can't be lowered, where torch-mlir doesn't name it."""

_VALUE = "torch.onnx.value"
_OPERATOR = re.compile(r'(?:"torch\.operator".*?name = "|^no operator )onnx\.([\w.]+)')


def lowered(model: ModelProto, entry: str) -> ImportedModel:
    """`model`, whose values have types, on linalg and tensors. Nodes without a name get one.

    Raises `ModelImportError`, which names the operator, with the diagnostics of torch-mlir.
    """
    model.graph.name = entry
    for node in model.graph.node:
        # Operations are named by it, as layers are in a report.
        node.name = node.name or next(filter(None, node.output), "")
    messages = _Messages({node.name: node.op_type for node in model.graph.node})
    try:
        return _lowered(model, entry, messages)
    except ModelImportError as error:
        if messages.name_operators:
            raise
        found = _failing_node(model)
        raise ModelImportError(f"{error} (of the operator {found})" if found else f"{error}") from error


def _failing_node(model: ModelProto) -> str | None:
    """The operator and the name of the first node that can't be lowered alone."""
    end = time.monotonic() + _SEARCH_SECONDS
    for alone in single_nodes(model):
        (node,) = alone.graph.node
        try:
            _lowered(alone, "main", _Messages({}))
        except ModelImportError:
            return f"{node.op_type}, node {node.name!r}"
        if time.monotonic() > end:
            break
    return None


def _lowered(model: ModelProto, entry: str, messages: _Messages) -> ImportedModel:
    context = ir.Context()
    # Its workers would wait for ever to report an error to this thread.
    context.enable_multithreading(False)
    context.emit_error_diagnostics = True
    handler = context.attach_diagnostic_handler(messages.record)
    weights = _Weights(context)
    try:
        info = onnx_importer.ModelInfo(model)
        module = info.create_module(context=context).operation
        with warnings.catch_warnings():
            # Of results that nothing reads and that have no type; of others torch-mlir says what is wrong.
            warnings.simplefilter("ignore")
            importer = onnx_importer.NodeImporter.define_function(info.main_graph, module, weights)
            importer.import_all()
        _make_literals(module, weights.arrays)
        names = tuple(info.main_graph.input_map), tuple(each.name for each in model.graph.output)
        with context:
            PassManager.parse(_TO_TORCH).run(module)
            # Those of other domains are left, and the next passes would stumble over something else.
            for left in [each for each in walk(module) if each.name == "torch.operator"]:
                left.location.emit_error(f"no operator {ir.StringAttr(left.attributes['name']).value}")
            if not messages.errors:
                PassManager.parse(_TO_LINALG).run(module)
    except Exception as error:
        reason = "; ".join(messages.errors) or f"{error}"
        raise ModelImportError(f"torch-mlir could not lower the model: {reason}") from error
    finally:
        handler.detach()
    if messages.errors:
        raise ModelImportError(f"torch-mlir could not lower the model: {'; '.join(messages.errors)}")
    return imported_model(ir, module, weights.arrays, entry, names)


class _Messages:
    """The errors that torch-mlir reports, with the operators of the nodes that it names."""

    def __init__(self, operators: Mapping[str, str]) -> None:
        self.operators = operators
        self.errors: list[str] = []
        self.name_operators = False
        """Whether one of them names an operator."""

    def record(self, diagnostic: ir.Diagnostic) -> bool:
        """Keeps a diagnostic that is an error."""
        if diagnostic.severity != ir.DiagnosticSeverity.ERROR:
            return True
        location, message = diagnostic.location, diagnostic.message
        name = location.name_str if isinstance(location, ir.NameLoc) else str(location)
        operator = self.operators.get(name)
        if unknown := _OPERATOR.search(message):
            message = f"it has no lowering for this form of the operator {unknown[1]}"
        elif operator is not None:
            message = f"the operator {operator}: {message}"
        self.name_operators |= unknown is not None or operator is not None
        self.errors.append(f"node {name!r}: {message}")
        return True


class _Weights(onnx_importer.ContextCache):
    """Makes every weight of the graph a resource on the memory of its tensor."""

    def __init__(self, context: ir.Context) -> None:
        super().__init__(context)
        self.arrays: dict[str, npt.NDArray[np.uint8]] = {}

    def tensor_proto_to_attr(self, tensor: TensorProto) -> ir.Attribute:
        """The value of a tensor as an attribute."""
        if tensor.data_type != TensorProto.FLOAT:
            return super().tensor_proto_to_attr(tensor)
        array = (
            np.frombuffer(tensor.raw_data, np.float32)
            if tensor.raw_data
            else numpy_helper.to_array(tensor).ravel()
        )
        if array.size <= _WEIGHT_ELEMENTS:
            return ir.DenseElementsAttr.get(array.reshape(tuple(tensor.dims)))
        name = f"weight_{len(self.arrays)}"
        self.arrays[name] = array.view(np.uint8)
        type_ = self.tensor_proto_to_builtin_type(tensor)
        return ir.DenseResourceElementsAttr.get_from_buffer(self.arrays[name], name, type_)


def _make_literals(module: ir.Operation, weights: Weights) -> None:
    """Makes weights constants of torch's: those of ONNX torch-mlir would copy into the program."""
    constants = [each for each in walk(module) if _is_weight(each, weights)]
    for constant in constants:
        literal = ir.Operation.create(
            "torch.vtensor.literal",
            results=[constant.results[0].type],
            attributes={"value": constant.attributes[_VALUE]},
            loc=constant.location,
            ip=ir.InsertionPoint(constant),
        )
        constant.results[0].replace_all_uses_with(literal.results[0])
        constant.erase()


def _is_weight(operation: ir.Operation, weights: Weights) -> bool:
    if operation.name != "torch.operator" or _VALUE not in operation.attributes:
        return False
    return resource_name(operation.attributes[_VALUE]) in weights
