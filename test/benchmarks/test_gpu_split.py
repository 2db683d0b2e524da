"""The benchmark of products on matrix units: what it measures can be built, and what it says of it."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.backends.schedules import schedule_from_record

from benchmarks.gpu_split_cases import CASES, Case
from benchmarks.gpu_split_report import print_case


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases_are_convolutions_by_schedules_that_there_are(case: Case) -> None:
    assert ConvolutionProblem.parse(case.problem).spatial_rank == len(case.output_tile) == len(case.part_size)
    assert schedule_from_record(case.schedule).kind == case.schedule["kind"]


@pytest.mark.parametrize(("right", "verdict"), [(True, "right"), (False, "WRONG")])
def test_a_line_says_whether_a_case_is_right(
    right: bool, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {"case": asdict(CASES[0]), "errors": {"0": 1e-6}, "of_zeros": 0.0, "not_finite": 3}
    print_case({**record, "right": right})
    assert capsys.readouterr().out == f"{verdict} {CASES[0].problem} {{'0': 1e-06}} 0.0 3\n"
