"""The choice of an implementation for one layer: what is allowed, accurate enough, and fastest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, prod
from typing import TYPE_CHECKING

from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem, WeightGradientProblem
from iree.winograd.passes.match.layouts.padding import is_padded_with_infinity
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.values.constants import is_constant, uniform_constant
from iree.winograd.pipelines.backends.search_space import SearchSpace

from .candidates import convolution_shape
from .decision import Candidate, Decision
from .implementation import Implementation
from .layer import Layer, match_problem
from .layer_filter import is_layer_allowed, layer_precision, location_names
from .precision import Precision, given_error
from .prediction import (
    TIME_TOLERANCE,
    attainable_limit,
    error_limit,
    iree_tolerance,
    predict,
    predict_fastest,
    suiting_other_sizes,
)
from .schedule_ranges import schedule_ranges
from .space_behind import space_behind

if TYPE_CHECKING:
    from .tuning_database import TuningDatabase


@dataclass(frozen=True)
class Chooser:
    """Decides by `space`, by what `database` holds, and within the options that have these names."""

    space: SearchSpace
    database: TuningDatabase | None
    output_tile: int | None
    allow: tuple[str, ...]
    deny: tuple[str, ...]
    max_relative_error: float | None
    keeps_all: bool = True
    """Whether decisions have all candidates, rather than those that the choice is among."""
    precision: Precision = "as-written"
    layer_precisions: tuple[str, ...] = ()
    filter_memory_price: float | None = None
    """Microseconds for a MiB; None is the target's, for filters that are stored and images of known size."""

    def decide(self, layer: Layer, ignore: Callable[[str], None]) -> Decision:
        """What is to become of `layer`. `ignore` is told which measurements of it don't count, and why.

        Tiles would spread a NaN or an infinity that an image is padded with: its outputs are computed each by
        itself.
        """
        return replace(self, space=space_behind(layer, self.space))._decide_in_space(layer, ignore)

    def _decide_in_space(self, layer: Layer, ignore: Callable[[str], None]) -> Decision:
        if layer.kind == "convolution" and is_padded_with_infinity(layer.operation.operands[0]):
            return replace(self, output_tile=1)._decide(layer, ignore)
        return self._decide(layer, ignore)

    def precision_of(self, layer: Layer) -> Precision:
        """What the user asked for of this layer."""
        return layer_precision(self.precision, self.layer_precisions, layer.filter_number, layer.operation)

    def _decide(self, layer: Layer, ignore: Callable[[str], None]) -> Decision:
        problem = match_problem(layer, self.space)
        if isinstance(problem, NoMatch):
            return self.leave(layer, problem.reason)
        if not self.is_allowed(layer):
            return self.leave(layer, "the layer patterns exclude it", problem)
        if reason := self.space.problem_misfit(problem):
            return self.leave(layer, reason, problem)
        precision = self.precision_of(layer)
        given = given_error(precision, self.max_relative_error)
        asked = error_limit(problem, self.space, given, self.output_tile)
        candidates = self._candidates(problem, asked, ignore, precision)
        if not problem.runtime_filter and not is_constant(layer.operation.operands[1]):
            # What is known when a program is loaded isn't packed beforehand.
            candidates = tuple(
                each for each in candidates if not each.implementation.schedule.transforms_filters
            )
        if self.space.iree_code.fails_on_uniform_filters and _has_uniform_tap(layer, problem):
            candidates = tuple(each for each in candidates if not each.implementation.is_left_to_iree)
        if all(candidate.implementation.is_left_to_iree for candidate in candidates):
            return self.leave(layer, "a workgroup has not the memory for any algorithm", problem)
        limit = attainable_limit(problem, asked, candidates)
        accurate = [each for each in candidates if each.keeps(limit)]
        if not accurate:
            best = min(candidates, key=lambda candidate: candidate.predicted_error)
            reason = (
                f"of all algorithms {best.implementation.algorithm} has the least predicted relative error, "
                f"{best.predicted_error:.1e}, which exceeds {limit:.1e}"
            )
            if limit != asked:
                reason += ", a direct convolution's"
            return self.leave(layer, reason, problem, candidates)
        measured = [each for each in accurate if each.measured_seconds is not None]
        if measured:
            which = "IREE's own code" if measured[0].implementation.is_left_to_iree else "it"
            reason = f"{which} is the fastest of those measured that are accurate enough"
            chosen, tuned = measured[0], True
        else:
            (chosen, reason), tuned = self._choose_predicted(problem, accurate), False
            if limit != asked:
                reason += f"; none keeps within {asked:.1e}, nor does a direct convolution"
        decision = self._decision(layer, problem, candidates, chosen, reason, tuned=tuned)
        if not tuned:
            ranges = schedule_ranges(problem, self.space, chosen.implementation, limit, self.output_tile)
            decision = replace(decision, ranges=ranges)
        if not decision.stays_single:
            return decision
        return replace(decision, reason=f"{reason}; {_why_single(precision, candidates, limit)}")

    def _choose_predicted(
        self, problem: ConvolutionProblem, accurate: list[Candidate]
    ) -> tuple[Candidate, str]:
        """As `choose_suiting`; where memory has a price, one whose smaller filters are worth its time."""
        chosen, reason = choose_suiting(problem, self.space, accurate)
        price = self.byte_price(problem)
        if not price or chosen.implementation.is_left_to_iree:
            return chosen, reason

        def spent(candidate: Candidate) -> float:
            return candidate.predicted_seconds + price * _filter_bytes(problem, candidate)

        cheapest = min((chosen, *_apart_from_sums(accurate)), key=spent)
        saved = _filter_bytes(problem, chosen) - _filter_bytes(problem, cheapest)
        if saved <= 0:
            return chosen, reason
        longer = cheapest.predicted_seconds - chosen.predicted_seconds
        return cheapest, (
            f"its filters take {saved / 2**20:.1f} MiB less than those of {chosen.implementation.algorithm}, "
            f"at {1e6 * longer:+.1f} us of predicted time"
        )

    def byte_price(self, problem: ConvolutionProblem) -> float:
        """Seconds that a byte of transformed filters is worth."""
        if self.filter_memory_price is not None:
            return 1e-6 * self.filter_memory_price / 2**20
        is_stored = not (problem.runtime_filter or isinstance(problem, WeightGradientProblem))
        return self.space.filter_byte_price if is_stored and not problem.unknown_sizes else 0.0

    def leave(
        self,
        layer: Layer,
        reason: str,
        problem: ConvolutionProblem | None = None,
        candidates: tuple[Candidate, ...] = (),
    ) -> Decision:
        """`layer` stays as it is."""
        return self._decision(layer, problem, candidates, None, reason)

    def _decision(
        self,
        layer: Layer,
        problem: ConvolutionProblem | None,
        candidates: tuple[Candidate, ...],
        chosen: Candidate | None,
        reason: str,
        tuned: bool = False,
    ) -> Decision:
        names = tuple(location_names(layer.operation.location))
        return Decision(
            self.space,
            layer.kind,
            layer.number,
            names,
            problem,
            candidates,
            chosen,
            reason,
            tuned,
            self.precision_of(layer),
        )

    def is_allowed(self, layer: Layer) -> bool:
        """Whether the layer patterns admit it."""
        return is_layer_allowed(self.allow, self.deny, layer.filter_number, layer.operation)

    def _candidates(
        self,
        problem: ConvolutionProblem,
        limit: float | None,
        ignore: Callable[[str], None],
        precision: Precision,
    ) -> tuple[Candidate, ...]:
        """Those of `_all_candidates` that multiply what the precision lets them."""
        keeps_all = self.keeps_all or precision != "as-written"
        found = replace(self, keeps_all=keeps_all)._all_candidates(problem, limit, ignore)
        return tuple(each for each in found if each.multiplies_as(precision))

    def _all_candidates(
        self, problem: ConvolutionProblem, limit: float | None, ignore: Callable[[str], None]
    ) -> tuple[Candidate, ...]:
        """Of each algorithm its fastest schedule where measured, these first, else the default ones.

        Kernels that split products are another: they may be inaccurate where the others aren't. IREE's own
        code is among them where it was measured, or there is a model of it.
        """
        if self.database is None and not self.keeps_all:
            return predict_fastest(problem, self.space, limit, self.output_tile, self.byte_price(problem))
        predicted = predict(problem, self.space, self.output_tile)
        if self.database is None:
            return predicted
        from .measured_candidates import measured_candidates

        measured = measured_candidates(self.database, problem, self.space, self.output_tile, ignore)
        known = {candidate.implementation.arithmetic for candidate in measured}
        return (
            *measured,
            *(candidate for candidate in predicted if candidate.implementation.arithmetic not in known),
        )


