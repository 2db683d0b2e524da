"""Results that live when the interpreter ends."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from iree import winograd
from iree.winograd.loading.runtime import load
from iree.winograd.pipelines.problems.launches import CONSTANTS_FUNCTION
from loaded_programs import compile_program
from wide import wide, wide_combinations

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
    "a module",
    "a cycle through the program",
    "a daemon",
    "a device that is let go of",
)

LAUNCHED = """
import gc, sys, torch
from functools import cache
from iree.runtime._binding import create_hal_driver
from iree.winograd.cuda.driver import CudaDriver
from iree.winograd.loading import launchable
from iree.winograd.loading.device import Device
from iree.winograd.loading.launched_function import LaunchedFunction
from iree.winograd.loading.program_context import INSTANCE, ProgramContext
from iree.winograd.loading.program_module import program_module
from iree.winograd.pipelines.problems.launches import Copy, LaunchList, Memory, Place, ResultPlace
from cuda.host_driver import HostDriver

# In place of a GPU: a device of the host with the same cache, kept the same way, and its memory for torch.
launchable._DLPACK_CUDA = 1
torch.cuda.current_device, torch.cuda.is_current_stream_capturing = lambda: 0, lambda: False
torch._C._cuda_getCurrentRawStream = lambda index: 0

@cache
def device():
    hal = create_hal_driver("local-sync").create_default_device(allocators=["caching"])
    return Device("cuda", hal, in_host_memory=False, workers=0)

class Program(launchable.LaunchableProgram):
    def executables(self):
        return []

def loaded():
    module = program_module(INSTANCE, sys.argv[1])
    program = Program(sys.argv[1], ProgramContext(module, device()), module)
    copy = Copy(Place(Memory("constant", 0), 0), Place(Memory("allocation", 0), 0), 16384)
    result = ResultPlace(Place(Memory("allocation", 0), 0), "i32", (4096,))
    launches = LaunchList(((copy,),), (16384,), (result,))
    function = launchable.Launchable(program, launches)
    return LaunchedFunction(CudaDriver(HostDriver({})), function, [], [None], torch.device("cpu"), print)

call = loaded()
assert (call() == 7).all()
"""
"""Calls a function that is launched on CUDA, of a program with a constant."""

LAUNCHED_ENDINGS = {
    "a global": "",
    "a module": "import builtins\nbuiltins.kept = call",
    "a device that goes first": (
        "import builtins\nbuiltins.kept = call._constants\ndevice.cache_clear()\ndel call"
    ),
}


LOADED_BY_DAEMONS = """
import os, sys, threading
from iree.winograd.loading.runtime import load
def run():
    while True:
        load(sys.argv[1], sys.argv[2], threads=2 if sys.argv[2] == "local-task" else None)
        ready.set()
for _ in range(10):
    child = os.fork()
    if not child:
        ready = threading.Event()
        for _ in range(4):
            threading.Thread(target=run, daemon=True).start()
        ready.wait()
        break
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"a process ended with {status}")
"""
"""Has ten processes end whose threads load and drop a program meanwhile."""


_TYPE = "tensor<4x64xf32>"
DOUBLING = f"""
func.func @main(%x: {_TYPE}) -> {_TYPE} {{
  %0 = arith.addf %x, %x : {_TYPE}
  return %0 : {_TYPE}
}}
"""


@pytest.fixture(scope="module")
def doubling(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "doubling.vmfb"
    path.write_bytes(compile_program(DOUBLING))
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
    outcome = ended(PREAMBLE + ENDINGS[ending], str(doubling), device)
    assert outcome.returncode == 0, outcome.stderr
    # What a thread that never ends holds is reported.
    assert ending == "a daemon" or outcome.stderr == ""


@pytest.mark.parametrize("device", ["local-sync", *wide(["local-task"])])
def test_processes_end_whose_threads_load_programs(doubling: Path, device: str) -> None:
    """As one is dropped, memory is unmapped in a destructor of C++, without Python's lock."""
    outcome = ended(LOADED_BY_DAEMONS, str(doubling), device)
    assert outcome.returncode == 0, outcome.stderr


def test_a_process_whose_thread_calls_a_gpu_ends(tmp_path: Path, gpu_target: str, gpu_device: str) -> None:
    """Most of the time the thread waits for copies to and from the device."""
    path = tmp_path / "doubling.vmfb"
    winograd.compile(DOUBLING, target=gpu_target, enable_winograd=False, output=path)
    outcome = ended(PREAMBLE + ENDINGS["a daemon"], str(path), gpu_device)
    assert outcome.returncode == 0, outcome.stderr


@pytest.mark.parametrize("ending", ["a global", *wide(list(LAUNCHED_ENDINGS)[1:])])
def test_a_process_that_launched_a_program_with_constants_ends(ending: str, tmp_path: Path) -> None:
    path = tmp_path / "constants.vmfb"
    path.write_bytes(compile_program(returned_constant(CONSTANTS_FUNCTION)))
    outcome = ended(LAUNCHED + LAUNCHED_ENDINGS[ending], str(path))
    assert (outcome.returncode, outcome.stderr) == (0, "")


def ended(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A process that ran `code`; glibc overwrites what it frees."""
    environment = {**os.environ, "MALLOC_PERTURB_": "165", "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-X", "faulthandler", "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def returned_constant(name: str) -> str:
    """A function of this name without arguments."""
    type_ = "tensor<4096xi32>"
    text = f"func.func @{name}() -> {type_} {{\n  %0 = arith.constant dense<7> : {type_}\n"
    return f"{text}  return %0 : {type_}\n}}\n"


def test_results_that_are_constants_outlive_the_program() -> None:
    program = load(compile_program(returned_constant("main")), "local-sync")
    result = program()
    del program
    others = [np.zeros(4096, np.int32) for _ in range(20)]
    np.testing.assert_array_equal(result, np.full(4096, 7))
    del others
