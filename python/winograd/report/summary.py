"""What became of a program's layers, in a few lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from iree.winograd.passes.infrastructure.containment import RewriteFailure
from iree.winograd.pipelines.selection.decision import Candidate, Decision
from iree.winograd.report.quantities import binary_size, quantity

_SHOWN_REASONS = 3


def summary(
    decisions: Sequence[Decision], failures: Sequence[RewriteFailure], size: int | None
) -> Iterator[str]:
    """The lines: how large the program is, what is rewritten and predicted, and what is left, by reason.

    `size` is in bytes, None where nobody knows it.
    """
    parts = [] if size is None else [binary_size(size)]
    if any(failure.left_out is None for failure in failures):
        yield ", ".join([*parts, "all of it IREE's own code: see the warning above"])
        return
    if not decisions:
        yield ", ".join([*parts, "no convolutions, and no products of rows and a constant matrix"])
        return
    taken = [chosen for chosen in map(_taken, decisions) if chosen is not None]
    parts.append(f"{len(taken)} of {len(decisions)} layers rewritten")
    if taken:
        seconds = sum(_seconds(each) for each in taken)
        tuned = sum(each.measured_seconds is not None for each in taken)
        known = {0: "predicted", len(taken): "measured"}.get(tuned, f"{tuned} of them measured, predicted")
        parts.append(f"{known} to take {quantity(seconds, 's')}")
    yield ", ".join(parts)
    left = Counter(_reason_class(each) for each in decisions if _taken(each) is None)
    for reason, count in left.most_common(_SHOWN_REASONS):
        yield f"{count} left to IREE: {reason}"
    if others := sum(left.values()) - sum(count for _, count in left.most_common(_SHOWN_REASONS)):
        yield f"{others} left to IREE for other reasons: see --remarks or --report"


def _taken(decision: Decision) -> Candidate | None:
    """How a layer is computed that isn't left to IREE."""
    chosen = decision.chosen
    return None if chosen is None or chosen.implementation.is_left_to_iree else chosen


def _seconds(candidate: Candidate) -> float:
    measured = candidate.measured_seconds
    return candidate.predicted_seconds if measured is None else measured


def _reason_class(decision: Decision) -> str:
    """Why a layer is left, without the figures that differ from layer to layer."""
    if decision.chosen is not None:
        return f"its own code is {'measured' if decision.tuned else 'predicted'} to be as fast"
    if decision.candidates:
        return "no algorithm keeps within the error limit"
    return decision.reason
