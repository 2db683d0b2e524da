"""From an ONNX model to linalg on tensors, by way of IREE's importer and torch-mlir's lowerings.

The weights are neither printed nor copied by passes: they enter the program as resources that refer to the
model's own memory, as those of torch models do.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from numbers import Integral
from os import PathLike, fspath
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnx.inliner
import onnx.version_converter
from iree.compiler.extras import onnx_importer
from iree.winograd.dialect.bindings import PassManager, ir
from iree.winograd.errors import InvalidOptionError, ModelImportError
from iree.winograd.importers.imported_model import ImportedModel, Weights, imported_model, resource_name
from iree.winograd.importers.onnx_convolutions import SLICE_OPERATOR_SET, crop_transposed_convolutions
from iree.winograd.passes.match.navigation import symbol_name, walk
from iree.winograd.pipelines.specification.reflection import INPUTS_KEY, OUTPUTS_KEY
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, numpy_helper

_TO_TORCH = "builtin.module(torch-onnx-to-torch-backend-pipeline)"
_TO_LINALG = "builtin.module(torch-backend-to-linalg-on-tensors-backend-pipeline{allow-non-finites=true})"
_OPERATOR_SET = 17
"""That of which torch-mlir has most operators; models in older ones are converted to it."""

_WEIGHT_ELEMENTS = 64
"""Constants with more elements are weights; operators may have to know the values of smaller ones."""
_DETACHED_BYTES = 1024

_SIZE_LIMIT = 2**31
"""Sizes are below it: what ONNX infers from them it counts in 64 bits."""

_VALUE = "torch.onnx.value"
_OPERATOR = re.compile(r'(?:"torch\.operator".*?name = "|^no operator )onnx\.([\w.]+)')


def read(model: str | PathLike[str] | ModelProto) -> ModelProto:
    """The model in a file, its external data included, or a copy of one that is loaded.

    Raises `ModelImportError` when there is none.
    """
    if isinstance(model, ModelProto):
        duplicate = ModelProto()
        duplicate.CopyFrom(model)
        return duplicate
    name = fspath(model)
    try:
        loaded = onnx.load(name, load_external_data=False)
    except OSError as error:
        raise ModelImportError(f"cannot open '{name}': {error.strerror}") from None
    except Exception:
        # Each of the formats that `onnx` tells apart by their suffixes has errors of its own.
        raise ModelImportError(f"'{name}' is no ONNX model") from None
    if not loaded.HasField("graph"):
        raise ModelImportError(f"'{name}' is no ONNX model")
    try:
        onnx.load_external_data_for_model(loaded, str(Path(name).parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise ModelImportError(f"cannot read the external data of '{name}': {error}") from None
    return loaded


def lower(model: ModelProto, dynamic_batch: bool, sizes: Mapping[str, int], entry: str) -> ImportedModel:
    """`model`, which is changed, on linalg and tensors.

    Raises `ModelImportError` for sizes that the model doesn't have and where it can't be lowered, with the
    diagnostics of torch-mlir, and `InvalidOptionError` for sizes that aren't positive integers.
    """
    batches = _set_sizes(model.graph, dynamic_batch, sizes)
    model = _prepared(model)
    _require_types(model.graph)
    _require_dynamic(model.graph, batches)
    model.graph.name = entry
    for node in model.graph.node:
        # Operations are named by it, as layers are in a report.
        node.name = node.name or next(filter(None, node.output), "")
    context = ir.Context()
    context.emit_error_diagnostics = True
    diagnostics: list[str] = []
    handler = context.attach_diagnostic_handler(lambda diagnostic: _record(diagnostic, diagnostics))
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
        _note_names(module.regions[0].blocks[0], entry, *names)
        with context:
            PassManager.parse(_TO_TORCH).run(module)
            # Those of other domains are left, and the next passes would stumble over something else.
            for left in [each for each in walk(module) if each.name == "torch.operator"]:
                left.location.emit_error(f"no operator {ir.StringAttr(left.attributes['name']).value}")
            if not diagnostics:
                PassManager.parse(_TO_LINALG).run(module)
    except Exception as error:
        reason = "; ".join(diagnostics) or f"{error}"
        raise ModelImportError(f"torch-mlir could not lower the model: {reason}") from error
    finally:
        handler.detach()
    if diagnostics:
        raise ModelImportError(f"torch-mlir could not lower the model: {'; '.join(diagnostics)}")
    return imported_model(ir, module, weights.arrays, entry, names)


def _prepared(model: ModelProto) -> ModelProto:
    """`model` in operators that torch-mlir knows, every value with its type as far as ONNX can tell."""
    data = _detach(model.graph)
    try:
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        if _operator_set(model) < _OPERATOR_SET:
            # What can't be converted torch-mlir may know as it is.
            with suppress(onnx.version_converter.ConvertError, RuntimeError):
                model = onnx.version_converter.convert_version(model, _OPERATOR_SET)
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        if _operator_set(model) >= SLICE_OPERATOR_SET and crop_transposed_convolutions(model.graph):
            model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:
        raise ModelImportError(f"ONNX could not infer the shapes of the model: {error}") from error
    for tensor in model.graph.initializer:
        if tensor.name in data:
            tensor.raw_data = data[tensor.name]
    return model


def _operator_set(model: ModelProto) -> int:
    """The version of ONNX's own operators."""
    versions = [each.version for each in model.opset_import if each.domain in ("", "ai.onnx")]
    return min(versions, default=_OPERATOR_SET)


