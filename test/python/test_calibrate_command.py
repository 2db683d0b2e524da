"""`iree-winograd calibrate`, and what it stores as `iree-compile` takes it."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from iree import winograd
from iree.winograd.calibration import gpu
from iree.winograd.calibration.programs import backend_of
from iree.winograd.cli import main
from iree.winograd.commands.calibrate import describe
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.gpu.backend import GpuBackend
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.machines.model import (
    CpuMachine,
    GpuMachine,
    machine_from_json,
    machine_to_json,
)
from iree.winograd.pipelines.machines.store import machine_path, read_machine
from iree.winograd.pipelines.machines.user_folders import DATA_FOLDER_VARIABLE
from small_programs import CONVOLUTION, compile_convolution

HASWELL = CpuTarget.of("haswell", "+avx2,+fma")
compile_program = partial(
    compile_convolution, "--iree-winograd-remarks", "--compile-to=preprocessing", "-o", "out.mlir"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(DATA_FOLDER_VARIABLE, str(tmp_path / "data"))
    return tmp_path


def matmul_flops() -> float:
    """Operations per second of numpy's matrix product, on as many threads as it takes."""
    matrix = np.ones((512, 512), np.float32)
    seconds = []
    for _ in range(10):
        start = time.perf_counter()
        matrix @ matrix
        seconds.append(time.perf_counter() - start)
    return 2 * 512**3 / min(seconds)


def test_calibrate_stores_a_plausible_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--device=local-task", "--seconds=0.5"]) == 0
    backend = backend_of("cpu")
    assert isinstance(backend, CpuBackend)
    target = backend.target
    machine = read_machine(machine_path(backend.name))
    assert isinstance(machine, CpuMachine)
    assert machine.name == target.cpu
    # Two multiply-adds a cycle at a clock that no processor reaches. Downwards only orders of magnitude are
    # certain: other work on the machine may slow down each measurement, that of a library as well.
    assert 1e8 < machine.clock < 8e9
    assert machine.flops <= 2 * 2 * target.vector_width * 8e9
    assert machine.flops * (os.cpu_count() or 1) >= 0.05 * matmul_flops()
    rates = [*(level.bandwidth for level in machine.caches), machine.memory_bandwidth]
    assert rates == sorted(rates, reverse=True)
    # Two vectors of operands per multiply-add, at most three loads a cycle.
    assert rates[0] <= 3 * 4 * target.vector_width * 8e9
    assert rates[-1] >= 1e7
    assert machine.memory_bandwidth <= machine.shared_memory_bandwidth
    assert machine.dispatch_seconds < 1e-2
    assert 1 <= machine.cores <= (os.cpu_count() or 1)
    output = capsys.readouterr().out
    assert f"stored in {machine_path(target.cpu)}" in output
    assert f"{machine.flops / 1e9:.0f} GFLOP/s" in output


def test_figures_of_a_gpu_are_beside_those_that_it_had_by_default() -> None:
    default = default_gpu_machine("gfx1100")
    text = describe(replace(default, flops=50e12, memory_bandwidth=0.9e12))
    heads, *rows = (re.split(r"  +", line.strip()) for line in text.splitlines()[1:])
    assert text.startswith("gfx1100\n") and heads == ["measured", "by default"]
    figures = {name: values for name, *values in rows}
    assert figures["f32 operations in registers"] == ["50000 GFLOP/s", "61400 GFLOP/s"]
    assert figures["memory"] == ["900.0 GB/s", "960.0 GB/s"]
    assert figures["multiprocessors"] == ["96", "96"]


@pytest.mark.wide
def test_calibrate_writes_the_file_that_is_asked_for() -> None:
    assert main(["calibrate", "--device=local-task", "--seconds=0.01", "--threads=1", "--output=m.json"]) == 0
    machine = machine_from_json(Path("m.json").read_text())
    assert isinstance(machine, CpuMachine) and machine.cores == 1
    assert not Path("data").exists()


