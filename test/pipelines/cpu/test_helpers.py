"""Programs for few threads, whose callers share workgroups with helpers."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
import torch
from agreement import expect_within
from chained_layers import CHANNELS, SIZE, compile_shared, exact, residual_layers
from host import HOST
from iree.winograd.command_line.tool_directory import TOOL_DIRECTORY
from iree.winograd.loading.helpers import Helpers
from iree.winograd.loading.runtime import LoadedProgram
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.problems.helpers import HELPERS_FUNCTION, LAST_JOB, MOST_THREADS
from iree.winograd.targets import target_flags
from warm_python import driver_environment
from wide import sampled

pytestmark = [
    pytest.mark.xdist_group("helpers"),
    pytest.mark.skipif(not CpuBackend(HOST).shares_workgroups, reason="helpers are for x86-64 on Linux"),
]

CALLS = 50
SLEEP_SECONDS = 0.01
"""After which helpers sleep, at many times what they look for work."""


class _Attention(torch.nn.Module):
    def forward(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(queries, keys, values)


@pytest.fixture(autouse=True)
def _with_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test machine may have a single one, on which threads take turns."""
    monkeypatch.setattr("iree.winograd.loading.device.available_processors", lambda: MOST_THREADS)


@pytest.fixture(scope="module")
def program() -> bytes:
    return compile_shared(residual_layers(0), 2)


@pytest.fixture(scope="module")
def other() -> bytes:
    return compile_shared(residual_layers(3, None), 2)


@pytest.fixture(scope="module")
def image() -> npt.NDArray[np.float32]:
    return np.random.default_rng(1).uniform(-1, 1, (1, SIZE, SIZE, CHANNELS)).astype(np.float32)


def helpers_of(program: LoadedProgram) -> Helpers:
    helpers = program.main.device.helpers
    assert helpers is not None
    return helpers


def jobs(program: LoadedProgram) -> int:
    return int(helpers_of(program)._field(LAST_JOB, np.int64))


def running() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "helper"]


def test_kernels_of_no_convolution_are_shared() -> None:
    """Attention has kernels that no layer is named for."""
    torch.manual_seed(0)
    scores = [torch.randn(1, 4, tokens, 64) for tokens in (512, 384, 384)]
    compiled = iree.winograd.compile(
        iree.winograd.import_torch(_Attention(), *scores), target="cpu", threads=2, strict=True
    )
    arguments = [each.numpy() for each in scores]
    alone = iree.winograd.load(compiled, device="local-sync")(*arguments)
    loaded = iree.winograd.load(compiled, threads=2)
    assert np.array_equal(loaded(*arguments), alone)
    assert jobs(loaded)


@pytest.mark.parametrize("phase", ["stream", "executable-targets"])
def test_programs_that_iree_compiles_to_the_end(
    image: npt.NDArray[np.float32], tmp_path: Path, phase: str
) -> None:
    """Kernels share workgroups if they are translated with our passes. Others have as many workers."""
    source, program = tmp_path / "layers.mlir", tmp_path / "layers.vmfb"
    source.write_text(residual_layers(0))
    tool = [TOOL_DIRECTORY / "iree-compile", *target_flags("cpu")]
    ours = ["--iree-enable-winograd", "--iree-winograd-threads=2", f"--compile-to={phase}"]
    for flags, taken, given in (
        (ours, source, tmp_path / "phase.mlir"),
        ([f"--compile-from={phase}"], tmp_path / "phase.mlir", program),
    ):
        command = [*tool, *flags, taken, "-o", given]
        subprocess.run(command, env=driver_environment(), check=True, capture_output=True)
    loaded = iree.winograd.load(program, threads=2)
    is_shared = loaded.main.device.helpers is not None
    assert is_shared == (phase == "executable-targets")
    assert is_shared or loaded.main.device.workers == 2
    expect_within(np.asarray(loaded(image)), *exact(0, image))


