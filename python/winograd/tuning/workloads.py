"""The layers of a program that there is something to choose for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iree.winograd.compiling.attempts import Attempts
from iree.winograd.compiling.compilation import Compilation
from iree.winograd.compiling.ir_dumps import IRDumps
from iree.winograd.compiling.pass_pipeline import run_passes
from iree.winograd.compiling.phases import REWRITE_PHASE, Stages
from iree.winograd.compiling.program import Source, compilation_error, open_session, open_source
from iree.winograd.compiling.stored_machine import with_stored_machine
from iree.winograd.diagnostic import Diagnostic
from iree.winograd.dialect.bindings import ir
from iree.winograd.errors import CompilationError
from iree.winograd.passes.infrastructure.containment import Containment, RewriteFailuresError
from iree.winograd.passes.infrastructure.registry import Pass, PassError
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.backends.module_backend import unsupported_target
from iree.winograd.pipelines.backends.search_space import SearchSpace
from iree.winograd.pipelines.compile_pipeline import compile_pipeline
from iree.winograd.pipelines.selection.decision import Candidate, Decision
from iree.winograd.pipelines.selection.options import WinogradOptions
from iree.winograd.pipelines.selection.precision import Precision, given_error
from iree.winograd.pipelines.selection.prediction import attainable_limit, error_limit
from iree.winograd.pipelines.selection.select_algorithm import SelectAlgorithm


@dataclass(frozen=True)
class Workload:
    """A layer that a program computes `count` times per call, in as many places."""

    problem: ConvolutionProblem
    space: SearchSpace
    default: Candidate
    """What is taken without tuning."""
    max_relative_error: float | None
    """Predicted error, relative to the output in the 1-norm, that an implementation may have."""
    count: int = 1
    precision: Precision = "as-written"
    """What the user asked for."""

    @property
    def predicted_seconds(self) -> float:
        """All places together, by the default."""
        return self.count * self.default.predicted_seconds


def extract(source: Source, flags: Sequence[str], options: WinogradOptions) -> tuple[Workload, ...]:
    """The distinct layers of `source` that could be rewritten, in program order.

    Raises `InvalidOptionError` for flags that aren't known and `CompilationError` when the program doesn't
    compile as far as the choice of algorithms, or when there are no kernels for its target.
    """
    diagnostics: list[Diagnostic] = []
    # What earlier tuning chose is not what there is without tuning.
    untuned = replace(options, tuning_database=None)
    with Compilation(
        open_session(tuple(flags), untuned),
        None,
        Stages(compile_to=REWRITE_PHASE),
        report=diagnostics.append,
    ) as compilation:
        invocation = compilation.compile(open_source(compilation, source, flags))
        if invocation is None:
            raise compilation_error(diagnostics)
        try:
            return _workloads(invocation.export_module(), untuned)
        except PassError:
            raise compilation_error(diagnostics) from None
        except RewriteFailuresError as error:
            raise CompilationError(str(error)) from None


def _workloads(module: ir.Operation, options: WinogradOptions) -> tuple[Workload, ...]:
    reason = unsupported_target(module)
    if reason is not None:
        raise CompilationError(reason)
    found: dict[ConvolutionProblem, Workload] = {}

    def observe(decision: Decision) -> None:
        problem = decision.problem
        if problem is None or decision.chosen is None:
            return
        given = given_error(decision.precision, options.max_relative_error)
        asked = error_limit(problem, decision.space, given, options.output_tile)
        limit = attainable_limit(problem, asked, decision.candidates)
        problem = problem.measured
        new = Workload(problem, decision.space, decision.chosen, limit, 0, decision.precision)
        known = found.get(problem, new)
        found[problem] = replace(known, count=known.count + 1)

    passes = _up_to_selection(compile_pipeline(with_stored_machine(options, module), observe))

    def attempt(containment: Containment) -> None:
        found.clear()
        run_passes(module.clone(), passes, IRDumps(), containment)

    Attempts(passes).run(attempt)
    return tuple(found.values())


def _up_to_selection(passes: Sequence[Pass]) -> Sequence[Pass]:
    (selection,) = (index for index, pass_ in enumerate(passes) if isinstance(pass_, SelectAlgorithm))
    return passes[: selection + 1]
