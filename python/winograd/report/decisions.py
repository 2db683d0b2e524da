"""What was decided of a program's layers, as a report: see `schema.py` for its form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from math import isfinite, prod

from iree.compiler import version as compiler_version
from iree.winograd import __version__
from iree.winograd.passes.infrastructure.containment import RewriteFailure
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.backends.schedules import schedule_record
from iree.winograd.pipelines.backends.search_space import SearchSpace
from iree.winograd.pipelines.machines.model import Limits
from iree.winograd.pipelines.on_program.note_layers import Dispatch
from iree.winograd.pipelines.selection.candidates import convolution_shape
from iree.winograd.pipelines.selection.decision import Candidate, Decision
from iree.winograd.pipelines.selection.layer_filter import location_names
from iree.winograd.report.quantities import binary_size
from iree.winograd.report.schema import (
    SCHEMA_VERSION,
    BandwidthReport,
    CandidateReport,
    DecisionReport,
    DispatchReport,
    FailureReport,
    LayerReport,
    LimitsReport,
    ProblemReport,
    TotalsReport,
    TypesReport,
    is_left_to_iree,
)

_LAYER_KERNEL = re.compile(r"winograd_(\w+_)?f\d")
"""The names of kernels that compute convolutions and products, and steps of them."""


def decision_report(
    decisions: Sequence[Decision],
    failures: Sequence[RewriteFailure] = (),
    dispatches: Sequence[Dispatch] = (),
    model: str | None = None,
    *,
    folds_at_load: bool = False,
) -> DecisionReport:
    """The report on the decisions of one program, on the failures in applying them, and on its dispatches.

    With `folds_at_load` its constant filters are transformed when it is loaded.
    """
    space = decisions[0].space if decisions else None
    dynamic_batch = 1 if space is None else space.dynamic_batch
    layers = [_layer(decision, dynamic_batch) for decision in decisions]
    return DecisionReport(
        schema_version=SCHEMA_VERSION,
        model=model,
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        versions={"iree-winograd": __version__, "iree-base-compiler": compiler_version.VERSION},
        target=None if space is None else space.key,
        machine=None if space is None else asdict(space.machine),
        limits=None if space is None else _limits(space.limits),
        dynamic_batch=dynamic_batch,
        folds_filters="load" if folds_at_load else "compile",
        failures=list(map(_failure, failures)),
        totals=_totals(layers, len(failures)),
        layers=layers,
        dispatches=_dispatches(dispatches, layers),
    )


def _dispatches(dispatches: Sequence[Dispatch], layers: Sequence[LayerReport]) -> list[DispatchReport]:
    """Where layers have no names, those of kernels tell which compute one."""
    names = {name for layer in layers for name in layer["names"][:1]}
    return [
        DispatchReport(
            kernel=each.kernel,
            name=each.name,
            is_layer=each.name in names if names else _LAYER_KERNEL.match(each.kernel) is not None,
            seconds=None,
        )
        for each in dispatches
    ]


def _failure(failure: RewriteFailure) -> FailureReport:
    return FailureReport(
        rewrite=failure.rewrite,
        subject=failure.subject,
        names=list(location_names(failure.location)),
        reason=failure.reason,
        left_out=None if failure.left_out is None else str(failure.left_out),
    )


def _layer(decision: Decision, dynamic_batch: int) -> LayerReport:
    problem = decision.problem
    batch = 1 if problem is None else problem.batch or problem.expected_batch or dynamic_batch
    return LayerReport(
        kind=decision.kind,
        number=decision.number,
        names=list(decision.names),
        problem=None if problem is None else _problem(problem),
        direct_operations=None if problem is None else _direct_operations(problem, batch),
        least_bytes=None if problem is None else _least_bytes(problem, batch),
        candidates=[]
        if problem is None
        else [_candidate(candidate, problem, batch, decision.space) for candidate in decision.candidates],
        chosen=None if decision.chosen is None else decision.candidates.index(decision.chosen),
        types=_types(decision),
        precision=decision.precision,
        reason=decision.reason,
        tuned=decision.tuned,
    )


def _types(decision: Decision) -> TypesReport | None:
    problem, chosen = decision.problem, decision.chosen
    if problem is None or chosen is None or chosen.implementation.is_left_to_iree:
        return None
    types, products = problem.element_types, chosen.implementation.product_type
    return TypesReport(
        operands=problem.exact_type or types.input,
        filters=chosen.implementation.schedule.stored_filter_type or products,
        domain=types.domain,
        products=products,
        sums=types.accumulator,
        result=problem.rounded_type or types.result,
    )


def _problem(problem: ConvolutionProblem) -> ProblemReport:
    return ProblemReport(
        text=str(problem),
        batch=problem.batch,
        input_size=list(problem.input_size),
        output_size=list(problem.output_size),
        input_channels=problem.input_channels,
        output_channels=problem.output_channels,
        kernel_size=list(problem.kernel_size),
        strides=list(problem.strides),
        dilations=list(problem.dilations),
        padding_low=list(problem.padding_low),
        padding_high=list(problem.padding_high),
        groups=problem.groups,
        element_type=str(problem.element_types),
    )


def _candidate(
    candidate: Candidate, problem: ConvolutionProblem, batch: int, space: SearchSpace
) -> CandidateReport:
    implementation = candidate.implementation
    shape = convolution_shape(problem, implementation.algorithm)
    tiles = batch * prod(shape.tiles_per_image)
    operations = 2 * tiles * shape.tile_products * shape.output_channels
    moved = None if implementation.is_left_to_iree else _least_bytes(problem, batch)
    return CandidateReport(
        algorithm=str(implementation.algorithm),
        output_tile=list(implementation.algorithm.output_tile),
        part_size=list(implementation.algorithm.part_size),
        schedule=schedule_record(implementation.schedule),
        operations=operations,
        stage_seconds=dict(candidate.stage_seconds),
        predicted_seconds=candidate.predicted_seconds if isfinite(candidate.predicted_seconds) else None,
        predicted_error=candidate.predicted_error,
        measured_seconds=candidate.measured_seconds,
        limit_seconds=None
        if moved is None
        else space.limit_seconds(operations, moved, implementation.schedule),
    )


def _direct_operations(problem: ConvolutionProblem, batch: int) -> int:
    return 2 * problem.multiply_adds * (1 if problem.batch else batch)


def _least_bytes(problem: ConvolutionProblem, batch: int) -> int | None:
    types = problem.element_types
    images = prod(problem.input_size) * problem.input_channels
    results = prod(problem.output_size) * problem.output_channels
    filters = prod(problem.kernel_size) * problem.group_inputs * problem.output_channels
    try:
        moved = images * types.input_bytes + results * types.result_bytes
        return batch * moved + filters * types.filter_bytes
    except ValueError:
        return None


def _totals(layers: Sequence[LayerReport], failures: int) -> TotalsReport:
    rewritten = [
        (layer["direct_operations"] or 0, layer["candidates"][layer["chosen"]])
        for layer in layers
        if layer["chosen"] is not None and not is_left_to_iree(layer)
    ]
    return TotalsReport(
        layers=len(layers),
        rewritten=len(rewritten),
        predicted_seconds=sum(
            (second for _, chosen in rewritten for second in chosen["stage_seconds"].values()), start=0.0
        ),
        direct_operations=sum(direct for direct, _ in rewritten),
        operations=sum(chosen["operations"] for _, chosen in rewritten),
        failures=failures,
    )


def _limits(limits: Limits) -> LimitsReport:
    return LimitsReport(
        operations_per_second=limits.operations_per_second,
        bandwidths=[
            BandwidthReport(
                name=each.name if each.size is None else f"{each.name} of {binary_size(each.size)}",
                bytes_per_second=each.bytes_per_second,
            )
            for each in limits.bandwidths
        ],
    )
