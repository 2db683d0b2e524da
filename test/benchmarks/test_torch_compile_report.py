from typing import Any

from benchmarks.torch_compile_report import findings, torch_compile_table, torch_compile_zoo_table

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
