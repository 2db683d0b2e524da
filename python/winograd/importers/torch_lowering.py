"""From a graph of torch's to linalg on tensors, by way of torch-mlir.

The weights are neither printed nor copied: they enter the program as resources that refer to torch's own
memory, the passes move these as opaque handles, and the finished program names them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from iree.winograd.errors import ModelImportError
from iree.winograd.importers.imported_model import ImportedModel, Names, imported_model
from iree.winograd.importers.torch_export import argument_names, result_names
from iree.winograd.importers.torch_graphs import layer_name, source_frames, source_line
from iree.winograd.importers.torch_node import graph_of_node
from iree.winograd.importers.torch_operators.empty import compute_without_elements
from iree.winograd.importers.torch_operators.gradients import LOWERED_WHOLE
from torch._subclasses import FakeTensorMode
from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras import fx_importer
from torch_mlir.passmanager import PassManager

_TO_LINALG = (
    "builtin.module(func.func(torch-match-quantized-custom-ops),"
    f"torchdynamo-export-to-torch-backend-pipeline{{backend-legal-ops={LOWERED_WHOLE}}})",
    "builtin.module(torch-backend-to-linalg-on-tensors-backend-pipeline{allow-non-finites=true})",
)

_LEAST_IMAGE_RANK = 3
_LEAST_BATCH = 2
"""Fewer images torch takes for the only ones that there are: so many of an example say nothing."""


def lower(exported: torch.export.ExportedProgram, entry: str) -> ImportedModel:
    """`exported`, decomposed, on linalg and tensors.

    Raises `ModelImportError` with torch-mlir's diagnostics.
    """
    names = argument_names(exported), result_names(exported)
    model = _lower(lambda importer: importer.import_frozen_program(exported, func_name=entry), entry, names)
    return replace(model, size_hint=_traced_size(exported.graph))


def lower_graph(graph: torch.fx.Graph, entry: str) -> ImportedModel:
    """`graph`, functional and in the operators that `decompositions` leaves, on linalg and tensors.

    Tensors among the arguments of its nodes are weights. Raises `ModelImportError` with torch-mlir's
    diagnostics.
    """
    model = _lower(lambda importer: importer.import_stateless_graph(graph, func_name=entry), entry)
    return replace(model, size_hint=_traced_size(graph))


def _traced_size(graph: torch.fx.Graph) -> tuple[int, ...]:
    """The sizes that are open of the first image that has some, as it was traced on.

    The batch is among them where it is open and the example has more images than torch needs for that.
    """
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.dim() < _LEAST_IMAGE_RANK:
            continue
        batch, *hints = (_hint(each) if isinstance(each, torch.SymInt) else 0 for each in value.shape)
        opened = [hint for hint in hints if hint != 0]
        if batch is not None and batch > _LEAST_BATCH:
            opened = [batch, *opened]
        if opened:
            return tuple(hint for hint in opened if hint) if all(opened) else ()
    return ()


def _hint(size: Any) -> int | None:
    """What a size was when torch traced it."""
    hint = size.node.hint
    return None if hint is None else int(hint)


def rejected_nodes(graph: torch.fx.Graph) -> dict[str, str]:
    """The nodes of `graph` that torch-mlir has no lowering for, by name, and what it says of each.

    It may stop at the first of them. Empty where what fails can't be laid to a node.
    """
    context = _context()
    rejected: dict[str, str] = {}
    handler = context.attach_diagnostic_handler(lambda diagnostic: _record_node(diagnostic, rejected))
    importer = _Importer(context=context, hooks=_Weights(), locations=_NodeLocations)
    try:
        importer.import_stateless_graph(graph, func_name="main")
    except Exception as error:
        return {importer.locations.last: f"torch-mlir: {error}"}
    try:
        _run_pipelines(importer.module.operation)
    except Exception:
        return rejected
    finally:
        handler.detach()
    return {}


def _lower(
    import_graph: Callable[[_Importer], object], entry: str, names: Names | None = None
) -> ImportedModel:
    context = _context()
    diagnostics: list[str] = []
    handler = context.attach_diagnostic_handler(lambda diagnostic: _record(diagnostic, diagnostics))
    weights = _Weights()
    importer = _Importer(context=context, hooks=weights)
    try:
        import_graph(importer)
        module = importer.module.operation
        _run_pipelines(module)
    except Exception as error:
        reason = "\n".join([*_refused_operators(importer.graph), *(diagnostics or [str(error)])])
        raise ModelImportError(f"torch-mlir could not lower the model: {reason}") from error
    finally:
        handler.detach()
    return imported_model(ir, module, weights.arrays, entry, names)


def _refused_operators(graph: torch.fx.Graph | None) -> list[str]:
    """What of `graph` torch-mlir can't lower alone either: its own messages may name constants only."""
    nodes = [node for node in graph.nodes if node.op == "call_function"] if graph else []
    refused = (
        f"{source_line(node)}: the operator {node.target} has no lowering"
        for node in nodes
        if (alone := graph_of_node(node)) is not None and not _is_lowered(alone)
    )
    return list(dict.fromkeys(refused))


def _is_lowered(graph: torch.fx.Graph) -> bool:
    context = _context()
    handler = context.attach_diagnostic_handler(lambda _: True)
    try:
        importer = _Importer(context=context, hooks=_Weights())
        importer.import_stateless_graph(graph, func_name="main")
        _run_pipelines(importer.module.operation)
    except Exception:
        return False
    finally:
        handler.detach()
    return True


def _context() -> ir.Context:
    context = ir.Context()
    # Its workers would wait for ever to report an error to this thread.
    context.enable_multithreading(False)
    torch_dialect.register_dialect(context)
    context.emit_error_diagnostics = True
    return context


