"""Models that people bring, those of them that need no library, in all ways that they are brought."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import models_of_people
from benchmarks.tables.people import models, speedup


def row(model: str, **milliseconds: float | None) -> dict[str, Any]:
    return {
        "model": model,
        "threads": 1,
        "tools": {
            tool.replace("_", "-"): {"failure": "ended by SIGSEGV"}
            if each is None
            else {"milliseconds": each, "error": 1e-6, "memory": 3 << 20}
            for tool, each in milliseconds.items()
        },
    }


def test_the_table_compares_with_the_best_other() -> None:
    rows = {
        "fast": row("fast", ours=2.0, ours_onnx=2.5, torch=8.0, onnxruntime=4.0, openvino=None),
        "alone": row("alone", ours=3.0),
    }
    assert [speedup(each) for each in rows.values()] == [2.0, None]
    lines = models([{models_of_people.TITLE: rows}])
    assert lines[2].startswith("| alone | 1 | 3.00 |  |  |  |")
    assert lines[3] == (
        "| fast | 1 | 2.00 | 2.50 |  |  | 8.00 |  | 4.00 | failed | 2.00 | 1.0e-06 | 1.0e-06 | 3 | 3 |"
    )
    assert lines[-1] == "The geometric mean of 1 speed-ups is 2.00."


@pytest.mark.wide
def test_all_ways_give_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "people.json"
    # All but `ours`, which other benchmarks have as well.
    ways = ["ours-onnx", "ours-torch-compile", "torch"]
    arguments = [
        "--models",
        "crnn",
        "--tools",
        *ways,
        "--threads",
        "1",
        "--seconds",
        "0",
        "--output",
        str(path),
    ]
    monkeypatch.setattr(sys, "argv", ["models_of_people", *arguments])
    models_of_people.main()
    (found,) = json.loads(path.read_text())[models_of_people.TITLE].values()
    assert {tool: each.get("failure") for tool, each in found["tools"].items()} == dict.fromkeys(ways)
    # Relative to the largest output: torch's own is of sums in another order.
    assert all(each["error"] < 1e-4 for each in found["tools"].values())
    # What loads a file, and torch, has its memory measured: at least its weights.
    weights = 4 * found["parameters"]
    memory = {tool: each["memory"] for tool, each in found["tools"].items() if "memory" in each}
    assert set(memory) == {"ours-onnx", "torch"} and min(memory.values()) > weights
    capsys.readouterr()
    models_of_people.main()
    assert not capsys.readouterr().out, "what is in the file isn't done again"
