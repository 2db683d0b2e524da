"""The programs that the tuner measures: each has to be the problem that it is for."""

from __future__ import annotations

import numpy as np
import pytest
from host import HOST
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure.algorithm import algorithm_of
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.backends.schedules import schedule_of
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.selection.candidates import iree_implementation
from iree.winograd.pipelines.selection.implementation import Implementation
from iree.winograd.pipelines.selection.layer import layers, match_problem
from iree.winograd.pipelines.selection.prediction import algorithm_error, predict
from iree.winograd.targets import target_flags
from iree.winograd.tuning.measuring.compile_job import CompileJob
from iree.winograd.tuning.measuring.measurement import MeasuredProgram, MeasurementJob
from iree.winograd.tuning.measuring.outcome import Failure, Timing
from iree.winograd.tuning.measuring.program_of_problem import layer_program
from wide import sampled, wide

SPACE = CpuBackend(HOST).search_space()
PLAIN = "1x10x10x16->16 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32"
FIRST = "input channels first, output channels first"
PROBLEMS = (
    PLAIN,
    "?x9x11x8->16 kernel 3x2 stride 2x1 dilation 1x2 padding 1x0 0x2 groups 1 f32",
    "2x40x16->24 kernel 5 stride 1 dilation 1 padding 2 2 groups 1 f32",
    "1x12x12x32->32 kernel 3x3 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 4 f32",
    "1x12x12x32->32 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 32 f32",
    "1x10x10x16->32 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32, input channels first",
    f"2x9x11x3->16 kernel 5x5 stride 2x2 dilation 1x1 padding 2x2 2x2 groups 1 f32, {FIRST}",
    f"1x12x12x32->32 kernel 3x3 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 4 f32, {FIRST}",
    "1x37x20->30 matmul f32",
    "2x5x7x16->24 matmul f32",
    "weight gradient of 2x10x10x16->16 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32",
    "weight gradient of 2x11x9x16->32 kernel 3x2 stride 2x1 dilation 1x2 padding 1x0 0x2 groups 2 f32",
)


def default_implementation(problem: ConvolutionProblem) -> tuple[Implementation, float]:
    """With the relative error that is predicted of it."""
    ours = (each for each in predict(problem, SPACE) if not each.implementation.is_left_to_iree)
    chosen = min(ours, key=lambda each: each.predicted_seconds)
    return chosen.implementation, chosen.predicted_error


@pytest.mark.parametrize("text", PROBLEMS)
def test_layer_of_the_program_is_the_problem(text: str) -> None:
    problem = ConvolutionProblem.parse(text)
    implementation, _ = default_implementation(problem)
    module = layer_program(problem).build(ir.Context(), implementation)
    assert module.operation.verify()
    with module.context:
        (layer,) = layers(module.operation)
        assert match_problem(layer, SPACE) == problem
        assert algorithm_of(layer.operation) == implementation.algorithm
        assert schedule_of(layer.operation) == implementation.schedule


@pytest.mark.parametrize("text", sampled(PROBLEMS, (PLAIN, PROBLEMS[-1])))
def test_candidates_compute_what_the_reference_does(text: str) -> None:
    problem = ConvolutionProblem.parse(text)
    implementation, error = default_implementation(problem)
    program = CompileJob(problem, implementation, target_flags("cpu")).run()
    wrong = MeasuredProgram(program, 1e-3 * error)
    job = MeasurementJob(problem, "local-sync", 1, (MeasuredProgram(program, error), wrong), 0.1)
    right, refused = job.run()
    assert isinstance(right, Timing)
    assert isinstance(refused, Failure) and refused.is_wrong_result


@pytest.mark.parametrize(
    "text", [PROBLEMS[1], *wide([PROBLEMS[2], PROBLEMS[4], PROBLEMS[7], *PROBLEMS[9::2]])]
)
def test_iree_alone_computes_what_the_reference_does(text: str) -> None:
    problem = ConvolutionProblem.parse(text)
    implementation = iree_implementation(problem)
    program = CompileJob(problem, implementation, target_flags("cpu")).run()
    assert b"winograd_" not in program
    measured = MeasuredProgram(program, algorithm_error(problem, implementation.algorithm))
    (timing,) = MeasurementJob(problem, "local-sync", 1, (measured,), 0.1).run()
    assert isinstance(timing, Timing), timing


def test_what_is_no_program_fails_alone() -> None:
    problem = ConvolutionProblem.parse(PLAIN)
    implementation, error = default_implementation(problem)
    program = CompileJob(problem, implementation, target_flags("cpu")).run()
    candidates = (MeasuredProgram(b"\0" * 64, error), MeasuredProgram(program, error))
    failed, timed = MeasurementJob(problem, "local-sync", 1, candidates, 0.1).run()
    assert isinstance(failed, Failure) and not failed.is_wrong_result
    assert isinstance(timed, Timing)


def test_outputs_vary_by_about_one() -> None:
    program = layer_program(ConvolutionProblem.parse(PLAIN))
    expected = program.expected()
    assert expected.shape == (1, 10, 10, 16)
    # Half of a normal distribution whose variance is that of the sums and of the bias.
    assert 0.3 < np.std(expected) < 1.5
