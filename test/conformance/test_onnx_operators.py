"""The operators that ONNX tests backends with: right, or refused by name, and no process ends.

Cases run in processes of their own, which end with what a compiler or a program may do to one. Tests run a
sample of them (`onnx_node_cases.sample`); `python onnx_node_cases.py` with the names of modules runs all.
"""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from onnx.backend.test.case import node as operators

PROGRAM = Path(__file__).with_name("onnx_node_cases.py")
SECONDS = 600

MODULES = sorted(
    module.name for module in pkgutil.iter_modules(operators.__path__) if not module.name.startswith("_")
)
# Those that our importer writes in other operators.
REWRITTEN = (
    "depthtospace",
    "gridsample",
    "gru",
    "lpnormalization",
    "lstm",
    "nonmaxsuppression",
    "pad",
    "qlinearmatmul",
    "reversesequence",
    "rnn",
    "spacetodepth",
)
GROUPS = 32
"""One operator of so many is run of those that IREE's importer lowers."""


@pytest.mark.wide
def test_rewritten_operators_are_right_or_refused() -> None:
    expect_right_or_refused(("--sample", *REWRITTEN))


@pytest.mark.wide
def test_sampled_operators_are_right_or_refused() -> None:
    names = [name for name in MODULES if name not in REWRITTEN]
    expect_right_or_refused(("--sample", *names[::GROUPS]))


@pytest.mark.wide
def test_operators_of_half_precision_are_right_or_refused() -> None:
    names = [name for name in MODULES if not name.startswith("cast")]
    expect_right_or_refused(("--half", *names[::4]))


def expect_right_or_refused(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, str(PROGRAM), *arguments]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    lines = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert outcome.returncode == 0, f"the process ended in {lines[-1:]}: {outcome.stderr[-2000:]}"
    found = {line["name"]: line["outcome"] for line in lines if "name" in line}
    assert found
    wrong = {name: text for name, text in found.items() if text not in ("right", "refused")}
    assert not wrong
