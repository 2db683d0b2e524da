"""What becomes of a model that is given to `torch.compile(backend="winograd")`, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from iree.winograd.errors import WinogradError
from iree.winograd.report.schema import (
    DecisionReport,
    LayerReport,
    choice,
    convolutions,
    is_left_to_iree,
)
from iree.winograd.torch_compile.division import Rejection
from iree.winograd.torch_compile.settings import read_settings
from iree.winograd.torch_graphs import evaluation_mode
from torch._dynamo.exc import BackendCompilerFailed


@dataclass(frozen=True)
class ExplainedConvolution:
    """What a convolution became."""

    layer: str
    """Its name in the model; empty where torch doesn't tell."""
    problem: str | None
    """Its sizes; None for a form that isn't supported."""
    algorithm: str | None
    """For example "F(4x4, 3x3)"; None where it is left to IREE."""
    predicted_error: float | None
    """Relative to the output, in the 1-norm."""
    reason: str
    """For the choice."""

    def __str__(self) -> str:
        what = f"{self.layer or 'a convolution'} {self.problem or ''}".rstrip()
        if self.algorithm is None:
            return f"{what}: left to IREE ({self.reason})"
        return f"{what}: {self.algorithm}, error {self.predicted_error:.1e} ({self.reason})"


@dataclass(frozen=True)
class ExplainedPart:
    """A part that is compiled into one program."""

    operators: int
    convolutions: tuple[ExplainedConvolution, ...]


@dataclass(frozen=True)
class ExplainedGraph:
    """A graph of the model, as torch traced it, and what isn't compiled of it."""

    parts: tuple[ExplainedPart, ...]
    rejections: tuple[Rejection, ...]


@dataclass(frozen=True)
class Explanation:
    """The graphs of a model, several where torch can't trace all of it at once."""

    fallback: str
    graphs: tuple[ExplainedGraph, ...]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for number, graph in enumerate(self.graphs):
            yield f"graph {number}: {len(graph.parts)} part(s) compiled"
            for part in graph.parts:
                yield f"  {part.operators} operators, {len(part.convolutions)} convolution(s)"
                yield from (f"    {convolution}" for convolution in part.convolutions)
            yield from (f"  left to {self.fallback}: {rejection}" for rejection in graph.rejections)


def explain(model: torch.nn.Module, *inputs: Any, options: Mapping[str, Any] | None = None) -> Explanation:
    """Compile `model` as `torch.compile(model, backend="winograd", options=options)` does, and say how.

    It is called once on `inputs`, in evaluation mode and without gradients. Raises `WinogradError`s, such as
    `InvalidOptionError` for options that aren't known or have bad values.
    """
    # The compiler of graphs imports this module.
    from iree.winograd.torch_compile.graph_compiler import GraphCompiler

    settings = read_settings(None, options)
    graphs: list[ExplainedGraph] = []
    compiler = GraphCompiler(settings, graphs.append)
    try:
        with torch.no_grad(), evaluation_mode(model):
            torch.compile(model, backend=compiler.compile)(*inputs)
    except BackendCompilerFailed as error:
        if isinstance(error.inner_exception, WinogradError):
            raise error.inner_exception from None
        raise
    return Explanation(settings.fallback, tuple(graphs))


def explain_part(operators: int, decisions: DecisionReport) -> ExplainedPart:
    """The part whose program has this report."""
    return ExplainedPart(operators, tuple(map(_convolution, convolutions(decisions))))


def _convolution(report: LayerReport) -> ExplainedConvolution:
    chosen = None if is_left_to_iree(report) else choice(report)
    problem = report["problem"]
    return ExplainedConvolution(
        layer=report["names"][0] if report["names"] else "",
        problem=None if problem is None else problem["text"],
        algorithm=None if chosen is None else chosen["algorithm"],
        predicted_error=None if chosen is None else chosen["predicted_error"],
        reason=report["reason"],
    )