def _run_pipelines(module: ir.Operation) -> None:
    with module.context:
        for pipeline in _TO_LINALG:
            PassManager.parse(pipeline).run(module)


_LARGEST = float(np.finfo(np.float32).max)


class _Weights(fx_importer.FxImporterHooks):
    """Makes every tensor of the graph a resource on torch's own memory."""

    def __init__(self) -> None:
        self._arrays: dict[str, npt.NDArray[np.uint8]] = {}
        self._attributes: dict[tuple[Any, ...], ir.Attribute] = {}

    @property
    def arrays(self) -> Mapping[str, npt.NDArray[np.uint8]]:
        """The bytes of every tensor by name."""
        return MappingProxyType(self._arrays)

    def resolve_literal(self, importer: Any, literal: Any, info: Any) -> ir.Value | None:
        # Scalars stay literals, which torch-mlir folds; so do the tables of integers that operators index
        # with.
        if not isinstance(literal, torch.Tensor) or literal.numel() <= 1 or not literal.is_floating_point():
            return None
        key = (literal.data_ptr(), literal.dtype, tuple(literal.shape), literal.stride())
        if key not in self._attributes:
            self._attributes[key] = self._make_resource(literal, importer)
        return ir.Operation.create(
            "torch.vtensor.literal",
            results=[importer._cc.tensor_to_vtensor_type(literal)],
            attributes={"value": self._attributes[key]},
        ).result

    def _make_resource(self, tensor: torch.Tensor, importer: Any) -> ir.Attribute:
        name = f"weight_{len(self._arrays)}"
        # A contiguous tensor may have any stride where its size is 1, which only a flat one can't.
        array = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
        self._arrays[name] = array
        element_type = fx_importer.TORCH_DTYPE_TO_MLIR_TYPE[tensor.dtype]()
        type_ = ir.RankedTensorType.get(list(tensor.shape), element_type)
        return ir.DenseResourceElementsAttr.get_from_buffer(array, name, type_)


class _LayerLocations(fx_importer.ContextCache):
    """Names every operator after the layer that it belongs to, as in "features.init_block.conv"."""

    def get_node_location(self, node: torch.fx.Node) -> ir.Location | None:
        """The line of the model that made `node`, under the name of its layer."""
        frames = source_frames(node)
        location = ir.Location.unknown(context=self._c)
        if frames:
            file, line = frames[-1]
            location = ir.Location.file(file, int(line), col=1, context=self._c)
        layer = layer_name(node)
        return ir.Location.name(layer, childLoc=location, context=self._c) if layer else location


class _NodeLocations(fx_importer.ContextCache):
    """Names every operator after the node that it was made of."""

    def __init__(self, context: ir.Context, **arguments: Any) -> None:
        super().__init__(context, **arguments)
        self.last = ""

    def get_node_location(self, node: torch.fx.Node) -> ir.Location | None:
        """The name of `node`, which is then the `last`."""
        self.last = node.name
        return ir.Location.name(node.name, context=self._c)


class _Importer(fx_importer.FxImporter):
    def __init__(
        self,
        *,
        context: ir.Context,
        hooks: fx_importer.FxImporterHooks,
        locations: type[fx_importer.ContextCache] = _LayerLocations,
    ) -> None:
        super().__init__(context=context, hooks=hooks)
        self._cc = locations(context, py_attr_tracker=self._py_attr_tracker)
        self.graph: torch.fx.Graph | None = None

    def import_stateless_graph(self, graph: torch.fx.Graph, **options: Any) -> Any:
        """As the base class, which all imports come to, and weights may be in lists of arguments.

        `graph` stays as it is: what it was compiled to is kept by its text.
        """
        graph = copy.deepcopy(graph)
        self.graph = graph
        compute_without_elements(graph)
        _round_numbers(graph)
        _name_listed_weights(graph)
        return super().import_stateless_graph(graph, **options)

    @property
    def locations(self) -> fx_importer.ContextCache:
        """What gives operators their locations."""
        return self._cc


def _round_numbers(graph: torch.fx.Graph) -> None:
    """Make the numbers that are taken with tensors of f32 such ones: IREE rounds them towards zero."""
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op == "call_function" and isinstance(value, torch.Tensor) and value.dtype == torch.float32:
            node.args = tuple(
                float(np.float32(each)) if isinstance(each, float) and abs(each) < _LARGEST else each
                for each in node.args
            )


def _name_listed_weights(graph: torch.fx.Graph) -> None:
    """Make the weights in lists of arguments, those of indices for example, results of nodes.

    In lists torch-mlir takes nothing else. It folds the nodes.
    """
    for node in list(graph.nodes):
        if node.op == "call_function":
            node.args = tuple(
                [_named(each, before=node) for each in argument] if isinstance(argument, list) else argument
                for argument in node.args
            )


def _named(value: Any, before: torch.fx.Node) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    with before.graph.inserting_before(before):
        copy = before.graph.call_function(torch.ops.aten.clone.default, (value,))
    copy.meta["val"] = FakeTensorMode().from_tensor(value)
    return copy


def _record(diagnostic: ir.Diagnostic, messages: list[str]) -> bool:
    messages.append(f"{diagnostic.location}: {diagnostic.message}")
    return True


def _record_node(diagnostic: ir.Diagnostic, rejected: dict[str, str]) -> bool:
    if diagnostic.severity == ir.DiagnosticSeverity.ERROR and isinstance(diagnostic.location, ir.NameLoc):
        # The rest prints the operation.
        message, _, _ = diagnostic.message.partition(": %")
        rejected.setdefault(diagnostic.location.name_str, f"torch-mlir: {message}")
    return True