@pytest.mark.parametrize("threads", range(2, MOST_THREADS + 1))
def test_results_are_those_of_the_caller_alone(
    program: bytes, image: npt.NDArray[np.float32], threads: int
) -> None:
    """Also when helpers sleep, and where they come when a kernel is done."""
    expected = np.asarray(iree.winograd.load(program, device="local-sync")(image))
    expect_within(expected, *exact(0, image))
    loaded = iree.winograd.load(program, threads=threads)
    assert loaded.main.device.threads == threads
    before = jobs(loaded)
    for call in range(CALLS):
        np.testing.assert_array_equal(np.asarray(loaded(image)), expected)
        time.sleep(SLEEP_SECONDS * (call % 2))
    assert jobs(loaded) > before


def test_all_sizes(other: bytes) -> None:
    alone = iree.winograd.load(other, device="local-sync")
    loaded = iree.winograd.load(other, threads=2)
    for size in ((SIZE, SIZE), (1, 1), (0, 5), (37, 23), (0, 0), (2, 9)):
        image = np.random.default_rng(1).uniform(-1, 1, (1, *size, CHANNELS)).astype(np.float32)
        expected = np.asarray(alone(image))
        for _ in range(CALLS):
            np.testing.assert_array_equal(np.asarray(loaded(image)), expected)


def test_callers_at_once(program: bytes, other: bytes, image: npt.NDArray[np.float32]) -> None:
    """One of them has the helpers, others work alone."""
    loaded = [iree.winograd.load(each, threads=2) for each in (program, other, program)]
    assert len({id(helpers_of(each)) for each in loaded}) == 1
    expected = [np.asarray(each(image)) for each in loaded]

    def call(number: int) -> bool:
        return all(np.array_equal(loaded[number](image), expected[number]) for _ in range(CALLS))

    with ThreadPoolExecutor(len(loaded)) as pool:
        assert all(pool.map(call, range(len(loaded))))


def test_helpers_go_on_when_the_program_whose_code_they_run_is_gone(
    program: bytes, other: bytes, image: npt.NDArray[np.float32]
) -> None:
    gc.collect()
    first, second = (iree.winograd.load(each, threads=2) for each in (program, other))
    expected = np.asarray(second(image))
    helpers, (thread,) = helpers_of(first), running()
    del first
    gc.collect()
    assert not thread.is_alive() and len(running()) == helpers.count
    for _ in range(CALLS):
        np.testing.assert_array_equal(np.asarray(second(image)), expected)
    del second
    gc.collect()
    assert running() == []
    third = iree.winograd.load(other, threads=2)
    np.testing.assert_array_equal(np.asarray(third(image)), expected)
    assert len(running()) == helpers.count


