"""Results that live when the interpreter ends."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from iree.winograd.loading.runtime import load
from loaded_programs import compile_program
from wide import wide_combinations

PREAMBLE = """
import sys, threading, numpy as np
from iree.winograd.loading.runtime import load
program = load(sys.argv[1], sys.argv[2], threads=2 if sys.argv[2] == "local-task" else None)
x = np.ones((4, 64), np.float32)
"""

ENDINGS = {
    "a global": "result = program(x)",
    "a view": "result = program(x)[1:, ::2]",
    "a global of main that torch keeps": ("import torch.testing._internal.common_utils\nresult = program(x)"),
    "a global of main that a module keeps": (
        "import json\njson.kept = sys.modules['__main__']\nresult = program(x)"
    ),
    "a module": "import builtins\nbuiltins.kept = program(x)",
    "a cycle": "cycle = [program(x)]\ncycle.append(cycle)\ndel cycle",
    "a cycle through the program": "program.kept = [program, program(x)]\ndel program",
    "a cycle of classes": (
        "class Kept:\n  def __del__(self): self.result.sum()\n"
        "kept = Kept()\nkept.self, kept.result = kept, program(x)\ndel kept"
    ),
    "an exception": "try:\n  raise ValueError(program(x))\nexcept ValueError as error:\n  sys.kept = error",
    "a thread's own": (
        "local = threading.local()\ndef run():\n  local.result = program(x)\n  results.append(local.result)\n"
        "results = []\nthread = threading.Thread(target=run)\nthread.start()\nthread.join()"
    ),
    "a daemon": (
        "import time\nready = threading.Event()\ndef run():\n  result = program(x)\n  ready.set()\n"
        "  while True:\n    result = program(result)\n"
        "threading.Thread(target=run, daemon=True).start()\nready.wait()"
    ),
    "a function that runs at the end": (
        "import atexit\nresult = program(x)\natexit.register(lambda: program(result))"
    ),
    "a tensor": "import torch\nresult = program(torch.from_numpy(x))\nkept = result[1:]",
    "a device that is let go of": (
        "from iree.winograd.loading import device\nresult = program(x)\ndel program\n"
        "device._open_host_device.cache_clear()\nothers = [np.full((4, 64), 3.0) for _ in range(9)]\n"
        "assert (result == 2).all()\ndel result"
    ),
}
QUICK_ENDINGS = (
    "a view",
    "a module",
    "a cycle through the program",
    "a daemon",
    "a device that is let go of",
)


@pytest.fixture(scope="module")
def doubling(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "doubling.vmfb"
    type_ = "tensor<4x64xf32>"
    text = f"func.func @main(%x: {type_}) -> {type_} {{\n  %0 = arith.addf %x, %x : {type_}\n"
    path.write_bytes(compile_program(f"{text}  return %0 : {type_}\n}}\n"))
    return path


@pytest.mark.parametrize(
    ("device", "ending"),
    [
        *(("local-task", ending) for ending in QUICK_ENDINGS),
        *wide_combinations(("local-task", ending) for ending in ENDINGS if ending not in QUICK_ENDINGS),
        *wide_combinations([("local-sync", "a global"), ("local-sync", "a cycle of classes")]),
    ],
)
def test_a_process_with_results_ends(doubling: Path, ending: str, device: str) -> None:
    command = [sys.executable, "-c", PREAMBLE + ENDINGS[ending], str(doubling), device]
    # glibc overwrites what is freed.
    environment = {**os.environ, "MALLOC_PERTURB_": "165"}
    outcome = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    # What a thread that never ends holds is reported.
    assert ending == "a daemon" or outcome.stderr == ""


def test_results_that_are_constants_outlive_the_program() -> None:
    text = "func.func @main() -> tensor<4096xi32> {\n  %0 = arith.constant dense<7> : tensor<4096xi32>\n"
    program = load(compile_program(f"{text}  return %0 : tensor<4096xi32>\n}}\n"), "local-sync")
    result = program()
    del program
    others = [np.zeros(4096, np.int32) for _ in range(20)]
    np.testing.assert_array_equal(result, np.full(4096, 7))
    del others
