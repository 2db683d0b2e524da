"""Machines: their figures, their files, the one that is taken for a target, and that it matters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from iree.winograd.passes.infrastructure.algorithm import Algorithm
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.backends.backend import Backend
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.gpu.backend import GpuBackend
from iree.winograd.pipelines.gpu.device.target import GpuTarget
from iree.winograd.pipelines.machines.amd import AMD_CHIPS, AmdFamily, amd_family
from iree.winograd.pipelines.machines.defaults import default_gpu_machine
from iree.winograd.pipelines.machines.model import (
    CacheLevel,
    CpuMachine,
    GpuMachine,
    Machine,
    machine_from_json,
    machine_to_json,
)
from iree.winograd.pipelines.machines.store import (
    machine_path,
    read_machine,
    stored_machine,
)
from iree.winograd.pipelines.machines.user_folders import DATA_FOLDER_VARIABLE
from iree.winograd.pipelines.selection.prediction import predict

ZEN5 = CpuBackend(CpuTarget.of("znver5", "+avx512f,+fma"))
HOPPER = GpuBackend(GpuTarget(1024, 48 << 10, architecture="sm_90"))
PROCESSORS = (
    "haswell",
    "skylake-avx512",
    "icelake-server",
    "sapphirerapids",
    "alderlake",
    "znver3",
    "znver4",
)
GPUS = ("sm_80", "sm_86", "sm_89", "sm_90", "rdna3", "rdna4", *AMD_CHIPS)
BACKENDS: tuple[Backend, ...] = (
    ZEN5,
    CpuBackend(CpuTarget.of("", "")),
    *(CpuBackend(CpuTarget.of(name, "+avx2,+fma")) for name in PROCESSORS),
    *(GpuBackend(GpuTarget(1024, 48 << 10, architecture=name)) for name in (*GPUS, "")),
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


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_default_machines_are_plausible_and_survive_json(backend: Backend) -> None:
    machine = backend.default_machine
    assert machine_from_json(machine_to_json(machine)) == machine
    if isinstance(machine, CpuMachine):
        assert isinstance(backend, CpuBackend)
        target = backend.target
        assert machine.name == backend.name == target.cpu
        assert machine.flops <= 4 * target.vector_width * 8e9
        rates = [*(level.bandwidth for level in machine.caches), machine.memory_bandwidth]
        assert rates == sorted(rates, reverse=True)
        assert machine.caches[1].size == target.l2_bytes
        assert machine.memory_bandwidth <= machine.shared_memory_bandwidth
    else:
        assert machine.memory_bandwidth < machine.cache_bandwidth < machine.flops


@pytest.mark.parametrize(
    ("architecture", "family", "known"),
    [
        ("gfx906", AmdFamily.CDNA1, "gfx908"),
        ("gfx90c", AmdFamily.CDNA1, "gfx908"),
        ("gfx90a", AmdFamily.CDNA2, "gfx90a"),
        ("gfx941", AmdFamily.CDNA3, "gfx942"),
        ("cdna3", AmdFamily.CDNA3, "gfx942"),
        ("gfx1036", AmdFamily.RDNA2, "gfx1030"),
        ("rdna1", AmdFamily.RDNA2, "gfx1030"),
        ("gfx1152", AmdFamily.RDNA3, "gfx1100"),
        ("rdna4", AmdFamily.RDNA4, "gfx1201"),
        ("gfx1250", AmdFamily.RDNA4, "gfx1201"),
    ],
)
def test_amds_chips_have_machines_of_their_family(architecture: str, family: AmdFamily, known: str) -> None:
    assert amd_family(architecture) is family
    assert default_gpu_machine(architecture) == replace(default_gpu_machine(known), name=architecture)


@pytest.mark.parametrize("architecture", ["", "sm_90", "sm_100", "valhall", "adreno"])
def test_other_gpus_are_none_of_amds(architecture: str) -> None:
    assert amd_family(architecture) is None
    assert default_gpu_machine(architecture).flops == default_gpu_machine("sm_90").flops


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
    machine = HOPPER.default_machine
    text = machine_to_json(machine).replace(f'"flops": {machine.flops}', f'"flops": {value}')
    with pytest.raises(ValueError, match="flops must be positive"):
        machine_from_json(text)


@pytest.mark.parametrize(
    ("processor", "features", "operations"),
    [
        ("znver1", "+avx2,+fma", 16),
        ("znver3", "+avx2,+fma", 32),
        ("znver4", "+avx2,+fma", 32),
        ("znver4", "+avx2,+fma,+avx512f", 32),
        ("znver5", "+avx2,+fma", 32),
        ("znver5", "+avx2,+fma,+avx512f", 64),
    ],
)
def test_wide_vectors_take_several_units(processor: str, features: str, operations: int) -> None:
    """As of AMD's Software Optimization Guides. Virtual machines may hide the widest vectors."""
    machine = CpuBackend(CpuTarget.of(processor, features)).default_machine
    assert machine.flops == operations * machine.clock


