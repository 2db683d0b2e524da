"""The program that a problem is measured as."""

from __future__ import annotations

from iree.winograd.passes.match.convolutions.problem import (
    ConvolutionProblem,
    MatmulProblem,
    WeightGradientProblem,
)

from .convolution_program import ConvolutionProgram
from .layer_program import LayerProgram
from .matmul_program import MatmulProgram
from .weight_gradient_program import WeightGradientProgram


def layer_program(problem: ConvolutionProblem) -> LayerProgram:
    """`problem` in the form that programs have it in."""
    if isinstance(problem, MatmulProblem):
        return MatmulProgram(problem)
    if isinstance(problem, WeightGradientProblem):
        return WeightGradientProgram(problem)
    return ConvolutionProgram(problem)
