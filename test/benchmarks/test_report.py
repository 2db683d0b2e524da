import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import model_table, table
from benchmarks.tables.cpu import layers
from benchmarks.threads_report import threads_table


def contender(milliseconds: float, error: float) -> dict[str, float]:
    return {"milliseconds": milliseconds, "error": error, "gflops": 100 / milliseconds}


def test_layers_are_compared_with_the_best_tool_that_counts() -> None:
    layer: dict[str, Any] = {
        "batch": 2, "height": 5, "width": 7, "channels": 3, "filters": 4,
        "limits": {"flops": 3e11},
        "speedups": {"ours-nhwc": 4.0, "ours-nchw": 2.0},
        "contenders": {
            "ours-nhwc": contender(1, 1e-6), "ours-nchw": contender(2, 1e-6),
            "iree-nhwc": contender(0.5, 1e-7), "onednn-blocked": contender(0.25, 1e-7),
            "torch-nchw": contender(6, 2e-7), "openvino-nhwc": contender(4, 3e-7),
        },
    }  # fmt: skip
    contenders = {name: layer["contenders"][name] for name in ("ours-nhwc", "ours-nchw")}
    alone = {**layer, "contenders": contenders, "speedups": {}}
    _, _, row, other, means = layers([{"layers": [layer, alone]}])
    times = "1.000 | 2.000 | 4.000 | openvino-nhwc"
    assert row == f"| 2 x 5 x 7, 3 -> 4 | {times} | 4.00 | 2.00 | 100 | 300 | 1.0e-06 | 3.0e-07 |"
    assert other == "| 2 x 5 x 7, 3 -> 4 | 1.000 | 2.000 |  |  |  |  | 100 | 300 | 1.0e-06 |  |"
    assert means == "| geometric mean |  |  |  |  | 4.00 | 2.00 |  |  |  |  |"


def test_models_have_a_column_per_tool() -> None:
    tools = ["ours", "torch"]
    record: dict[str, Any] = {
        "network": "net", "batch": 8, "threads": 1, "tools": tools,
        "times": {
            "ours": {"milliseconds": 2.0, "speedup": 3.0, "error": 1e-6},
            "torch": {"milliseconds": 6.0, "speedup": None, "error": 1e-7},
        },
    }  # fmt: skip
    failed = {**record, "times": {"failure": "out of memory"}}
    partly = {**record, "times": {**record["times"], "ours": {"failure": "no"}}}
    header, rule, row, empty, other = model_table([record, failed, partly])
    assert header == "| network | batch | threads | ours, ms | torch, ms | speed-up | error |"
    assert rule.count("---") == 7
    assert row == "| net | 8 | 1 | 2.00 | 6.00 | 3.00 | 1.0e-06 |"
    assert empty == "| net | 8 | 1 |  |  |  |  |"
    assert other == "| net | 8 | 1 |  | 6.00 |  |  |"


def test_threads_have_a_row_each_and_means_of_their_ratios() -> None:
    def row(ours: float, runner: float) -> dict[str, Any]:
        times = {"ours": ours, "ours-aligned": ours, "ours-runner": runner, "iree": 8.0, "torch": 4.0}
        contenders = {name: {"milliseconds": value} for name, value in times.items()}
        ratios = {name: 4.0 / times[name] for name in ("ours", "ours-aligned", "ours-runner")}
        named = {"name": "layer", "batch": 1, "threads": 16, "best": "torch", "ratios": ratios}
        return {**named, "contenders": {**contenders, "iree-tiled": {"failure": "no such flag"}}}

    _, _, first, _, means = threads_table([row(1.0, 0.5), row(4.0, 2.0)])
    times = "1.000 | 1.000 | 0.500 | 4.000 | torch | 8.000 | "
    assert first == f"| layer | 1 | 16 | {times} | 4.00 | 8.00 |"
    assert means.endswith("| 2.00 (least 1.00) | 4.00 (least 2.00) |")


RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_stored_results_have_the_table_of_their_benchmark(path: Path) -> None:
    lines = table(json.loads(path.read_text()))
    has_table = path.stem.startswith(("half", "layers", "models", "threads", "torch-compile", "zoo"))
    assert (lines is not None and len(lines) > 2) == has_table