def test_caches_grow_outwards() -> None:
    machine = ZEN5.default_machine
    assert isinstance(machine, CpuMachine)
    with pytest.raises(ValueError, match="from the innermost, smallest one on"):
        replace(machine, caches=machine.caches[::-1])
    with pytest.raises(ValueError, match="positive size"):
        CacheLevel(0, 1.0)


def stored(backend: Backend) -> tuple[Path | None, list[str]]:
    messages: list[str] = []
    return stored_machine(backend.name, backend.default_machine.kind, messages.append), messages


def test_a_machine_that_was_measured_is_found_by_the_name_of_its_target(data_folder: Path) -> None:
    assert stored(ZEN5) == (None, [])
    measured = replace(ZEN5.default_machine, flops=1e11)
    path = store(measured, "znver5")
    assert path.is_relative_to(data_folder)
    assert stored(ZEN5) == (path, [])
    assert stored(HOPPER) == (None, [])
    assert read_machine(path, "cpu") == measured


def test_code_for_no_particular_processor_has_no_stored_machine(data_folder: Path) -> None:
    store(ZEN5.default_machine, "")
    assert stored(CpuBackend(CpuTarget.of("", "+avx512f"))) == (None, [])


@pytest.mark.parametrize("text", ["", "{", machine_to_json(HOPPER.default_machine)])
def test_a_damaged_stored_machine_is_reported_and_ignored(data_folder: Path, text: str) -> None:
    path = store(text, "znver5")
    found, messages = stored(ZEN5)
    assert found is None
    assert len(messages) == 1 and str(path) in messages[0]


def test_a_stored_machine_that_cannot_be_read_is_reported_and_ignored(data_folder: Path) -> None:
    machine_path("znver5").mkdir(parents=True)
    found, messages = stored(ZEN5)
    assert found is None
    assert len(messages) == 1 and "Is a directory" in messages[0]


def test_a_given_machine_must_be_there_and_of_the_kind(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_machine(tmp_path / "none.json", "cpu")
    gpu = tmp_path / "gpu.json"
    gpu.write_text(machine_to_json(HOPPER.default_machine))
    assert read_machine(gpu, "gpu") == HOPPER.default_machine
    with pytest.raises(ValueError, match="holds a GPU, but the target is a CPU"):
        read_machine(gpu, "cpu")


def fastest(problem: ConvolutionProblem, backend: Backend, machine: Machine) -> Algorithm:
    candidates = predict(problem, backend.search_space(machine))
    return min(candidates, key=lambda each: each.predicted_seconds).implementation.algorithm


def transform_size(algorithm: Algorithm) -> int:
    return max(m + p - 1 for m, p in zip(algorithm.output_tile, algorithm.part_size, strict=True))


def test_slow_memory_makes_smaller_tiles_win() -> None:
    """Large tiles have more transformed filters: where memory is slow, reading them takes all the time."""
    problem = ConvolutionProblem.parse(
        "1x14x14x256->256 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32"
    )
    machine = ZEN5.default_machine
    assert isinstance(machine, CpuMachine)
    slow = replace(machine, memory_bandwidth=machine.memory_bandwidth / 50)
    assert transform_size(fastest(problem, ZEN5, slow)) < transform_size(fastest(problem, ZEN5, machine))


def test_slow_arithmetic_makes_larger_tiles_win_on_a_gpu() -> None:
    problem = ConvolutionProblem.parse(
        "32x56x56x64->64 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32"
    )
    machine = HOPPER.default_machine
    assert isinstance(machine, GpuMachine)
    slow_memory = replace(
        machine,
        memory_bandwidth=machine.memory_bandwidth / 50,
        cache_bandwidth=machine.cache_bandwidth / 50,
    )
    slow_arithmetic = replace(machine, flops=machine.flops / 50)
    large, small = (fastest(problem, HOPPER, each).output_tile for each in (slow_arithmetic, slow_memory))
    assert large > (2, 2) >= small