def _has_uniform_tap(layer: Layer, problem: ConvolutionProblem) -> bool:
    """Whether a layer is a convolution of one tap whose filter is a single number."""
    return (
        layer.kind == "convolution"
        and prod(problem.kernel_size) == 1
        and uniform_constant(layer.operation.operands[1]) is not None
    )


def choose_suiting(
    problem: ConvolutionProblem, space: SearchSpace, accurate: list[Candidate]
) -> tuple[Candidate, str]:
    """As `choose_predicted`, among those that suit other sizes, too, where some are known only in a call."""
    suiting = suiting_other_sizes(problem, space, accurate)
    chosen, reason = choose_predicted(suiting, iree_tolerance(problem))
    fastest = min(accurate, key=lambda candidate: candidate.predicted_seconds)
    if fastest in suiting or chosen.implementation.is_left_to_iree:
        return chosen, reason
    return chosen, (
        f"it is predicted to take about as long as {fastest.implementation.algorithm}, and less in the mean "
        "with images of half and twice the size"
    )


def choose_predicted(accurate: list[Candidate], tolerance: float) -> tuple[Candidate, str]:
    """The fastest, else the most accurate that is as fast; and why.

    IREE's own code is taken where its predicted time is less by the relative difference `tolerance`.

    Of candidates that differ in sums alone the first counts: it is the fastest, or as fast as any.
    """
    ours = _apart_from_sums(accurate)
    theirs = next((each for each in accurate if each.implementation.is_left_to_iree), None)
    if theirs is not None:
        least = min((each.predicted_seconds for each in ours), default=inf)
        if (1 + tolerance) * theirs.predicted_seconds <= least:
            compared = f", our kernels {1e6 * least:.1f}" if ours else ""
            microseconds = 1e6 * theirs.predicted_seconds
            return theirs, f"IREE's own code is predicted to take {microseconds:.1f} us{compared}"
    fastest = min(ours, key=lambda candidate: candidate.predicted_seconds)
    limit = fastest.predicted_seconds * (1 + TIME_TOLERANCE)
    as_fast = [candidate for candidate in ours if candidate.predicted_seconds <= limit]
    chosen = min(as_fast, key=lambda candidate: candidate.predicted_error)
    if chosen is fastest:
        return chosen, "it is predicted to be the fastest that is accurate enough"
    algorithm = fastest.implementation.algorithm
    return chosen, f"it is predicted to be as fast as {algorithm}, and is more accurate"


