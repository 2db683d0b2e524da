"""What a tuning database says of a convolution decides how it is computed."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement import expect_within
from iree import winograd
from iree.winograd.compiling.diagnostics import capture_diagnostics, capture_remarks
from iree.winograd.diagnostic import Diagnostic
from iree.winograd.dialect.algebra.numerics import error_bound
from iree.winograd.dialect.bindings import ir
from iree.winograd.dialect.reference import convolution
from iree.winograd.passes.infrastructure.algorithm import Algorithm, algorithm_of
from iree.winograd.passes.infrastructure.registry import PassError
from iree.winograd.passes.match.convolutions.convolution_form import convolutions
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.backends.schedules import schedule_of
from iree.winograd.pipelines.backends.search_space import SearchSpace
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.schedules.direct import DirectSchedule
from iree.winograd.pipelines.cpu.schedules.winograd import WinogradSchedule
from iree.winograd.pipelines.gpu.backend import GpuBackend
from iree.winograd.pipelines.gpu.choice.gemm_schedules import GEMM_SCHEDULES
from iree.winograd.pipelines.gpu.device.matrix_unit import MMA
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.gpu.schedules.fused import FusedSchedule
from iree.winograd.pipelines.gpu.schedules.gemm import GemmSchedule
from iree.winograd.pipelines.gpu.schedules.matrix import MatrixSchedule
from iree.winograd.pipelines.selection import tuning_database
from iree.winograd.pipelines.selection.candidates import (
    convolution_shape,
    implementations,
    iree_implementation,
)
from iree.winograd.pipelines.selection.chooser import Chooser
from iree.winograd.pipelines.selection.decision import Candidate, Decision
from iree.winograd.pipelines.selection.implementation import Implementation
from iree.winograd.pipelines.selection.layer import layers
from iree.winograd.pipelines.selection.module_space import AVX512_BACKEND
from iree.winograd.pipelines.selection.precision import Precision
from iree.winograd.pipelines.selection.prediction import candidate
from iree.winograd.pipelines.selection.select_algorithm import SelectAlgorithm
from iree.winograd.pipelines.selection.tuning_database import Measurement, TuningDatabase
from wide import wide

PROBLEM = ConvolutionProblem.parse(
    "1x14x14x32->48 kernel 3x3 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32"
)
SPACE = AVX512_BACKEND.search_space()
AMX = CpuBackend(CpuTarget.of("", "+avx512f,+avx512bw,+amx-tile,+amx-bf16")).search_space()
TENSOR_CORES = GpuBackend(GpuTarget(1024, 166912, "nvvm.minctasm", "sm_80", matrix_unit=MMA)).search_space()
HASWELL = CpuBackend(CpuTarget.of("haswell", "+avx2,+fma")).search_space()
SOURCE = """
func.func @main(%x: tensor<1x14x14x32xf32>, %w: tensor<3x3x32x48xf32>) -> tensor<1x12x12x48xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x12x12x48xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x12x12x48xf32>) -> tensor<1x12x12x48xf32>
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%x, %w : tensor<1x14x14x32xf32>, tensor<3x3x32x48xf32>)
    outs(%zeros : tensor<1x12x12x48xf32>) -> tensor<1x12x12x48xf32>
  return %r : tensor<1x12x12x48xf32>
}
"""
CONSTANT = SOURCE.replace(", %w: tensor<3x3x32x48xf32>)", ")").replace(
    "  %zero =", "  %w = arith.constant dense<0.5> : tensor<3x3x32x48xf32>\n  %zero ="
)
"""The same, its filter known when it is compiled."""


def algorithm(size: int) -> Algorithm:
    return Algorithm((size, size), (3, 3) if size > 1 else (1, 1))


def measured(size: int, seconds: float, **changes: int) -> Measurement:
    """Of F(size, 3), or the direct convolution, with a schedule that is none of the default ones."""
    schedule: WinogradSchedule | DirectSchedule = WinogradSchedule(16, 7, 7, 1, 32)
    if size == 1:
        schedule = DirectSchedule(16, 3, 3, 2, 12)
    return Measurement(Implementation(algorithm(size), replace(schedule, **changes)), seconds, 0.01, 9)


@dataclass
class Selection:
    """What the pass made of the convolution, and what it said."""

    decision: Decision
    algorithm: Algorithm | None
    schedule: Any
    remarks: list[str]


def select(path: Path, source: str = CONSTANT, **options: Any) -> Selection:
    decisions: list[Decision] = []
    remarks: list[Diagnostic] = []
    with ir.Context() as context:
        capture_remarks(context, remarks.append)
        module = ir.Module.parse(source).operation
        SelectAlgorithm(tuning_database=str(path), observe=decisions.append, **options).run(module)
        context.finalize_remarks()
        (operation,) = convolutions(module)
        (decision,) = decisions
        return Selection(
            decision, algorithm_of(operation), schedule_of(operation), [each.message for each in remarks]
        )


def record(path: Path, measurements: Sequence[Measurement], key: str = SPACE.key) -> None:
    with TuningDatabase(path, report=print) as database:
        database.record(PROBLEM, key, measurements)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tuning.db"


def test_the_fastest_measured_is_chosen(path: Path) -> None:
    fastest = measured(2, 1e-6, tile_block=14)
    record(path, [measured(4, 3e-6), fastest, measured(2, 2e-6), measured(1, 5e-6)])
    found = select(path)
    assert found.algorithm == algorithm(2)
    assert found.schedule == fastest.implementation.schedule
    assert found.decision.tuned and "measured" in found.decision.reason
    chosen = found.decision.chosen
    assert chosen is not None and chosen.measured_seconds == 1e-6
    known = {
        candidate.implementation.algorithm: candidate.measured_seconds
        for candidate in found.decision.candidates
        if candidate.measured_seconds is not None
    }
    assert known == {algorithm(2): 1e-6, algorithm(4): 3e-6, algorithm(1): 5e-6}
    candidates = [candidate.implementation for candidate in found.decision.candidates]
    assert len(candidates) == len(set(candidates)) > len(known)
    assert sum(candidate.algorithm in known for candidate in candidates) == len(known)
    assert found.remarks == []


def test_without_measurements_the_prediction_decides(path: Path) -> None:
    record(path, [])
    found = select(path)
    chosen = found.decision.chosen
    assert chosen is not None
    assert Implementation(found.algorithm, found.schedule) == chosen.implementation
    assert not found.decision.tuned and "predicted" in found.decision.reason


def measured_iree(seconds: float) -> Measurement:
    return Measurement(iree_implementation(PROBLEM), seconds, 0.0, 7)


def test_iree_alone_is_one_more_candidate(path: Path) -> None:
    record(path, [measured(1, 2e-6), measured_iree(3e-6)])
    found = select(path)
    assert found.algorithm == algorithm(1) and found.schedule == measured(1, 1.0).implementation.schedule
    directs = [each for each in found.decision.candidates if each.implementation.algorithm == algorithm(1)]
    assert [each.measured_seconds for each in directs] == [2e-6, 3e-6]
    record(path, [measured_iree(1e-6)])
    found = select(path)
    assert (found.algorithm, found.schedule) == (None, None) and found.decision.tuned
    assert found.decision.chosen is not None
    assert found.decision.chosen.implementation == iree_implementation(PROBLEM)
    (remark,) = found.remarks
    assert "left as it is: IREE's own code is the fastest of those measured" in remark
    # Tiles of a size that was asked for are no direct convolution.
    assert select(path, output_tile=4).algorithm == algorithm(4)


def test_where_only_iree_alone_was_measured_our_direct_kernel_is_still_a_candidate(path: Path) -> None:
    record(path, [measured_iree(1e-6)])
    candidates = [each.implementation for each in select(path).decision.candidates]
    assert [each.is_left_to_iree for each in candidates if each.algorithm == algorithm(1)] == [True, False]


def test_transforms_at_run_time_are_added_to_what_was_measured(path: Path) -> None:
    """Tiles of 4 save less than their larger filters take to be transformed."""
    record(path, [measured(4, 1.0e-6), measured(2, 1.1e-6)])
    assert select(path).algorithm == algorithm(4)
    found = select(path, SOURCE)
    assert found.algorithm == algorithm(2) and found.decision.tuned
    assert found.decision.chosen is not None and found.decision.chosen.measured_seconds is not None
    assert found.decision.chosen.measured_seconds > 2e-6


def test_inaccurate_algorithms_are_not_chosen_however_fast(path: Path) -> None:
    record(path, [measured(6, 1e-6), measured(2, 2e-6)])
    error = {
        candidate.implementation.algorithm: candidate.predicted_error
        for candidate in select(path).decision.candidates
    }
    enough = 1.1 * error[algorithm(6)]
    assert select(path, max_relative_error=enough).algorithm == algorithm(6)
    between = (error[algorithm(6)] + error[algorithm(2)]) / 2
    assert select(path, max_relative_error=between).algorithm == algorithm(2)


def test_the_output_tile_that_was_asked_for_is_kept(path: Path) -> None:
    record(path, [measured(6, 1e-6), measured(4, 2e-6), measured(1, 3e-6)])
    found = select(path, output_tile=4)
    assert found.algorithm == algorithm(4) and found.decision.tuned
    assert found.remarks == []
    assert select(path, output_tile=1).algorithm == algorithm(1)
    assert not select(path, output_tile=5).decision.tuned


def test_other_versions_and_targets_are_ignored_with_a_remark(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(path, [measured(6, 1e-7)], key="x86-64 znver4, threads 64")
    with monkeypatch.context() as earlier:
        earlier.setattr(tuning_database, "kernel_version", lambda: "earlier")
        record(path, [measured(6, 1e-7), measured(4, 1e-7)])
    found = select(path)
    assert not found.decision.tuned and found.schedule is not None
    (remark,) = found.remarks
    assert "ignored 3 measurements of other versions, targets or machines" in remark
    record(path, [measured(2, 1e-6)])
    assert select(path).algorithm == algorithm(2)
    # The pass is for one thread unless told otherwise.
    assert not select(path, threads=2).decision.tuned


def test_schedules_of_other_kernels_are_ignored_with_a_remark(path: Path) -> None:
    record(
        path,
        [
            Measurement(Implementation(algorithm(4), measured(1, 1.0).implementation.schedule), 1e-9, 0.0, 1),
            Measurement(Implementation(algorithm(2), GEMM_SCHEDULES[0]), 1e-9, 0.0, 1),
            measured(2, 1e-6),
        ],
    )
    found = select(path)
    assert found.algorithm == algorithm(2)
    assert found.schedule == measured(2, 1e-6).implementation.schedule
    (remark,) = found.remarks
    assert "ignored 2 measurements the target has no kernel for" in remark


def write_damaged_database(path: Path) -> bytes:
    """The beginning of a tuning database that was in order."""
    with TuningDatabase(path, report=print) as database:
        database.record(PROBLEM, SPACE.key, [])
    damaged = path.read_bytes()[:1000]
    path.write_bytes(damaged)
    return damaged


def test_a_damaged_database_is_ignored_with_a_remark(path: Path) -> None:
    write_damaged_database(path)
    found = select(path)
    assert found.algorithm is not None and not found.decision.tuned
    (remark,) = found.remarks
    assert "damaged" in remark


def test_a_missing_database_is_an_error(path: Path) -> None:
    diagnostics: list[Diagnostic] = []
    with ir.Context() as context:
        capture_diagnostics(context, diagnostics.append)
        module = ir.Module.parse(SOURCE).operation
        with pytest.raises(PassError):
            SelectAlgorithm(tuning_database=str(path)).run(module)
    (diagnostic,) = diagnostics
    assert "No such file or directory" in diagnostic.message and str(path) in diagnostic.message


@pytest.mark.parametrize("separate", [True, *wide([False])])
def test_compiled_programs_have_the_schedule_and_are_right(path: Path, separate: bool) -> None:
    """Inputs that are transformed by workgroups of their own show in the names of kernels."""
    best = next(
        each
        for each in implementations(HASWELL, PROBLEM)
        if isinstance(each.schedule, WinogradSchedule)
        and each.algorithm == algorithm(4)
        and (each.schedule.input_block is not None) == separate
        and each.schedule.register_vectors == 1
    )
    with TuningDatabase(path, report=print) as database:
        database.record(PROBLEM, HASWELL.key, [Measurement(best, 1e-6, 0.0, 1), measured(2, 1.0)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = winograd.compile(SOURCE, target="cpu:haswell", threads=1, tuning_database=str(path))
    assert isinstance(compiled, bytes)
    assert (b"winograd_input" in compiled) == separate
    check_result(compiled, algorithm(4))


def test_programs_left_to_iree_have_no_kernels_and_are_right(path: Path, tmp_path: Path) -> None:
    with TuningDatabase(path, report=print) as database:
        database.record(PROBLEM, HASWELL.key, [measured_iree(1e-6), measured(2, 1.0)])
    for report in (tmp_path / "report.json", tmp_path / "report.html"):
        compiled = winograd.compile(
            SOURCE, target="cpu:haswell", threads=1, tuning_database=str(path), report=report
        )
    assert isinstance(compiled, bytes)
    assert b"winograd_" not in compiled
    check_result(compiled, algorithm(1))
    decided = json.loads((tmp_path / "report.json").read_text())
    totals, (convolution_report,) = decided["totals"], decided["layers"]
    assert (totals["layers"], totals["rewritten"], totals["predicted_seconds"]) == (1, 0, 0)
    chosen = convolution_report["candidates"][convolution_report["chosen"]]
    assert (chosen["schedule"], chosen["measured_seconds"]) == ({"kind": "iree"}, 1e-6)
    assert chosen["predicted_seconds"] is None and convolution_report["tuned"]
    page = (tmp_path / "report.html").read_text()
    assert "1 left to IREE" in page and "<div>left to IREE</div>" in page


ROWS = ConvolutionProblem.parse("1x5x64->48 matmul f32")
FULLY_CONNECTED = """
func.func @main(%x: tensor<5x64xf32>) -> tensor<5x48xf32> {
  %zero = arith.constant 0.0 : f32
  %w = arith.constant dense<0.5> : tensor<64x48xf32>
  %empty = tensor.empty() : tensor<5x48xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<5x48xf32>) -> tensor<5x48xf32>
  %r = linalg.matmul ins(%x, %w : tensor<5x64xf32>, tensor<64x48xf32>)
    outs(%zeros : tensor<5x48xf32>) -> tensor<5x48xf32>
  return %r : tensor<5x48xf32>
}
"""


def decide_rows(path: Path) -> Decision:
    decisions: list[Decision] = []
    with ir.Context():
        module = ir.Module.parse(FULLY_CONNECTED).operation
        SelectAlgorithm(tuning_database=str(path), observe=decisions.append).run(module)
    (decision,) = decisions
    return decision


def test_of_products_the_fastest_measured_is_chosen(path: Path) -> None:
    ours = list(islice(implementations(SPACE, ROWS), 2))
    iree = iree_implementation(ROWS)
    times = {ours[0]: 2e-6, ours[1]: 1e-6, iree: 3e-6}
    with TuningDatabase(path, report=print) as database:
        database.record(ROWS, SPACE.key, [Measurement(each, times[each], 0.0, 9) for each in times])
    decision = decide_rows(path)
    assert decision.tuned and decision.chosen is not None
    assert decision.chosen.implementation == ours[1]
    with TuningDatabase(path, report=print) as database:
        database.record(ROWS, SPACE.key, [Measurement(iree, 1e-7, 0.0, 9)])
    decision = decide_rows(path)
    assert decision.tuned and decision.chosen is not None
    assert decision.chosen.implementation == iree
    # Each way to compute it is a candidate once, by its measurement.
    measured_seconds = [candidate.measured_seconds for candidate in decision.candidates]
    assert measured_seconds == [1e-7, 1e-6]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (FULLY_CONNECTED.replace("64x48", "512x48").replace("5x64", "5x512"), "1x5x512->48 matmul f32"),
        (
            SOURCE.replace("14x14x32", "14x14x512").replace("3x3x32", "3x3x512"),
            str(replace(PROBLEM, input_channels=512)),
        ),
    ],
)
def test_split_products_that_are_measured_but_inaccurate_leave_the_others(
    path: Path, source: str, text: str
) -> None:
    problem = ConvolutionProblem.parse(text)
    target = GpuTarget(1024, 166912, "nvvm.minctasm", "sm_80", matrix_unit=MMA)
    space = GpuBackend(target).search_space()
    in_blocks = next(each for each in implementations(space, problem) if each.schedule.matrix_products == 3)
    assert isinstance(in_blocks.schedule, MatrixSchedule)
    split = replace(in_blocks, schedule=replace(in_blocks.schedule, summed_block=None))
    limit = candidate(problem, space, iree_implementation(problem)).predicted_error
    assert split.algorithm.is_direct and limit < candidate(problem, space, split).predicted_error
    with TuningDatabase(path, report=print) as database, ir.Context():
        database.record(problem, space.key, [Measurement(split, 1e-9, 0.0, 9)])
        module = ir.Module.parse(source)
        (layer,) = layers(module.operation)
        decision = Chooser(space, database, None, (), (), limit).decide(layer, print)
    assert decision.chosen is not None and decision.chosen.predicted_error <= limit
    directs = [each for each in decision.candidates if each.implementation.algorithm == split.algorithm]
    assert {each.implementation.schedule.matrix_products for each in directs} == {0, 1, 3}


@pytest.mark.parametrize(
    ("space", "output_tile"),
    [(AMX, None), (AMX, 1), (TENSOR_CORES, None), (TENSOR_CORES, 1), (TENSOR_CORES, 4)],
    ids=["AMX", "AMX, F(1)", "tensor cores", "tensor cores, F(1)", "tensor cores, F(4)"],
)
def test_schedules_that_round_operands_are_for_who_asks_for_them(
    path: Path, space: SearchSpace, output_tile: int | None
) -> None:
    """A database of tuning for the fastest precision, read by a program of f32 that asks for none."""
    tiled = algorithm(output_tile or 1)
    offered = (Implementation(tiled, each) for each in space.schedules(convolution_shape(PROBLEM, tiled)))
    rounding = list(islice((each for each in offered if candidate(PROBLEM, space, each).rounds_operands), 50))
    with TuningDatabase(path, report=print) as database, ir.Context():
        database.record(PROBLEM, space.key, [Measurement(each, 1e-9, 0.0, 9) for each in rounding])
        module = ir.Module.parse(CONSTANT)
        (layer,) = layers(module.operation)

        def chosen(precision: Precision) -> Candidate:
            chooser = Chooser(space, database, output_tile, (), (), None, precision=precision)
            found = chooser.decide(layer, print).chosen
            assert found is not None
            return found

        for precision in ("as-written", "f32"):
            assert not chosen(precision).rounds_operands
        assert rounding and chosen("fastest").implementation in rounding


def test_measurements_of_the_convolution_that_a_product_is_do_not_count(path: Path) -> None:
    pointwise = ConvolutionProblem(1, (5,), (0,), (0,), (1,), (1,), (1,), 1, 64, 48)
    with TuningDatabase(path, report=print) as database:
        database.record(pointwise, SPACE.key, [Measurement(iree_implementation(pointwise), 1e-9, 0.0, 9)])
    decision = decide_rows(path)
    assert not decision.tuned
    assert [candidate.measured_seconds for candidate in decision.candidates] == [None, None]


def check_result(compiled: bytes, computed_by: Algorithm) -> None:
    generator = np.random.default_rng(0)
    image = generator.uniform(-1, 1, (1, 14, 14, 32)).astype(np.float32)
    filters = generator.uniform(-1, 1, (3, 3, 32, 48)).astype(np.float32)
    result = np.asarray(winograd.load(compiled, device="local-sync")(image, filters))
    expected = convolution(image.astype(np.float64), filters.astype(np.float64))
    bound = error_bound(computed_by.output_tile, computed_by.part_size, 32)
    expect_within(result, expected, bound)
    assert bound < np.abs(expected).max() / 2


@pytest.mark.parametrize("channels", [512, 32])
def test_on_gpus_what_is_measured_may_be_other_kernels_than_the_default(path: Path, channels: int) -> None:
    problem = replace(PROBLEM, input_channels=channels)
    space = GpuBackend(GpuTarget(1024, 166912, architecture="sm_80")).search_space()
    shape = convolution_shape(problem, algorithm(2))
    default = type(space.default_schedule(shape))
    best = next(each for each in space.schedules(shape) if not isinstance(each, default))
    with TuningDatabase(path, report=print) as database:
        implementation = Implementation(algorithm(2), best)
        database.record(problem, space.key, [Measurement(implementation, 1e-6, 0.0, 1)])
    source = SOURCE.replace("14x14x32", f"14x14x{channels}").replace("3x3x32", f"3x3x{channels}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = winograd.compile(source, target="cuda:sm_80", tuning_database=str(path))
    assert (b"winograd_fused" in compiled) == isinstance(best, FusedSchedule)
    assert (b"winograd_products" in compiled) == isinstance(best, GemmSchedule)


def test_compiling_with_a_damaged_database_is_a_warning(path: Path) -> None:
    damaged = write_damaged_database(path)
    with pytest.warns(winograd.TuningDatabaseWarning, match=r"tuning\.db, which is damaged") as caught:
        assert winograd.compile(SOURCE, tuning_database=str(path))
    assert {warning.filename for warning in caught} == {__file__}
    assert path.read_bytes() == damaged


def test_compiling_with_a_missing_database_is_an_error_of_the_option(path: Path) -> None:
    with pytest.raises(winograd.InvalidOptionError, match=r"can't read tuning database '.*': No such file"):
        winograd.compile(SOURCE, tuning_database=str(path))
    assert winograd.compile(SOURCE, tuning_database=str(path), enable_winograd=False)
    assert not path.exists()
