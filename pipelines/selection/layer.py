"""What there is something to choose for in a program: convolutions, gradients of filters, and products."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.match.convolutions.convolution import match_convolution
from iree.winograd.passes.match.convolutions.convolution_form import is_convolution
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.passes.match.convolutions.weight_gradient import is_weight_gradient, match_weight_gradient
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.products.matmul import is_matmul, match_matmul
from iree.winograd.passes.match.values.constants import is_constant, is_known_at_load
from iree.winograd.pipelines.backends.search_space import SearchSpace

LayerKind = Literal["convolution", "matmul", "weight gradient"]


@dataclass(frozen=True)
class Layer:
    """The `number`-th, from 0 in program order, of the layers of its kind."""

    operation: ir.Operation
    kind: LayerKind
    number: int

    @property
    def filter_number(self) -> int | None:
        """The number that patterns name it by: that of a convolution, None for what is none."""
        return self.number if self.kind == "convolution" else None

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"


def layers(module: ir.Operation) -> Iterator[Layer]:
    """The layers of `module` in program order."""
    counts: Counter[LayerKind] = Counter()
    for operation in walk(module):
        kind = _kind(operation)
        if kind is not None:
            yield Layer(operation, kind, counts[kind])
            counts[kind] += 1


def layer_of(operation: ir.Operation) -> Layer | None:
    """The layer that an operation is, whatever its number; None for one that is none."""
    kind = _kind(operation)
    return None if kind is None else Layer(operation, kind, 0)


def _kind(operation: ir.Operation) -> LayerKind | None:
    if is_convolution(operation):
        return "weight gradient" if is_weight_gradient(operation) else "convolution"
    return "matmul" if is_matmul(operation) else None


def match_problem(layer: Layer, space: SearchSpace) -> ConvolutionProblem | NoMatch:
    """The problem that a layer is, if the kernels of `space` are for what has its form."""
    if layer.kind == "convolution":
        convolution = match_convolution(layer.operation)
        return convolution if isinstance(convolution, NoMatch) else convolution.problem
    if layer.kind == "weight gradient":
        gradient = match_weight_gradient(layer.operation)
        return gradient if isinstance(gradient, NoMatch) else gradient.problem
    matmul = match_matmul(layer.operation)
    if isinstance(matmul, NoMatch):
        return matmul
    if is_constant(matmul.matrix) or (space.takes_parameters and is_known_at_load(matmul.matrix)):
        return matmul.problem
    least = space.least_unknown_multiply_adds
    if least is not None and matmul.problem.multiply_adds >= least:
        return matmul.problem
    when = "loading the program" if is_known_at_load(matmul.matrix) else "running it"
    return NoMatch(layer.operation, f"its matrix is known only when {when}")
