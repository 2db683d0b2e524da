import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import isolation, zoo
from benchmarks.isolation import Outcome, side_by_side
from benchmarks.networks.zoo import ZOO
from benchmarks.results_file import ResultsFile
from benchmarks.zoo_report import findings, zoo_table


def row(**tools: dict[str, Any]) -> dict[str, Any]:
    return {"tools": tools}


def ours(error: float, milliseconds: float, speedup: float, **left: int) -> dict[str, Any]:
    return {
        "error": error,
        "milliseconds": milliseconds,
        "speedup": speedup,
        "compile_seconds": 3.0,
        "convolutions": {"ours": 7, "left": left},
    }


ROWS = {
    "good": row(
        ours=ours(3e-5, 2.0, 1.5),
        iree={"milliseconds": 5.0, "error": 1e-5, "compile_seconds": 2.5},
        torch={"milliseconds": 4.0, "error": 1e-5},
        **{"torch-frozen": {"milliseconds": 3.0, "error": 1e-5}},
        openvino={"failure": "ImportError: openvino"},
    ),
    "mobilenet_w1": row(
        ours=ours(5e-5, 4.0, 0.75, unsupported=2),
        iree={"milliseconds": 3.0, "compile_seconds": 1.5},
        torch={"milliseconds": 3.0, "error": 1e-5},
    ),
    "broken": row(ours={"failure": "ended by SIGSEGV"}, iree={"failure": "CompilationError"}),
}


def test_the_table_has_what_each_tool_took() -> None:
    lines = zoo_table(ROWS)
    assert lines[2] == (
        "| good | 3.0e-05 | 1.0e-05 | 7 | 0 | 2.00 | 5.00 | 3.00 |  |  | 1.50 | 2.50 | 1.20 |"
    )
    assert lines[4].startswith("| broken |  |  |  | ended by SIGSEGV |")


def test_what_falls_short_is_found() -> None:
    assert list(findings(ROWS)) == [
        "Mean speed-up over the best other tool: 1.06",
        "On 1 networks for phones: 0.75",
        "Below 0.95: mobilenet_w1 (0.75)",
        "Less accurate: mobilenet_w1",
        "Slower than stock IREE: mobilenet_w1 (0.75)",
        "Compiled in more than 1.5 times stock's processor time: mobilenet_w1 (2.00)",
        "mobilenet_w1 leaves 2 to IREE: unsupported",
        "broken failed: ended by SIGSEGV; stock IREE failed: CompilationError",
    ]


def test_nothing_is_said_of_iree_where_it_was_not_measured() -> None:
    alone = {
        network: row(**{tool: record for tool, record in each["tools"].items() if tool != "iree"})
        for network, each in ROWS.items()
    }
    assert list(findings(alone)) == [
        "Mean speed-up over the best other tool: 1.06",
        "On 1 networks for phones: 0.75",
        "Below 0.95: mobilenet_w1 (0.75)",
        "Less accurate: mobilenet_w1",
        "mobilenet_w1 leaves 2 to IREE: unsupported",
        "broken failed: ended by SIGSEGV",
    ]


def measure(monkeypatch: pytest.MonkeyPatch, *outcomes: Outcome) -> tuple[dict[str, Any], list[Any]]:
    """The row of a network whose processes end so, and the tools that each of them was to measure."""
    remaining, measured = list(outcomes), []

    def run(module: str, task: dict[str, Any], **limits: Any) -> Outcome:
        measured.append(task["tools"])
        return remaining.pop(0)

    monkeypatch.setattr(isolation, "run_isolated", run)
    options = argparse.Namespace(tools=["ours", "torch"], seconds=1.0, programs=None, limit=60.0, memory=1.0)
    return zoo._row("alexnetb", options, frozenset({0})), measured


def test_a_tool_that_ends_the_process_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    crashed = Outcome(({"begins": "ours"},), "ended by SIGSEGV")
    finished = Outcome(({"begins": "torch"}, {"tools": {"torch": {"error": 1e-7}}}), None)
    result, measured = measure(monkeypatch, crashed, finished)
    assert measured == [("ours", "torch"), ("torch",)]
    assert result["tools"] == {"ours": {"failure": "ended by SIGSEGV"}, "torch": {"error": 1e-7}}


def test_a_network_that_fails_by_itself_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    result, _ = measure(monkeypatch, Outcome((), "took more than 60 s"))
    assert result == {"failure": "took more than 60 s", "tools": {}}


def test_a_network_that_takes_too_long_to_time_has_its_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = Outcome(({"begins": "ours"}, {"tools": {"ours": {"error": 1e-7}}}), "took more than 60 s")
    result, _ = measure(monkeypatch, compared)
    assert result == {"failure": "took more than 60 s", "tools": {"ours": {"error": 1e-7}}}


def test_results_are_complete_after_each_row(tmp_path: Path) -> None:
    path = tmp_path / "results" / "zoo.json"
    ResultsFile(path, "zoo").add("good", ROWS["good"])
    again = ResultsFile(path, "zoo")
    assert again.rows == {"good": ROWS["good"]}
    again.add("broken", ROWS["broken"])
    assert list(json.loads(path.read_text())["zoo"]) == ["broken", "good"]


def test_all_cores_work_on_networks_once_each() -> None:
    seen = []
    side_by_side(ZOO, lambda network, processors: seen.append((network, processors)), jobs=2, seconds=60)
    assert sorted(network for network, _ in seen) == sorted(ZOO)
    assert all(len(processors) == 1 for _, processors in seen)


def test_no_network_is_begun_when_the_budget_is_spent() -> None:
    seen = []
    side_by_side(ZOO, lambda network, _: seen.append(network), jobs=1, seconds=-1)
    assert seen == []
