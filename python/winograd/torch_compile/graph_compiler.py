"""Graphs that torch traced, compiled in parts: those with convolutions here, the rest by the fallback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from iree.winograd.errors import CompilationError, LoadError, ModelImportError
from iree.winograd.torch_compile.compiled_part import CompiledPart, PartCompiler
from iree.winograd.torch_compile.division import Rejection, divide, operator_names
from iree.winograd.torch_compile.explanation import ExplainedGraph, ExplainedPart, explain_part
from iree.winograd.torch_compile.fallback import compile_elsewhere, compile_rest, warn
from iree.winograd.torch_compile.settings import TorchCompileOptions
from iree.winograd.torch_graphs import decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._guards import TracingContext
from torch.fx import GraphModule
from torch.utils._python_dispatch import _disable_current_modes

Function = Callable[..., Any]


class GraphCompiler:
    """Compiles the graphs of a model; `record` is told of each."""

    def __init__(self, settings: TorchCompileOptions, record: Callable[[ExplainedGraph], None]) -> None:
        self._settings = settings
        self._record = record

    def compile(self, graph: GraphModule, inputs: Sequence[Any]) -> Function:
        """`graph` as a function that is called on tensors like `inputs`."""
        reason = _left_as_a_whole(graph, inputs)
        if reason is not None:
            count = sum(node.op == "call_function" for node in graph.graph.nodes)
            self._report((), [Rejection((f"all {count} operators of a graph",), reason)])
            return compile_elsewhere(graph, inputs, self._settings.fallback)
        compiler = partial(self._compile_functional, given=inputs)
        backend = aot_autograd(
            fw_compiler=compiler, inference_compiler=compiler, decompositions=decompositions()
        )
        compiled: Function = backend(graph, inputs)
        return compiled

    def _compile_functional(
        self, graph: GraphModule, inputs: Sequence[Any], given: Sequence[Any]
    ) -> Function:
        settings = self._settings
        weights = _weights(graph, inputs, given)
        explained: list[ExplainedPart] = []
        with _disable_current_modes():
            compiler = PartCompiler(settings)
            division = divide(
                graph, weights, settings.minimum_convolutions, settings.freezing, compiler.is_kept
            )
            rejections = list(division.rejections)
            for part in division.parts:
                operators = operator_names(part.graph.graph)
                try:
                    compiled = CompiledPart(part, compiler, settings.freezing)
                except (CompilationError, LoadError, ModelImportError) as error:
                    rejections.append(Rejection(operators, str(error)))
                    rest = compile_rest(part.graph, settings.fallback)
                    setattr(division.graph, part.name, _Call(rest))
                else:
                    explained.append(explain_part(len(operators), compiled.decisions))
                    setattr(division.graph, part.name, _Call(compiled))
            for name in division.rest:
                graph_of_rest = division.graph.get_submodule(name)
                assert isinstance(graph_of_rest, GraphModule)
                setattr(division.graph, name, _Call(compile_rest(graph_of_rest, settings.fallback)))
        self._report(explained, rejections)
        boxed: Function = make_boxed_func(division.graph.forward)
        return boxed

    def _report(self, parts: Sequence[ExplainedPart], rejections: Sequence[Rejection]) -> None:
        self._record(ExplainedGraph(tuple(parts), tuple(rejections)))
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


def _left_as_a_whole(graph: GraphModule, inputs: Sequence[Any]) -> str | None:
    """Why nothing of a traced graph is compiled here, if that is known beforehand."""
    if not any("conv" in str(node.target) for node in graph.graph.nodes if node.op == "call_function"):
        return "it has no convolutions"
    needs_gradient = (isinstance(each, torch.Tensor) and each.requires_grad for each in inputs)
    if torch.is_grad_enabled() and any(needs_gradient):
        return "gradients may be asked for; call the model in torch.inference_mode() or torch.no_grad()"
    return None


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
