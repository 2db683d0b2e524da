"""Programs in a process that was forked after they were loaded, as servers do that load before they fork."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from wide import wide_combinations

FORKING = """
import os, sys, threading, time
import numpy as np
import iree.winograd as winograd

x = np.arange(256, dtype=np.float32).reshape(4, 64)
THREADS = {"local-task": 2, "local-sync": None}

def load():
    return winograd.load(sys.argv[1], sys.argv[2], threads=THREADS[sys.argv[2]])

def check(program):
    for _ in range(20):
        np.testing.assert_array_equal(program.main(x), 2 * x)

def fork(work):
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        return
    try:
        work()
    except Exception:
        import traceback
        traceback.print_exc()
        os._exit(1)
    sys.exit(0)

program = load()
before = program.main(x)
{case}
check(program)
np.testing.assert_array_equal(before, 2 * x)
"""

CASES = {
    "a program of the parent": "fork(lambda: check(program))",
    "a new program": "fork(lambda: check(load()))",
    "a child of a child": "fork(lambda: (check(program), fork(lambda: check(program))))",
    "a fork while another thread calls": (
        "stop = threading.Event()\n"
        "def call():\n  while not stop.is_set():\n    program.main(x)\n"
        "thread = threading.Thread(target=call)\nthread.start()\n"
        "for _ in range(3):\n  fork(lambda: (check(program), stop.set()))\n"
        "stop.set()\nthread.join()"
    ),
    "what the parent made": "fork(lambda: (check(program), globals().__delitem__('before')))",
    "workers that fork": "for _ in range(3):\n  fork(lambda: (check(program), check(load())))",
}


QUICK_CASES = ("a child of a child", "a fork while another thread calls", "workers that fork")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize(
    ("device", "case"),
    [
        *(("local-task", case) for case in QUICK_CASES),
        # A child of a child forks, and has what its parent had, as a program of the parent.
        *wide_combinations(("local-task", case) for case in CASES if case not in QUICK_CASES),
        # Without threads of its own there is nothing to start anew.
        *wide_combinations([("local-sync", "a fork while another thread calls")]),
    ],
)
def test_the_child_works(vmfb: bytes, tmp_path: Path, device: str, case: str) -> None:
    path = tmp_path / "program.vmfb"
    path.write_bytes(vmfb)
    command = [sys.executable, "-c", FORKING.replace("{case}", CASES[case]), str(path), device]
    # A child that hangs would keep a pipe open.
    with (tmp_path / "errors").open("w+") as errors:
        outcome = subprocess.run(command, stderr=errors, timeout=60, check=False)
        errors.seek(0)
        said = errors.read()
    assert outcome.returncode == 0, said
    assert "Traceback" not in said
