"""A divided graph whose parts are compiled here, and the rest by the fallback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from iree.winograd.torch_compile.compiled_part import CompiledPart, PartCompiler
from iree.winograd.torch_compile.contained import PASSED_ON, Contained, Function, failure_text
from iree.winograd.torch_compile.division import Division, Part, Rejection, operator_names
from iree.winograd.torch_compile.explanation import ExplainedGraph, ExplainedPart, GraphKind, explain_part
from iree.winograd.torch_compile.fallback import Fallback, compile_rest
from iree.winograd.torch_compile.fallback_warning import warn
from iree.winograd.torch_compile.linked_graph import Call, boxed
from torch.fx import GraphModule
from torch.utils._python_dispatch import _disable_current_modes

Record = Callable[[ExplainedGraph], None]
"""What is told of each graph of a model."""


class CompiledDivision(NamedTuple):
    """A divided graph as a function of the list of its arguments."""

    function: Function
    parts: Sequence[CompiledPart]
    """Those that are compiled here."""
    explained: ExplainedGraph


def compile_division(
    division: Division, compiler: PartCompiler, kind: GraphKind, freezing: bool, fallback: Fallback
) -> CompiledDivision:
    """The graph of `division` with its submodules compiled; a part that fails is left to `fallback`."""
    parts: list[CompiledPart] = []
    explained: list[ExplainedPart] = []
    rejections = list(division.rejections)
    for part in division.parts:
        operators = operator_names(part.graph.graph)
        left = partial(_compile_part_elsewhere, part, fallback)
        try:
            compiled = CompiledPart(part, compiler, freezing)
            explained.append(explain_part(len(operators), compiled.decisions, part.role))
        except PASSED_ON:
            raise
        except Exception as error:
            rejections.append(Rejection(operators, failure_text(error)))
            function = left()
        else:
            function = Contained(compiled, left, f"left to {fallback}: a part of the model")
            parts.append(compiled)
        setattr(division.graph, part.name, Call(function))
    for name in division.rest:
        graph_of_rest = division.graph.get_submodule(name)
        assert isinstance(graph_of_rest, GraphModule)
        setattr(division.graph, name, Call(compile_rest(graph_of_rest, fallback)))
    graph = ExplainedGraph(kind, tuple(explained), tuple(rejections))
    return CompiledDivision(boxed(division.graph), parts, graph)


def report(explained: ExplainedGraph, record: Record, fallback: Fallback) -> None:
    """Tell `record` of a graph, and the user what of it is left to `fallback`."""
    record(explained)
    if explained.rejections:
        warn(f"left to {fallback}: {'; '.join(map(str, explained.rejections))}")


def _compile_part_elsewhere(part: Part, fallback: Fallback) -> Function:
    with _disable_current_modes():
        return compile_rest(part.graph, fallback)