def test_a_program_runs_where_the_system_has_no_thread_left(
    program: bytes, image: npt.NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.collect()
    expected = np.asarray(iree.winograd.load(program, device="local-sync")(image))

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patches:
        patches.setattr(threading.Thread, "start", start)
        loaded = iree.winograd.load(program, threads=2)
        np.testing.assert_array_equal(np.asarray(loaded(image)), expected)
    assert running() == []
    # There is one for the next program.
    other = iree.winograd.load(program, threads=2)
    assert len(running()) == helpers_of(other).count
    np.testing.assert_array_equal(np.asarray(loaded(image)), expected)


def test_an_interrupt_while_helpers_end(program: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have ended, since the code that they run is about to go, and others may begin."""
    gc.collect()
    loaded = iree.winograd.load(program, threads=2)
    threads, join = running(), threading.Thread.join
    interrupts = iter([KeyboardInterrupt])

    def interrupted(thread: threading.Thread, timeout: float | None = None) -> None:
        for each in interrupts:
            raise each
        join(thread, timeout)

    with monkeypatch.context() as patches:
        patches.setattr(threading.Thread, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            helpers_of(loaded).stop()
    assert threads and not any(thread.is_alive() for thread in threads)
    other = iree.winograd.load(program, threads=2)
    assert len(running()) == helpers_of(other).count


def test_a_program_has_workers_where_helpers_would_take_its_callers_processor(
    program: bytes, image: npt.NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = np.asarray(iree.winograd.load(program, device="local-sync")(image))
    monkeypatch.setattr("iree.winograd.loading.device.available_processors", lambda: 1)
    loaded = iree.winograd.load(program, threads=2)
    assert loaded.main.device.helpers is None and loaded.main.device.workers == 2
    np.testing.assert_array_equal(np.asarray(loaded(image)), expected)


ON_WORKERS = """
import sys
import numpy as np
from iree.winograd.loading.runtime import load
x = np.ones({shape}, np.float32)
expected = np.asarray(load(sys.argv[1], device="local-sync")(x))
program = load(sys.argv[1], threads=16)
for _ in range(20):
    np.testing.assert_array_equal(program(x), expected)
"""


@pytest.mark.this_machine
def test_workers_run_programs_for_processors_without_avx(
    image: npt.NDArray[np.float32], tmp_path: Path
) -> None:
    """What IREE calls kernels with is at no multiple of 16 bytes there, which SSE's copies need."""
    path = tmp_path / "program.vmfb"
    iree.winograd.compile(residual_layers(0), target="cpu:x86-64", threads=2, output=path)
    command = [sys.executable, "-W", "ignore", "-c", ON_WORKERS.format(shape=image.shape), path]
    subprocess.run(command, check=True)


def test_programs_for_many_threads_have_workers(image: npt.NDArray[np.float32]) -> None:
    many = compile_shared(residual_layers(0), MOST_THREADS + 1)
    assert HELPERS_FUNCTION.encode() not in many
    assert iree.winograd.load(many, threads=2).main.device.workers == 2


PROCESS = """
import gc, os, sys, threading
import numpy as np
from iree.winograd.loading import device
device.available_processors = lambda: 2
from iree.winograd.loading.runtime import load
from iree.winograd.pipelines.problems.helpers import ACTIVE, SHARED
program = load(sys.argv[1], threads=2)
assert program.main.device.helpers is not None
x = np.ones({shape}, np.float32)
expected = np.asarray(program(x))
def check():
    for _ in range(20):
        np.testing.assert_array_equal(program(x), expected)
{case}
"""
CASES = {
    "an end after a call": "check()",
    "an end while a daemon calls": (
        "ready = threading.Event()\ndef run():\n  while True:\n    program(x)\n    ready.set()\n"
        "threading.Thread(target=run, daemon=True).start()\nready.wait()"
    ),
    "ends while daemons load": (
        "def run():\n  while True:\n    load(sys.argv[1], threads=2)\n    ready.set()\n"
        "for _ in range(10):\n  child = os.fork()\n  if not child:\n    ready = threading.Event()\n"
        "    for _ in range(4): threading.Thread(target=run, daemon=True).start()\n"
        "    ready.wait()\n    break\n"
        "  _, status = os.waitpid(child, 0)\n  if status:\n    sys.exit(status)"
    ),
    "an interrupt while helpers begin": (
        "del program\ngc.collect()\nstart = threading.Thread.start\n"
        "def interrupted(thread):\n  start(thread)\n  raise KeyboardInterrupt\n"
        "threading.Thread.start = interrupted\n"
        "try:\n  load(sys.argv[1], threads=2)\nexcept KeyboardInterrupt:\n  pass\n"
        "else:\n  sys.exit('no interrupt')\n"
        "threading.Thread.start = start\ngc.collect()\nprogram = load(sys.argv[1], threads=2)\n"
        "for _ in range(50):\n  check()"
    ),
    "garbage that a helper collects as it ends": (
        "del program\ngc.collect()\ngc.disable()\nbegin = threading.Thread._bootstrap_inner\n"
        "def collecting(thread):\n  begin(thread)\n  gc.collect()\n"
        "threading.Thread._bootstrap_inner = collecting\n"
        "first, kept, program = (load(sys.argv[1], threads=2) for _ in range(3))\n"
        "cycle = [kept]\ncycle.append(cycle)\nhelpers = program.main.device.helpers\ndel kept, cycle, first\n"
        "assert len(helpers._code) == 1\ncheck()"
    ),
    "garbage that a helper collects as it begins": (
        "del program\ngc.collect()\ngc.disable()\nrun, dropped = threading.Thread.run, threading.Event()\n"
        "def collecting(thread):\n  dropped.wait()\n  gc.collect()\n  run(thread)\n"
        "threading.Thread.run = collecting\n"
        "cycle = [load(sys.argv[1], threads=2)]\nhelpers = cycle[0].main.device.helpers\n"
        "cycle.append(cycle)\ndel cycle\nprevious = helpers._threads\ndropped.set()\n"
        "while not helpers._gone: pass\nprogram = load(sys.argv[1], threads=2)\n"
        "assert not any(each.is_alive() for each in previous)\n"
        "assert len(helpers._code) == 1 and not helpers._gone\ncheck()"
    ),
    "garbage that is collected while helpers end": (
        "gc.disable()\nfirst = program\nprogram, last = (load(sys.argv[1], threads=2) for _ in range(2))\n"
        "helpers, join = program.main.device.helpers, threading.Thread.join\n"
        "cycle = [first]\ncycle.append(cycle)\ndel first, cycle\n"
        "def collecting(thread):\n  gc.collect()\n  join(thread)\n"
        "threading.Thread.join = collecting\nhelpers.stop()\nthreading.Thread.join = join\n"
        "assert len(helpers._code) == 2 and not helpers._gone\n"
        "assert not any(each.name == 'helper' for each in threading.enumerate())\ncheck()"
    ),
    "a program that goes as the interpreter ends": (
        "import weakref\nkept = load(sys.argv[1], threads=2)\nhelpers = kept.main.device.helpers\n"
        "previous = helpers._threads\n"
        # What Python has at exit before what was there when its first finalizer was made.
        "weakref.finalize._exitfunc()\ndel program\ngc.collect()\n"
        "assert previous and not any(each.is_alive() for each in previous)\nprogram = kept\ncheck()\n"
        "from iree.winograd.loading.helpers import _end_all\n_end_all()\n"
        "program = load(sys.argv[1], threads=2)\ncheck()\n"
        "assert not any(each.name == 'helper' for each in threading.enumerate())"
    ),
    "a fork": (
        "child = os.fork()\ncheck()\nif child:\n  _, status = os.waitpid(child, 0)\n  sys.exit(status != 0)"
    ),
    "a fork while a helper is at work": (
        "other = load(sys.argv[1], threads=2)\nhelpers = program.main.device.helpers\n"
        "assert other.main.device.helpers is helpers\nfields, count = [ACTIVE, SHARED], helpers.count\n"
        "held, forked = threading.Event(), threading.Event()\n"
        "def hold():\n  with helpers._lock:\n    held.set()\n    forked.wait()\n"
        "holding = threading.Thread(target=hold)\nholding.start()\nheld.wait()\n"
        "helpers._mailbox[fields] = 1\nchild = os.fork()\n"
        "if child:\n  helpers._mailbox[fields] = 0\n  forked.set()\n  holding.join()\n"
        "  _, status = os.waitpid(child, 0)\n  sys.exit(status != 0)\n"
        "assert not helpers._mailbox.any()\ncheck()\nother(x)\ndel program\ngc.collect()\n"
        # Those of the parent's don't come back for the program that is left.
        "assert sum(each.name == 'helper' for each in threading.enumerate()) == count\n"
        "program = other\ncheck()"
    ),
    "a fork while another thread calls": (
        "stop = threading.Event()\ndef call():\n  while not stop.is_set():\n    program(x)\n"
        "thread = threading.Thread(target=call)\nthread.start()\nfor _ in range(3):\n"
        "  child = os.fork()\n  if not child:\n    check()\n    os._exit(0)\n"
        "  _, status = os.waitpid(child, 0)\n  assert status == 0\nstop.set()\nthread.join()"
    ),
}


@pytest.fixture(scope="module")
def path(program: bytes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("helpers") / "program.vmfb"
    path.write_bytes(program)
    yield path


@pytest.mark.parametrize("case", sampled(CASES, CASES.keys() - {"an end after a call", "a fork"}))
def test_processes(path: Path, tmp_path: Path, case: str) -> None:
    source = PROCESS.format(shape=(1, SIZE, SIZE, CHANNELS), case=CASES[case])
    # A child that hangs would keep a pipe open.
    with (tmp_path / "errors").open("w+") as errors:
        command = [sys.executable, "-c", source, os.fspath(path)]
        outcome = subprocess.run(command, stderr=errors, timeout=60, check=False)
        errors.seek(0)
        said = errors.read()
    assert outcome.returncode == 0, said
    assert "Traceback" not in said
