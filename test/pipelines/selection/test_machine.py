"""Machines: their figures, their files, the one that is taken for a target, and that it matters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from iree.winograd.passes.algorithm import Algorithm
from iree.winograd.passes.problem import ConvolutionProblem
from iree.winograd.pipelines.cpu.target import CpuTarget
from iree.winograd.pipelines.gpu.target import GpuTarget
from iree.winograd.pipelines.kernel_target import KernelTarget
from iree.winograd.pipelines.selection.default_machines import default_machine
from iree.winograd.pipelines.selection.machine import (
    CacheLevel,
    CpuMachine,
    GpuMachine,
    Machine,
    machine_from_json,
    machine_to_json,
)
from iree.winograd.pipelines.selection.machine_store import (
    DATA_FOLDER_VARIABLE,
    machine_model,
    machine_path,
    stored_machine,
)
from iree.winograd.pipelines.selection.prediction import predict
from iree.winograd.pipelines.selection.search_space import search_space

ZEN5 = CpuTarget.of("znver5", "+avx512f,+fma")
HOPPER = GpuTarget(1024, 48 << 10, architecture="sm_90")
PROCESSORS = (
    "haswell",
    "skylake-avx512",
    "icelake-server",
    "sapphirerapids",
    "alderlake",
    "znver3",
    "znver4",
)
GPUS = ("sm_80", "sm_86", "sm_89", "sm_90", "gfx90a", "gfx942", "gfx1030", "gfx1100")
TARGETS: tuple[KernelTarget, ...] = (
    ZEN5,
    CpuTarget.of("", ""),
    *(CpuTarget.of(name, "+avx2,+fma") for name in PROCESSORS),
    *(GpuTarget(1024, 48 << 10, architecture=name) for name in (*GPUS, "")),
)


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(DATA_FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


def store(machine: Machine | str, name: str) -> Path:
    path = machine_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(machine if isinstance(machine, str) else machine_to_json(machine))
    return path


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_default_machines_are_plausible_and_survive_json(target: KernelTarget) -> None:
    machine = default_machine(target)
    assert machine_from_json(machine_to_json(machine)) == machine
    if isinstance(machine, CpuMachine):
        assert isinstance(target, CpuTarget)
        assert machine.name == target.cpu
        assert machine.flops <= 4 * target.vector_width * 8e9
        rates = [*(level.bandwidth for level in machine.caches), machine.memory_bandwidth]
        assert rates == sorted(rates, reverse=True)
        assert machine.caches[1].size == target.l2_bytes
        assert machine.memory_bandwidth <= machine.shared_memory_bandwidth
    else:
        assert machine.memory_bandwidth < machine.cache_bandwidth < machine.flops


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not the description of a machine"),
        ("[]", "not the description of a machine"),
        ('{"kind": "abacus"}', "must be 'cpu' or 'gpu', not 'abacus'"),
        ('{"kind": "gpu", "name": "x"}', "not the description of a machine: .*flops"),
        ('{"kind": "cpu", "name": "x"}', "not the description of a machine: .*caches"),
    ],
)
def test_other_texts_are_no_machines(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        machine_from_json(text)


@pytest.mark.parametrize("value", ["0", "-1.0"])
def test_a_machine_of_no_speed_is_rejected(value: str) -> None:
    machine = default_machine(HOPPER)
    text = machine_to_json(machine).replace(f'"flops": {machine.flops}', f'"flops": {value}')
    with pytest.raises(ValueError, match="flops must be positive"):
        machine_from_json(text)


def test_caches_grow_outwards() -> None:
    machine = default_machine(ZEN5)
    assert isinstance(machine, CpuMachine)
    with pytest.raises(ValueError, match="from the innermost, smallest one on"):
        replace(machine, caches=machine.caches[::-1])
    with pytest.raises(ValueError, match="positive size"):
        CacheLevel(0, 1.0)


def reported(target: KernelTarget, path: str | None = None) -> tuple[Machine, Path | None, list[str]]:
    messages: list[str] = []
    model = machine_model(target, path, messages.append)
    return model.machine, model.path, messages


def test_a_machine_comes_from_the_option_or_the_store_or_the_defaults(data_folder: Path) -> None:
    default = default_machine(ZEN5)
    assert reported(ZEN5) == (default, None, [])
    measured = replace(default, flops=1e11)
    path = store(measured, "znver5")
    assert path.is_relative_to(data_folder)
    assert reported(ZEN5) == (measured, path, [])
    assert stored_machine(ZEN5) == measured
    given = data_folder / "given.json"
    given.write_text(machine_to_json(replace(default, flops=2e11)))
    assert reported(ZEN5, str(given)) == (replace(default, flops=2e11), given, [])


def test_code_for_no_particular_processor_has_no_stored_machine(data_folder: Path) -> None:
    store(default_machine(ZEN5), "")
    assert stored_machine(CpuTarget.of("", "+avx512f")) is None


@pytest.mark.parametrize("text", ["", "{", machine_to_json(default_machine(HOPPER))])
def test_a_damaged_stored_machine_is_reported_and_ignored(data_folder: Path, text: str) -> None:
    path = store(text, "znver5")
    machine, origin, messages = reported(ZEN5)
    assert (machine, origin) == (default_machine(ZEN5), None)
    assert len(messages) == 1 and str(path) in messages[0]


def test_a_given_machine_must_be_there_and_of_the_kind(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        reported(ZEN5, str(tmp_path / "none.json"))
    gpu = tmp_path / "gpu.json"
    gpu.write_text(machine_to_json(default_machine(HOPPER)))
    with pytest.raises(ValueError, match="holds a GPU, but the target is a CPU"):
        reported(ZEN5, str(gpu))


def fastest(problem: ConvolutionProblem, target: KernelTarget, machine: Machine) -> Algorithm:
    candidates = predict(problem, search_space(target, machine))
    return min(candidates, key=lambda each: each.predicted_seconds).implementation.algorithm


def transform_size(algorithm: Algorithm) -> int:
    return max(m + p - 1 for m, p in zip(algorithm.output_tile, algorithm.part_size, strict=True))


def test_slow_memory_makes_smaller_tiles_win() -> None:
    """Large tiles have more transformed filters: where memory is slow, reading them takes all the time."""
    problem = ConvolutionProblem.parse(
        "1x14x14x256->256 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32"
    )
    machine = default_machine(ZEN5)
    assert isinstance(machine, CpuMachine)
    slow = replace(machine, memory_bandwidth=machine.memory_bandwidth / 50)
    assert transform_size(fastest(problem, ZEN5, slow)) < transform_size(fastest(problem, ZEN5, machine))


def test_slow_arithmetic_makes_larger_tiles_win_on_a_gpu() -> None:
    problem = ConvolutionProblem.parse(
        "32x56x56x64->64 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32"
    )
    machine = default_machine(HOPPER)
    assert isinstance(machine, GpuMachine)
    slow_memory = replace(
        machine,
        memory_bandwidth=machine.memory_bandwidth / 50,
        cache_bandwidth=machine.cache_bandwidth / 50,
    )
    slow_arithmetic = replace(machine, flops=machine.flops / 50)
    assert fastest(problem, HOPPER, slow_arithmetic).output_tile > (2, 2)
    assert fastest(problem, HOPPER, slow_memory).is_direct
