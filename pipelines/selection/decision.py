"""What was decided of one layer, a convolution or a product of rows and a matrix, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.backends.search_space import SearchSpace
from iree.winograd.pipelines.problems.schedule_range import ScheduleRange

from .implementation import Implementation
from .layer import LayerKind
from .precision import PRECISION_ERRORS, Precision


@dataclass(frozen=True)
class Candidate:
    """An implementation that a layer could have had."""

    implementation: Implementation
    stage_seconds: Mapping[str, float]
    """Predicted, by stage; nothing for IREE's own code where that is only measured."""
    predicted_error: float
    """Relative to the output, in the 1-norm."""
    measured_seconds: float | None = None
    """From the tuning database."""
    rounds_operands: bool = False
    """Whether operands lose accuracy: that is for those who ask for it."""

    @property
    def predicted_seconds(self) -> float:
        """Infinite for IREE's own code where there is no model of it: no prediction chooses it then."""
        return sum(self.stage_seconds.values()) if self.stage_seconds else inf

    def multiplies_as(self, precision: Precision) -> bool:
        """Whether a precision lets its products be what they are."""
        return precision != "f32" or self.implementation.product_type == "f32"

    def keeps(self, limit: float | None) -> bool:
        """Whether its predicted error is within a limit; without one, whether operands stay as they are."""
        if limit is None:
            return not self.rounds_operands
        return self.predicted_error <= limit


@dataclass(frozen=True)
class Decision:
    """One layer, by its number from 0 among those of its kind in program order, with its location's names.

    `chosen` is None for a layer that is left as it is, unless IREE's own code was measured or predicted to be
    the fastest, and `problem` for one whose form isn't supported; `reason` is a clause that says why.

    Raises ValueError when the choice isn't one of the candidates.
    """

    space: SearchSpace
    """The target, and the machine that times are predicted for."""
    kind: LayerKind
    number: int
    names: tuple[str, ...]
    problem: ConvolutionProblem | None
    candidates: tuple[Candidate, ...]
    chosen: Candidate | None
    reason: str
    tuned: bool = False
    """Whether the choice is the fastest of those measured rather than predicted."""
    precision: Precision = "as-written"
    """What the user asked for."""

    ranges: tuple[ScheduleRange, ...] = ()
    """The schedules of the chosen algorithm for images of different sizes, where there are several."""

    @property
    def stays_single(self) -> bool:
        """Whether it multiplies f32 though another type was asked for, or whatever is fastest."""
        lowers = PRECISION_ERRORS[self.precision] is not None
        return lowers and self.chosen is not None and self.chosen.implementation.product_type == "f32"

    def __post_init__(self) -> None:
        if self.chosen is not None and self.chosen not in self.candidates:
            raise ValueError(f"the choice {self.chosen.implementation} must be one of the candidates")
