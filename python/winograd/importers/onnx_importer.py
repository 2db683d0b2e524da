"""ONNX models as programs: read, with the sizes that they leave open, in operators that torch-mlir knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from numbers import Integral
from os import PathLike, fspath
from pathlib import Path

import onnx
import onnx.inliner
import onnx.version_converter
from iree.winograd.errors import InvalidOptionError, ModelImportError
from iree.winograd.importers.imported_model import ImportedModel
from iree.winograd.importers.onnx_convolutions import SLICE_OPERATOR_SET, crop_transposed_convolutions
from iree.winograd.importers.onnx_lowering import lowered
from iree.winograd.importers.onnx_nodes.constants import fold_constants
from iree.winograd.importers.onnx_nodes.joined_weights import join_weights
from iree.winograd.importers.onnx_nodes.refusals import require_input_types
from iree.winograd.importers.onnx_nodes.rewrites import (
    CHANGED_OPERATORS,
    CURRENT_OPERATOR_SET,
    EXPANDED,
    rewrite,
)
from iree.winograd.importers.onnx_nodes.rewriting import described
from iree.winograd.pipelines.selection.expect_sizes import EXPECTED_LENGTH, EXPECTED_SIZE
from iree.winograd.pipelines.selection.options import SIZE_LIMIT
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto

_OPERATOR_SET = 17
"""That of which torch-mlir has most operators; models in older ones are converted to it."""

_DETACHED_BYTES = 1024

_BATCH = "batch"
"""What a first dimension is called that is made unknown."""


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


def lower(
    model: ModelProto,
    dynamic_batch: bool,
    sizes: Mapping[str, int],
    size_hint: Mapping[str, int],
    entry: str,
) -> ImportedModel:
    """`model`, which is changed, on linalg and tensors.

    Raises `ModelImportError` for sizes that the model doesn't have and where it can't be lowered, with the
    diagnostics of torch-mlir, and `InvalidOptionError` for sizes that aren't positive integers.
    """
    _require_names(model.graph, {**sizes, **size_hint}, {_BATCH} if dynamic_batch else set())
    batches = _set_sizes(model.graph, dynamic_batch, sizes)
    expected = _expected_sizes(model.graph, size_hint)
    model = _prepared(model)
    require_input_types(model.graph)
    _require_types(model.graph)
    _require_dynamic(model.graph, batches)
    return replace(lowered(model, entry), size_hint=expected)


def _prepared(model: ModelProto) -> ModelProto:
    """`model` in operators that torch-mlir knows, every value with its type as far as ONNX can tell."""
    join_weights(model.graph, _operator_set(model))
    data = _detach(model.graph)
    try:
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        model = _in_known_operators(model)
        if _operator_set(model) >= SLICE_OPERATOR_SET and crop_transposed_convolutions(model.graph):
            model = _inferred(model)
    except ModelImportError:
        raise
    except Exception as error:
        raise ModelImportError(f"ONNX could not infer the shapes of the model: {error}") from error
    for tensor in model.graph.initializer:
        if tensor.name in data:
            tensor.raw_data = data[tensor.name]
    return model


def _in_known_operators(model: ModelProto) -> ModelProto:
    model = _inferred(model)
    if _operator_set(model) < CURRENT_OPERATOR_SET:
        rewrite(model.graph, _operator_set(model), CHANGED_OPERATORS)
    if _operator_set(model) < _OPERATOR_SET:
        # What can't be converted torch-mlir may know as it is.
        with suppress(onnx.version_converter.ConvertError, RuntimeError):
            model = _inferred(onnx.version_converter.convert_version(model, _OPERATOR_SET))
    model = _inferred(_expanded(model))
    while fold_constants(model.graph, _operator_set(model)):
        model = _inferred(model)
    return _inferred(model) if rewrite(model.graph, _operator_set(model)) else model


def _expanded(model: ModelProto) -> ModelProto:
    """`model` with others in place of operators that ONNX defines by them, and torch-mlir doesn't know."""
    try:
        return onnx.inliner.inline_selected_functions(model, EXPANDED, inline_schema_functions=True)
    except Exception as error:
        nodes = [node for node in model.graph.node if (node.domain, node.op_type) in EXPANDED]
        # ONNX can't tell the types of operands that are left out.
        nodes = [node for node in nodes if "" in node.input] or nodes
        if not nodes:
            raise
        raise ModelImportError(f"{described(nodes[0])} can't be written in others: {error}") from error


def _inferred(model: ModelProto) -> ModelProto:
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


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

    Returns the sizes that batches had.
    """
    inputs = _inputs(graph)
    if not sizes and not dynamic_batch:
        return set()
    for dim in _dimensions(inputs):
        if dim.dim_param in sizes:
            dim.dim_value = sizes[dim.dim_param]
    batches = set()
    for dim in (each.type.tensor_type.shape.dim[:1] for each in inputs) if dynamic_batch else ():
        if dim and dim[0].dim_value:
            batches.add(dim[0].dim_value)
            dim[0].dim_param = _BATCH
    # What was inferred from the sizes that there were.
    del graph.value_info[:]
    for each in graph.output:
        each.type.tensor_type.ClearField("shape")
    return batches


def _require_names(graph: GraphProto, sizes: Mapping[str, int], more: set[str]) -> None:
    """Raises `InvalidOptionError` for what can't be a size, `ModelImportError` for names of no dimension.

    Dimensions will have `more` names.
    """
    for name, size in sizes.items():
        if not isinstance(size, Integral) or not 1 <= size < SIZE_LIMIT:
            raise InvalidOptionError(
                f"the size of {name!r} must be a positive integer below {SIZE_LIMIT}, got {size!r}"
            )
    named = sorted({dim.dim_param for dim in _dimensions(_inputs(graph)) if dim.dim_param} | more)
    for name in sizes:
        if name not in named:
            known = ", ".join(named) or "none that is named"
            raise ModelImportError(f"no input has a dimension {name!r}; there is {known}")


def _expected_sizes(graph: GraphProto, size_hint: Mapping[str, int]) -> tuple[int, ...]:
    """What is expected of the open dimensions of the first input that has one with a hint.

    Empty without hints. A dimension without a hint is as large as the last one before it that has one, or
    else the next; of a batch without one nothing is expected, and of sizes where only the batch has one
    what is expected of them without.
    """
    for each in _inputs(graph):
        first, *others = each.type.tensor_type.shape.dim or [None]
        opened = [dim.dim_param for dim in others if not dim.dim_value]
        batch = size_hint.get(first.dim_param) if first is not None and not first.dim_value else None
        hints = [size_hint.get(name) for name in opened]
        known = [hint for hint in hints if hint is not None]
        if batch is not None and not known:
            return (batch, *[EXPECTED_LENGTH if len(others) == 2 else EXPECTED_SIZE] * len(opened))
        if known:
            last, sizes = known[0], []
            for hint in hints:
                last = last if hint is None else hint
                sizes.append(last)
            return tuple(sizes) if batch is None else (batch, *sizes)
    return ()


def _inputs(graph: GraphProto) -> list[ValueInfoProto]:
    """Those that the model is called with: a weight may be one of its inputs, too."""
    initialized = {each.name for each in graph.initializer}
    return [each for each in graph.input if each.name not in initialized]


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
