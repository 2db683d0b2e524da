"""The program that a problem is measured as."""

from __future__ import annotations

from iree.winograd.passes.match.problem import ConvolutionProblem, MatmulProblem

from .convolution_program import ConvolutionProgram
from .layer_program import LayerProgram
from .matmul_program import MatmulProgram


def layer_program(problem: ConvolutionProblem) -> LayerProgram:
    """`problem` in the form that programs have it in."""
    if isinstance(problem, MatmulProblem):
        return MatmulProgram(problem)
    return ConvolutionProgram(problem)
