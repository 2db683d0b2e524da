"""Every operator that PyTorch tests, beside a convolution: right, or refused by name, and no process ends.

Cases run in processes of their own, which end with what a compiler or a program may do to one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("torch_operator_cases.py")
SECONDS = 900
GROUPS = 96


@pytest.mark.wide
def test_operators_are_right_or_refused() -> None:
    """Every 96th operator; `python torch_operator_cases.py 0 1` runs them all, in a quarter of an hour."""
    command = [sys.executable, str(PROGRAM), "0", str(GROUPS)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    lines = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert outcome.returncode == 0, f"the process ended in {lines[-1:]}: {outcome.stderr[-2000:]}"
    found = {line["name"]: line["outcome"] for line in lines if "name" in line}
    right = sum(text == "right" for text in found.values())
    assert right > len(found) / 2, "too few are imported for the test to tell anything"
    wrong = {name: text for name, text in found.items() if text not in ("right", "refused")}
    assert not wrong
