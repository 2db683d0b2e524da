"""Choose how each convolution is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter

from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.frame.algorithm import ATTRIBUTE_NAME, set_algorithm
from iree.winograd.passes.frame.containment import RewriteFailure, rewrite_each
from iree.winograd.passes.frame.option import check_options, same_option
from iree.winograd.passes.frame.registry import PassError, register_pass
from iree.winograd.passes.frame.remarks import remark_analysis, remark_missed
from iree.winograd.passes.frame.unit import Unit, set_origin
from iree.winograd.passes.match.convolution import convolutions, match_convolution
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.problem import ConvolutionProblem
from iree.winograd.pipelines.backends.schedules import set_schedule
from iree.winograd.pipelines.backends.search_space import SearchSpace
from iree.winograd.pipelines.selection.layer_filter import is_layer_allowed, location_names
from iree.winograd.pipelines.selection.options import WinogradOptions

from .decision import Candidate, Decision
from .measured_candidates import measured_candidates
from .module_space import module_space
from .prediction import TIME_TOLERANCE, error_limit, predict
from .tuning_database import TuningDatabase

PASS_NAME = "winograd-select-algorithm"


@register_pass(PASS_NAME)
@dataclass(frozen=True)
class SelectAlgorithm:
    """Annotate the convolutions to be rewritten with the algorithm and the schedule that compute them.

    Folding a filter freezes the size of its tiles, so this decision comes before any rewrite. A convolution
    gets the output tile and part size, possibly different per dimension, that are predicted to take least
    time on the module's target among those whose predicted error is small, and the schedule of the kernels
    that this is predicted for; output tile 1 is the direct convolution. Where a tuning database holds
    measurements of it, it gets the fastest of these instead. One that the kernels don't compute, that no
    algorithm computes accurately enough, that IREE's own code was measured to be the fastest for, or that the
    layer patterns exclude, stays as it is, with a remark saying why. An annotation that a convolution comes
    with is kept.

        %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : ...) outs(%y : ...)
      becomes
        %r = linalg.conv_2d_nhwc_hwcf {
          winograd.algorithm = {output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>},
          winograd.schedule = {kind = "winograd", tile_block = 28, ...}} ins(%x, %w : ...) outs(%y : ...)
    """

    output_tile: int | None = same_option(WinogradOptions, "output_tile")
    allow: tuple[str, ...] = same_option(WinogradOptions, "allow")
    deny: tuple[str, ...] = same_option(WinogradOptions, "deny")
    max_relative_error: float | None = same_option(WinogradOptions, "max_relative_error")
    threads: int = same_option(WinogradOptions, "threads", default=1)
    machine: str | None = same_option(WinogradOptions, "machine")
    """None is the target's default."""
    tuning_database: str | None = same_option(WinogradOptions, "tuning_database")
    observe: Callable[[Decision], None] | None = None
    """Is told every decision."""

    def __post_init__(self) -> None:
        check_options(self)

    def run(self, module: ir.Operation) -> None:
        found = tuple(convolutions(module))
        if not found:
            return
        space = module_space(module, self.machine, self.threads)
        with self._open_database(module) as database:
            rewrite_each(
                "convolution",
                enumerate(found),
                lambda numbered: self._select(*numbered, space, database),
                operation_of=itemgetter(1),
                leave=lambda numbered, failure: self._leave(*numbered, space, failure),
            )
        if self.machine is not None:
            remark_analysis(module, PASS_NAME, f"times are predicted for the machine in {self.machine}")

    def _select(
        self, number: int, operation: ir.Operation, space: SearchSpace, database: TuningDatabase | None
    ) -> None:
        if ATTRIBUTE_NAME in operation.attributes:
            return
        decision = self._decide(number, operation, space, database)
        self._report(operation, decision)
        chosen = None if decision.chosen is None else decision.chosen.implementation
        if chosen is None or chosen.is_left_to_iree:
            return
        set_algorithm(operation, chosen.algorithm)
        set_origin(operation, Unit(PASS_NAME, "convolution", number))
        set_schedule(operation, chosen.schedule)

    def _leave(
        self, number: int, operation: ir.Operation, space: SearchSpace, failure: RewriteFailure
    ) -> None:
        names = tuple(location_names(operation.location))
        self._report(operation, Decision(space, number, names, None, (), None, str(failure)))

    def _report(self, operation: ir.Operation, decision: Decision) -> None:
        if decision.chosen is None or decision.chosen.implementation.is_left_to_iree:
            message = f"convolution {decision.number} left as it is: {decision.reason}"
            remark_missed(operation, PASS_NAME, message)
        if self.observe is not None:
            self.observe(decision)

    @contextmanager
    def _open_database(self, module: ir.Operation) -> Iterator[TuningDatabase | None]:
        if self.tuning_database is None:
            yield None
            return

        def report(message: str) -> None:
            remark_missed(module, PASS_NAME, message)

        try:
            database = TuningDatabase(self.tuning_database, report=report, read_only=True)
        except (OSError, ValueError) as error:
            module.location.emit_error(f"the tuning database can't be read: {error}")
            raise PassError from None
        with database:
            yield database

    def _decide(
        self, number: int, operation: ir.Operation, space: SearchSpace, database: TuningDatabase | None
    ) -> Decision:
        names = tuple(location_names(operation.location))
        convolution = match_convolution(operation)
        if isinstance(convolution, NoMatch):
            return Decision(space, number, names, None, (), None, convolution.reason)
        problem = convolution.problem

        def left(reason: str, candidates: tuple[Candidate, ...] = ()) -> Decision:
            return Decision(space, number, names, problem, candidates, None, reason)

        if not is_layer_allowed(self.allow, self.deny, number, operation):
            return left("the layer patterns exclude it")
        if str(problem.element_types) not in space.max_relative_errors:
            return left(f"its element type is {problem.element_types}, not f32")
        if reason := space.unsuited(problem):
            return left(reason)
        candidates = self._candidates(number, operation, problem, space, database)
        if not candidates:
            return left("a workgroup has not the memory for any algorithm")
        limit = error_limit(problem, space, self.max_relative_error, self.output_tile)
        accurate = [each for each in candidates if limit is None or each.predicted_error <= limit]
        if not accurate:
            best = min(candidates, key=lambda candidate: candidate.predicted_error)
            return left(
                f"of all algorithms {best.implementation.algorithm} has the least predicted relative error, "
                f"{best.predicted_error:.1e}, which exceeds {limit:.1e}",
                candidates,
            )
        measured = [each for each in accurate if each.measured_seconds is not None]
        if measured:
            which = "IREE's own code" if measured[0].implementation.is_left_to_iree else "it"
            reason = f"{which} is the fastest of those measured that are accurate enough"
            return Decision(space, number, names, problem, candidates, measured[0], reason, tuned=True)
        fastest = min(accurate, key=lambda candidate: candidate.predicted_seconds)
        chosen = min(
            (
                candidate
                for candidate in accurate
                if candidate.predicted_seconds <= fastest.predicted_seconds * (1 + TIME_TOLERANCE)
            ),
            key=lambda candidate: candidate.predicted_error,
        )
        reason = "it is predicted to be the fastest that is accurate enough"
        if chosen is not fastest:
            reason = (
                f"it is predicted to be as fast as {fastest.implementation.algorithm}, and is more accurate"
            )
        return Decision(space, number, names, problem, candidates, chosen, reason)

    def _candidates(
        self,
        number: int,
        operation: ir.Operation,
        problem: ConvolutionProblem,
        space: SearchSpace,
        database: TuningDatabase | None,
    ) -> tuple[Candidate, ...]:
        """One of each algorithm: with its fastest schedule where measured, these first, else the default.

        IREE's own code is among them where it was measured.
        """
        predicted = predict(problem, space, self.output_tile)
        if database is None:
            return predicted

        def ignore(measurements: str) -> None:
            message = f"convolution {number}: of {self.tuning_database} ignored {measurements}"
            remark_missed(operation, PASS_NAME, message)

        measured = measured_candidates(database, problem, space, self.output_tile, ignore)
        implementations = [candidate.implementation for candidate in measured]
        known = {each.algorithm for each in implementations if not each.is_left_to_iree}
        return (
            *measured,
            *(candidate for candidate in predicted if candidate.implementation.algorithm not in known),
        )
