"""Graphs that torch traced, compiled in parts: those with convolutions here, the rest by the fallback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from iree.winograd.torch_compile.compiled_part import PART_ERRORS, CompiledPart, PartCompiler
from iree.winograd.torch_compile.division import (
    Division,
    Part,
    Rejection,
    divide,
    is_convolution,
    operator_names,
)
from iree.winograd.torch_compile.explanation import ExplainedGraph, ExplainedPart, GraphKind, explain_part
from iree.winograd.torch_compile.fallback import compile_elsewhere, compile_rest, warn
from iree.winograd.torch_compile.gain import reason_to_leave
from iree.winograd.torch_compile.part_device import PartDevice, part_device
from iree.winograd.torch_compile.settings import TorchCompileOptions
from iree.winograd.torch_compile.training_division import divide_training
from iree.winograd.torch_graphs import decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import default_partition
from torch._guards import TracingContext
from torch.fx import GraphModule
from torch.fx.graph import _BoxedCodeGen
from torch.utils._python_dispatch import _disable_current_modes

Function = Callable[..., Any]


class GraphCompiler:
    """Compiles the graphs of a model; `record` is told of each."""

    def __init__(self, settings: TorchCompileOptions, record: Callable[[ExplainedGraph], None]) -> None:
        self._settings = settings
        self._record = record

    def compile(self, graph: GraphModule, inputs: Sequence[Any]) -> Function:
        """`graph` as a function that is called on tensors like `inputs`."""
        if not _has_convolutions(graph):
            count = sum(node.op == "call_function" for node in graph.graph.nodes)
            self._report(
                "inference", (), [Rejection((f"all {count} operators of a graph",), "it has no convolutions")]
            )
            return compile_elsewhere(graph, inputs, self._settings.fallback)
        if _may_need_gradients(inputs):
            backend = aot_autograd(
                fw_compiler=partial(self.compile_training, kind="forward"),
                bw_compiler=partial(self.compile_training, kind="backward"),
                # What torch saves for the backward graph is what it saves eagerly.
                partition_fn=default_partition,
            )
        else:
            backend = aot_autograd(
                fw_compiler=partial(self._compile_inference, given=inputs), decompositions=decompositions()
            )
        compiled: Function = backend(graph, inputs)
        return compiled

    def _compile_inference(self, graph: GraphModule, inputs: Sequence[Any], given: Sequence[Any]) -> Function:
        settings = self._settings
        weights = _weights(graph, inputs, given)
        with _disable_current_modes():
            device = _device(graph, settings.target)
            compiler = PartCompiler(settings, device)
            division = divide(
                graph,
                weights,
                device.torch,
                settings.minimum_convolutions,
                settings.freezing,
                compiler.is_kept,
            )
            return self._link(division, compiler, "inference")

    def compile_training(self, graph: GraphModule, inputs: Sequence[Any], kind: GraphKind) -> Function:
        """`graph`, functional and not decomposed, as a function of the list of its arguments."""
        # Programs that may not be worth it aren't tuned.
        settings = replace(self._settings, tuning_budget=None)
        with _disable_current_modes(), torch.no_grad():
            device = part_device(torch.device("cpu"), settings.target)
            compiler = PartCompiler(settings, device)
            division = divide_training(
                graph, device.torch, settings.deny, compiler.is_kept, partial(_reason_to_leave, compiler)
            )
            return self._link(division, compiler, kind)

    def _link(self, division: Division, compiler: PartCompiler, kind: GraphKind) -> Function:
        """The graph of `division` with its submodules compiled."""
        fallback = self._settings.fallback
        explained: list[ExplainedPart] = []
        rejections = list(division.rejections)
        for part in division.parts:
            operators = operator_names(part.graph.graph)
            try:
                compiled = CompiledPart(part, compiler, self._settings.freezing)
            except PART_ERRORS as error:
                rejections.append(Rejection(operators, str(error)))
                setattr(division.graph, part.name, _Call(compile_rest(part.graph, fallback)))
            else:
                explained.append(explain_part(len(operators), compiled.decisions, part.role))
                setattr(division.graph, part.name, _Call(compiled))
        for name in division.rest:
            graph_of_rest = division.graph.get_submodule(name)
            assert isinstance(graph_of_rest, GraphModule)
            setattr(division.graph, name, _Call(compile_rest(graph_of_rest, fallback)))
        self._report(kind, explained, rejections)
        return _boxed(division.graph)

    def _report(
        self, kind: GraphKind, parts: Sequence[ExplainedPart], rejections: Sequence[Rejection]
    ) -> None:
        self._record(ExplainedGraph(kind, tuple(parts), tuple(rejections)))
        if rejections:
            left = "; ".join(map(str, rejections))
            warn(f"left to {self._settings.fallback}: {left}")


class _Call(torch.nn.Module):
    """A function as a submodule."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self._function = function

    def forward(self, *arguments: Any) -> Any:
        return self._function(*arguments)


def _boxed(graph: GraphModule) -> Function:
    """`graph` as torch calls it, with a list of arguments, which lives no longer than they are needed."""
    graph.graph.set_codegen(_BoxedCodeGen())
    graph.recompile()

    def call(arguments: list[Any]) -> Any:
        return graph(arguments)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _reason_to_leave(compiler: PartCompiler, part: Part) -> str | None:
    """Why the fallback is to compute `part`, if it is."""
    try:
        return reason_to_leave(CompiledPart(part, compiler, freezing=False).decisions)
    except PART_ERRORS as error:
        return str(error)


def _has_convolutions(graph: GraphModule) -> bool:
    return any("conv" in str(node.target) for node in graph.graph.nodes if node.op == "call_function")


def _may_need_gradients(inputs: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(
        isinstance(each, torch.Tensor) and each.requires_grad for each in inputs
    )


def _device(graph: GraphModule, target: str | None) -> PartDevice:
    """That of the first convolution, which those of a graph usually share."""
    devices = (node.meta["val"].device for node in graph.graph.nodes if is_convolution(node))
    return part_device(next(devices, torch.device("cpu")), target)


def _weights(graph: GraphModule, inputs: Sequence[Any], given: Sequence[Any]) -> dict[str, torch.Tensor]:
    """The arguments of the functionalised `graph` that stay as they are from call to call.

    `inputs` are what it was traced on, `given` the tensors that the model was called with.
    """
    metadata = TracingContext.get().fw_metadata
    if metadata is None or len(inputs) != len(given):
        return {}
    placeholders = graph.graph.find_nodes(op="placeholder")
    fixed = {placeholders[index].name: given[index] for index in metadata.static_input_indices}
    # Nothing tells when tensors of the inference mode are written to.
    return {name: weight for name, weight in fixed.items() if not weight.is_inference()}