def _apart_from_sums(candidates: list[Candidate]) -> list[Candidate]:
    """The first of our own of those that differ in sums alone."""
    first: dict[Implementation, Candidate] = {}
    for each in candidates:
        implementation = each.implementation
        if not implementation.is_left_to_iree:
            alike = replace(implementation, schedule=implementation.schedule.apart_from_sums)
            first.setdefault(alike, each)
    return list(first.values())


def _filter_bytes(problem: ConvolutionProblem, candidate: Candidate) -> int:
    implementation = candidate.implementation
    return convolution_shape(problem, implementation.algorithm).stored_filter_bytes(implementation.schedule)


def _why_single(precision: Precision, candidates: tuple[Candidate, ...], limit: float | None) -> str:
    """Why a layer multiplies f32 though its user asked for less, or for what is fastest."""
    halves = [each for each in candidates if each.implementation.product_type != "f32"]
    if precision != "fastest":
        halves = [each for each in halves if each.implementation.product_type == precision] or halves
    if not halves:
        which = "f16 or bf16" if precision == "fastest" else precision
        return f"its products stay f32, since no kernel for it multiplies {which}"
    accurate = [each for each in halves if each.keeps(limit)]
    if not accurate:
        best = min(halves, key=lambda each: each.predicted_error)
        return (
            f"its products stay f32, since those of {best.implementation.product_type} have a predicted "
            f"relative error of {best.predicted_error:.1e}, which exceeds {limit:.1e}"
        )
    return f"its products stay f32, since those of {accurate[0].implementation.product_type} take longer"
