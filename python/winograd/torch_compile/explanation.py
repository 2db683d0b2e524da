"""What becomes of a model that is given to `torch.compile(backend="winograd")`, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from iree.winograd.report.schema import (
    DecisionReport,
    LayerReport,
    TypesReport,
    choice,
    convolutions,
    is_left_to_iree,
    types_text,
)
from iree.winograd.torch_compile.division import ConvolutionRole, Rejection

GraphKind = Literal["inference", "forward", "backward"]
"""What a graph is for; those that gradients are computed by come in twos."""


@dataclass(frozen=True)
class ExplainedConvolution:
    """What a convolution became."""

    role: ConvolutionRole
    problem: str | None
    """Its sizes; None for a form that isn't supported."""
    algorithm: str | None
    """For example "F(4x4, 3x3)"; None where it is left to IREE."""
    predicted_error: float | None
    """Relative to the output, in the 1-norm."""
    reason: str
    """For the choice."""
    types: TypesReport | None = None
    """Of its numbers; None where it is left to IREE."""

    @property
    def layer(self) -> str:
        """The name of its layer in the model; empty where torch doesn't tell."""
        return self.role.layer

    def __str__(self) -> str:
        what = f"{self.role} {self.problem or ''}".rstrip()
        if self.algorithm is None:
            return f"{what}: left to IREE ({self.reason})"
        types = f", {text}" if (text := types_text(self.types)) else ""
        return f"{what}: {self.algorithm}{types}, error {self.predicted_error:.1e} ({self.reason})"


@dataclass(frozen=True)
class ExplainedPart:
    """A part that is compiled into one program."""

    operators: int
    convolutions: tuple[ExplainedConvolution, ...]


@dataclass(frozen=True)
class ExplainedGraph:
    """A graph of the model, as torch traced it, and what isn't compiled of it.

    Of graphs for training, where only convolutions and what follows them are compiled, these alone count.
    """

    kind: GraphKind
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
            kind = "" if graph.kind == "inference" else f", {graph.kind}"
            yield f"graph {number}{kind}: {len(graph.parts)} part(s) compiled"
            for part in graph.parts:
                yield f"  {part.operators} operators, {len(part.convolutions)} convolution(s)"
                yield from (f"    {convolution}" for convolution in part.convolutions)
            yield from (f"  left to {self.fallback}: {rejection}" for rejection in graph.rejections)


def explain_part(
    operators: int, decisions: DecisionReport, role: ConvolutionRole | None = None
) -> ExplainedPart:
    """The part whose program has this report; `role` is that of its only convolution, if it has one."""
    layers = convolutions(decisions) if role is None else decisions["layers"]
    return ExplainedPart(operators, tuple(_convolution(each, role) for each in layers))


def _convolution(report: LayerReport, role: ConvolutionRole | None) -> ExplainedConvolution:
    chosen = None if is_left_to_iree(report) else choice(report)
    problem = report["problem"]
    name = report["names"][0] if report["names"] else ""
    return ExplainedConvolution(
        role=role or ConvolutionRole(name, None),
        problem=None if problem is None else problem["text"],
        algorithm=None if chosen is None else chosen["algorithm"],
        predicted_error=None if chosen is None else chosen["predicted_error"],
        reason=report["reason"],
        types=report["types"],
    )