@pytest.mark.wide
def test_calibrate_says_when_the_file_can_not_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["calibrate", "--device=local-task", "--seconds=0.01", "--threads=1", "--output=none/m.json"]
    assert main(arguments) == 1
    assert "error: none/m.json: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--device=abacus",), "--device must be one of local-task, cuda, vulkan, hip, not abacus"),
        (("--device=local-task", "--threads=0"), "--threads must be at least 1"),
        (("--device=local-task", "--threads=100000"), "the processors of this machine"),
        (("--device=cuda", "--threads=2"), "is for CPUs only"),
        (("--device=local-task", "--target=cuda:sm_80"), "--target is for GPUs only"),
        (("--device=local-task", "--seconds=0"), "--seconds must be positive"),
    ],
)
def test_impossible_options(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["calibrate", *arguments])
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--device=vulkan", "--target=cpu"), "target 'cpu' is not that of a GPU"),
        (("--device=vulkan", "--target=abacus"), "target 'abacus' is not known"),
        (
            ("--device=vulkan://no-such-device", "--target=vulkan:ampere"),
            "no device 'vulkan://no-such-device'",
        ),
    ],
)
def test_gpus_that_are_not_there(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_remarks_name_the_machine_in_the_option() -> None:
    Path("m.json").write_text(machine_to_json(CpuBackend(HASWELL).default_machine))
    outcome = compile_program("--iree-winograd-machine=m.json")
    assert outcome.returncode == 0
    assert "times are predicted for the machine in m.json" in outcome.stderr


def test_a_stored_machine_is_taken_and_remarked() -> None:
    assert "machine" not in compile_program().stderr
    path = machine_path("haswell")
    path.parent.mkdir(parents=True)
    path.write_text(machine_to_json(CpuBackend(HASWELL).default_machine))
    outcome = compile_program()
    assert outcome.returncode == 0
    assert f"times are predicted for the machine in {path}" in outcome.stderr


def test_a_damaged_stored_machine_is_remarked() -> None:
    path = machine_path("haswell")
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    outcome = compile_program()
    assert outcome.returncode == 0
    assert f"a measured machine is ignored: {path}: the kind of a machine must be" in outcome.stderr
    assert "predicted for" not in outcome.stderr


def test_a_missing_or_damaged_file_of_the_option_is_an_error() -> None:
    outcome = compile_program("--iree-winograd-machine=none.json")
    assert outcome.returncode == 1
    assert "--iree-winograd-machine option: can't read machine 'none.json': No such file" in outcome.stderr
    Path("damaged.json").write_text("[1]")
    outcome = compile_program("--iree-winograd-machine=damaged.json")
    assert outcome.returncode == 1
    assert "damaged.json: not the description of a machine" in outcome.stderr
    assert not Path("out.mlir").exists()


def test_the_machine_as_an_option_in_python() -> None:
    with pytest.raises(winograd.InvalidOptionError, match=r"can't read machine 'none\.json'"):
        winograd.compile(CONVOLUTION, machine="none.json")
    with pytest.raises(winograd.InvalidOptionError, match="machine must be a file"):
        winograd.compile(CONVOLUTION, machine="")


def test_a_machine_of_another_kind_is_said() -> None:
    hopper = GpuTarget(1024, 48 << 10, architecture="sm_90")
    Path("gpu.json").write_text(machine_to_json(GpuBackend(hopper).default_machine))
    outcome = compile_program("--iree-winograd-machine=gpu.json")
    assert "gpu.json: holds a GPU, but the target is a CPU" in outcome.stderr


@pytest.mark.wide
def test_calibrate_measures_what_vulkan_offers(monkeypatch: pytest.MonkeyPatch) -> None:
    # A processor that stands in for a GPU takes long for large arrays.
    monkeypatch.setattr(gpu, "MAX_CALL", 0.002)
    assert main(["calibrate", "--device=vulkan", "--seconds=0.01", "--output=gpu.json"]) == 0
    machine = machine_from_json(Path("gpu.json").read_text())
    backend = backend_of("vulkan")
    assert isinstance(machine, GpuMachine) and isinstance(backend, GpuBackend)
    assert machine.name == backend.name
    assert 1e8 < machine.flops < 1e15
    assert 1e6 < machine.memory_bandwidth <= machine.cache_bandwidth < 1e14
    assert machine.launch_seconds < 0.1
