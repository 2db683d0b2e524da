"""What is predicted of layers on AMD's GPUs: of what is chosen, and of IREE's own code.

Depthwise layers are taken to be alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.gpu.choice.search_space import GpuSearchSpace
from iree.winograd.pipelines.selection.chooser import choose_predicted
from iree.winograd.pipelines.selection.decision import Candidate
from iree.winograd.pipelines.selection.prediction import (
    attainable_limit,
    error_limit,
    iree_tolerance,
    predict_fastest,
)


@dataclass(frozen=True)
class Predicted:
    """What is predicted of a layer."""

    chosen: Candidate | None
    """None where it is left to IREE."""
    seconds: float
    stock_seconds: float
    limit: float | None
    """Of the relative error that it may have."""


def predicted(problem: ConvolutionProblem, space: GpuSearchSpace) -> Predicted:
    """What is chosen for a layer by default, and what IREE's own code is taken to need."""
    if space.problem_misfit(problem) is not None:
        return Predicted(None, 0.0, 0.0, None)
    asked = error_limit(problem, space, None, None)
    candidates = predict_fastest(problem, space, asked)
    limit = attainable_limit(problem, asked, candidates)
    chosen, _ = choose_predicted([each for each in candidates if each.keeps(limit)], iree_tolerance(problem))
    seconds = chosen.predicted_seconds
    stock = sum(space.iree_stage_seconds(problem).values()) or seconds
    return Predicted(None if chosen.implementation.is_left_to_iree else chosen, seconds, stock, limit)
