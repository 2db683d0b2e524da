"""Every operator that ONNX tests backends with: right, or refused by name, and no process ends.

Cases run in processes of their own, which end with what a compiler or a program may do to one.
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
SECONDS = 900

MODULES = sorted(
    module.name for module in pkgutil.iter_modules(operators.__path__) if not module.name.startswith("_")
)
# Those that our importer writes in other operators.
QUICK = ("depthtospace", "gridsample", "lpnormalization", "pad", "qlinearmatmul", "spacetodepth")
GROUPS = 24


def test_rewritten_operators_are_right_or_refused() -> None:
    expect_right_or_refused(QUICK)


@pytest.mark.wide
@pytest.mark.parametrize("group", range(GROUPS))
def test_operators_are_right_or_refused(group: int) -> None:
    names = [name for name in MODULES if name not in QUICK]
    expect_right_or_refused(tuple(names[group::GROUPS]))


def expect_right_or_refused(modules: tuple[str, ...]) -> None:
    command = [sys.executable, str(PROGRAM), *modules]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    lines = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert outcome.returncode == 0, f"the process ended in {lines[-1:]}: {outcome.stderr[-2000:]}"
    found = {line["name"]: line["outcome"] for line in lines if "name" in line}
    assert found
    wrong = {name: text for name, text in found.items() if text not in ("right", "refused")}
    assert not wrong