def _detach(graph: GraphProto) -> dict[str, bytes]:
    """Takes the bytes of weights out of `graph`: ONNX would copy them, and may have no more than 2 GiB."""
    data: dict[str, bytes] = {}
    for tensor in graph.initializer:
        if len(tensor.raw_data) > _DETACHED_BYTES and tensor.data_type == TensorProto.FLOAT:
            data[tensor.name] = tensor.raw_data
            tensor.ClearField("raw_data")
    return data


def _set_sizes(graph: GraphProto, dynamic_batch: bool, sizes: Mapping[str, int]) -> set[int]:
    """Gives the dimensions of inputs that are named in `sizes` these sizes, and makes batches unknown ones.

    Returns the sizes that batches had. Raises `InvalidOptionError` for what can't be a size, and
    `ModelImportError` for names that no dimension has.
    """
    for name, size in sizes.items():
        if not isinstance(size, Integral) or not 1 <= size < _SIZE_LIMIT:
            raise InvalidOptionError(f"the size of {name!r} must be a positive integer, got {size!r}")
    initialized = {each.name for each in graph.initializer}
    inputs = [each for each in graph.input if each.name not in initialized]
    named = sorted({dim.dim_param for dim in _dimensions(inputs) if dim.dim_param})
    for name in sizes:
        if name not in named:
            known = ", ".join(named) or "none that is named"
            raise ModelImportError(f"no input has a dimension {name!r}; there is {known}")
    if not sizes and not dynamic_batch:
        return set()
    for dim in _dimensions(inputs):
        if dim.dim_param in sizes:
            dim.dim_value = sizes[dim.dim_param]
    batches = set()
    for dim in (each.type.tensor_type.shape.dim[:1] for each in inputs) if dynamic_batch else ():
        if dim and dim[0].dim_value:
            batches.add(dim[0].dim_value)
            dim[0].dim_param = "batch"
    # What was inferred from the sizes that there were.
    del graph.value_info[:]
    for each in graph.output:
        each.type.tensor_type.ClearField("shape")
    return batches


def _dimensions(values: list[ValueInfoProto]) -> Iterator[onnx.TensorShapeProto.Dimension]:
    for value in values:
        yield from value.type.tensor_type.shape.dim


def _require_types(graph: GraphProto) -> None:
    """Raises `ModelImportError` for the first operator with a result that is read and has no known rank."""
    typed = {each.name for each in (*graph.value_info, *graph.output) if _has_type(each)}
    read = {name for node in graph.node for name in node.input} | {each.name for each in graph.output}
    for node in graph.node:
        if unknown := next((name for name in node.output if name in read - typed), None):
            operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            raise ModelImportError(
                f"node {node.name or unknown!r}: ONNX can't tell the rank of what {operator} returns"
            )


def _has_type(value: ValueInfoProto) -> bool:
    kind = value.type.WhichOneof("value")
    return kind is not None and (kind != "tensor_type" or value.type.tensor_type.HasField("shape"))


def _require_dynamic(graph: GraphProto, batches: set[int]) -> None:
    """Raises `ModelImportError` where the model fixes a batch that was to be dynamic."""
    if not batches:
        return
    for output in graph.output:
        shape = output.type.tensor_type.shape.dim
        if shape and shape[0].dim_value in batches:
            raise ModelImportError(
                f"the model has a batch of {shape[0].dim_value} within, so that the one of the output "
                f"{output.name!r} can't be dynamic: export it with a dynamic batch"
            )


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


def _note_names(block: ir.Block, entry: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
    """Has the compiled program say how the model calls its inputs and outputs."""
    (function,) = (each for each in block if symbol_name(each) == entry)
    texts = {INPUTS_KEY: json.dumps(inputs), OUTPUTS_KEY: json.dumps(outputs)}
    with function.context:
        entries = {key: ir.StringAttr.get(text) for key, text in texts.items()}
        function.attributes["iree.reflection"] = ir.DictAttr.get(entries)


def _record(diagnostic: ir.Diagnostic, messages: list[str]) -> bool:
    location, message = diagnostic.location, diagnostic.message
    if diagnostic.severity == ir.DiagnosticSeverity.ERROR:
        if operator := _OPERATOR.search(message):
            message = f"it has no lowering for this form of the operator {operator[1]}"
        name = location.name_str if isinstance(location, ir.NameLoc) else str(location)
        messages.append(f"node {name!r}: {message}")
    return True
