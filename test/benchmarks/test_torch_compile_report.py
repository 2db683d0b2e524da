from typing import Any

from benchmarks.torch_compile_report import (
    findings,
    torch_compile_failures_table,
    torch_compile_sweep_table,
    torch_compile_table,
    torch_compile_zoo_table,
)

GOOD: dict[str, Any] = {
    "eager_error": 4e-7,
    "error": 6e-7,
    "warnings": [],
    "parts": 1,
    "convolutions": 20,
    "left": [],
}
ROWS: dict[str, dict[str, Any]] = {
    "good": GOOD,
    "divided": {**GOOD, "error": 1e-6, "parts": 2, "left": ["aten.sort (it is odd)"], "warnings": ["left"]},
    "silent": {**GOOD, "left": ["aten.sort (it is odd)"]},
    "broken": {"eager_error": 4e-7, "failure": "ended by SIGSEGV"},
}


def test_the_table_has_both_errors_and_what_is_left() -> None:
    lines = torch_compile_zoo_table(ROWS)
    assert lines[3] == "| divided | 2 | 20 | 1.0e-06 | 4.0e-07 | 2.50 | aten.sort (it is odd) |"
    assert lines[5] == "| broken |  |  |  |  |  |  |"


def test_backends_are_compared_in_their_better_layouts() -> None:
    row: dict[str, Any] = {
        "network": "net", "batch": 1, "threads": 2, "ratio": 1.5,
        "milliseconds": {"eager-nchw": 9.0, "eager-nhwc": 7.0, "winograd-nchw": 2.0, "winograd-nhwc": 3.0},
        "errors": {"eager-nchw": 4e-7, "eager-nhwc": 5e-7, "winograd-nchw": 6e-7, "winograd-nhwc": 6e-7},
        "first_seconds": {"winograd": 8.0, "inductor": None},
    }  # fmt: skip
    lines = torch_compile_table([row, {"network": "broken", "batch": 1, "threads": 1}])
    assert lines[2] == "| net | 1 | 2 | 7.00 | 2.00 | 1.50 | 6.0e-07 | 4.0e-07 | 8.0, failed |  |"
    assert lines[3] == "| broken | 1 | 1 |  |  | failed |  |  |  |  |"


def test_what_falls_short_is_found() -> None:
    assert list(findings(ROWS))[1:] == [
        "Above 2 times eager's error: divided (2.50)",
        "Left without a warning: silent",
        "broken failed: ended by SIGSEGV",
    ]


CALL: dict[str, Any] = {
    "shape": [2, 3, 32, 48],
    "eager_error": 4e-7,
    "error": 6e-7,
    "seconds": 5.0,
    "warnings": [],
    "milliseconds": {"winograd": 2.0, "eager": 4.0},
}


def test_calls_of_a_sweep_that_fall_short_are_listed() -> None:
    failed = {key: CALL[key] for key in ("shape", "eager_error", "warnings")}
    calls = [
        CALL,
        {**CALL, "error": float("nan")},
        {**CALL, "error": 9e-6, "milliseconds": {"winograd": 3.0, "eager": 2.0}},
        {**failed, "exception": "ValueError: a|b"},
        {**CALL, "warnings": ["left to eager"]},
    ]
    lines = torch_compile_sweep_table({"net": {"calls": calls}, "broken": {"failure": "ended by SIGSEGV"}})
    assert lines[2:] == [
        "| net | 2 | 32x48 | nan | 4.0e-07 | 5.0 | 2.00 | 4.00 | error nan, eager's 4.0e-07 |",
        "| net | 2 | 32x48 | 9.0e-06 | 4.0e-07 | 5.0 | 3.00 | 2.00 | 3.00 ms, eager 2.00 |",
        "| net | 2 | 32x48 |  | 4.0e-07 |  |  |  | ValueError: a\\|b |",
        "| net | 2 | 32x48 | 6.0e-07 | 4.0e-07 | 5.0 | 2.00 | 4.00 | left to eager |",
        "",
        "* Networks: 2, calls: 5, exceptions: 1, results off: 1, slower than eager: 1, "
        "processes that failed: 1",
        "* Speed-up over eager, in the geometric mean: 1.52",
        "* broken failed: ended by SIGSEGV",
    ]


def test_a_step_that_fails_without_a_warning_is_listed() -> None:
    step = {
        "step": "division.divide",
        "eager_error": 4e-7,
        "error": 4e-7,
        "warns": True,
        "warnings": ["left"],
    }
    steps = [step, {**step, "warnings": []}]
    assert torch_compile_failures_table({"net": {"steps": steps}})[2:] == [
        "| net | 2 | division.divide: no warning |"
    ]
