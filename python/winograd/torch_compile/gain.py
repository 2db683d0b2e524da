"""Whether a convolution of a training step is worth a program of its own."""

from __future__ import annotations

from iree.winograd.report.schema import (
    DecisionReport,
    LayerReport,
    best_known_seconds,
    choice,
    is_direct,
    is_left_to_iree,
)

CALL_SECONDS = 1e-4
"""That a call of a program takes more than one of torch's operators."""


def reason_to_leave(decisions: DecisionReport) -> str | None:
    """Why the fallback is to compute what the program of this report does, if it is.

    Torch's convolutions are direct ones, which are taken to be as fast as direct ones of this project.
    """
    layers = decisions["layers"]
    if not layers:
        return "it is lowered to no convolution"
    saved = 0.0
    for layer in layers:
        chosen = choice(layer)
        if chosen is None or is_left_to_iree(layer):
            return layer["reason"]
        saved += _direct_seconds(layer, decisions) - best_known_seconds(chosen)
    return None if saved > CALL_SECONDS else "a program of its own is predicted to save no time"


def _direct_seconds(layer: LayerReport, decisions: DecisionReport) -> float:
    direct = [best_known_seconds(each) for each in layer["candidates"] if is_direct(each)]
    if direct:
        return min(direct)
    limits, operations = decisions["limits"], layer["direct_operations"]
    return 0.0 if limits is None or operations is None else operations / limits["operations_per_second"]
