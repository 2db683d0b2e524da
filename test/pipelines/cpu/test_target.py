"""What kernels take a target to be."""

from __future__ import annotations

import pytest
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.processor.aarch64 import AARCH64
from iree.winograd.pipelines.cpu.processor.instruction_set import InstructionSet
from iree.winograd.pipelines.cpu.processor.instruction_sets import instruction_set_of
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.cpu.processor.x86 import X86_64
from iree.winograd.pipelines.machines.host import WORKER_MEMORY
from iree.winograd.pipelines.problems.executable_target import ExecutableTarget

AVX512 = "+avx2,+fma,+avx512f"


@pytest.mark.parametrize(
    ("name", "features", "processor"),
    [
        ("icelake-server", "", "icelake-server"),
        ("rocketlake", "", "rocketlake"),
        # As virtual machines show the processors that they run on.
        ("rocketlake", "+amx-tile,-prefetchi", "sapphirerapids"),
        ("rocketlake", "+amx-tile,+prefetchi", "graniterapids"),
        ("emeraldrapids", "+amx-tile", "emeraldrapids"),
        ("", "+amx-tile,-amx-tile", ""),
    ],
)
def test_features_tell_more_than_an_older_name(name: str, features: str, processor: str) -> None:
    target = CpuTarget.of(name, f"{AVX512},{features}")
    assert target.cpu == processor
    assert target.l2_bytes == CpuTarget.of(processor, AVX512).l2_bytes


@pytest.mark.parametrize(
    ("triple", "instruction_set"),
    [
        ("x86_64-unknown-unknown-eabi-elf", X86_64),
        ("aarch64-unknown-linux-gnu", AARCH64),
        ("arm64-unknown-unknown-eabi-elf", AARCH64),
        ("aarch64_be-unknown-linux-gnu", None),
        ("riscv64-unknown-linux-gnu", None),
    ],
)
def test_triples_tell_instruction_sets(triple: str, instruction_set: InstructionSet | None) -> None:
    assert instruction_set_of(triple) is instruction_set


def test_neon_has_vectors_of_four_whatever_else_there_is() -> None:
    target = CpuTarget.of("neoverse-v1", "+neon,+bf16,+sve", AARCH64)
    assert (target.vector_width, target.vector_registers, target.rounds_bf16) == (4, 32, True)
    assert not CpuTarget.of("cortex-a76", "+neon,+fullfp16", AARCH64).rounds_bf16
    with pytest.raises(ValueError, match="no code runs on AArch64 and x86-64"):
        CpuTarget.least(target, CpuTarget.of("haswell", "+avx2"))


@pytest.mark.parametrize("cpu", ["apple-m1", "apple-m2", "neoverse-v1"])
def test_workgroups_need_no_more_memory_than_load_gives_them(cpu: str) -> None:
    target = CpuTarget.of(cpu, "", AARCH64)
    assert target.workgroup_bytes < min(target.l2_bytes, WORKER_MEMORY)


def test_only_programs_for_linux_call_it(monkeypatch: pytest.MonkeyPatch) -> None:
    linux, macos = (CpuTarget.of(name, "", AARCH64) for name in ("neoverse-v1", "apple-m1"))
    monkeypatch.setattr("sys.platform", "linux")
    assert linux.runs_linux and not macos.runs_linux
    monkeypatch.setattr("sys.platform", "darwin")
    assert not linux.runs_linux


@pytest.mark.parametrize("name", ["cortex-a76", "neoverse-v1", "neoverse-v2", "apple-m1", "apple-m4"])
def test_caches_of_published_machines_grow(name: str) -> None:
    machine = CpuBackend(CpuTarget.of(name, "", AARCH64)).default_machine
    assert machine.name == name
    assert [cache.size for cache in machine.caches] == sorted(cache.size for cache in machine.caches)


def test_no_code_is_for_two_instruction_sets() -> None:
    names = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
    x86, arm = (ExecutableTarget("llvm-cpu", "elf", f'{{target_triple = "{name}"}}') for name in names)
    assert CpuBackend.conflict([x86, x86]) is None
    reason = f'on x86-64 ("{names[0]}") and AArch64 ("{names[1]}") alike'
    assert CpuBackend.conflict([x86, arm]) == reason
