"""Programs from files and bytes, on devices, and their functions."""

import copy
import pickle
import platform
import subprocess
import sys
from pathlib import Path

import iree.compiler
import iree.runtime
import iree.winograd
import numpy as np
import pytest
from iree.winograd.errors import CallError, LoadError
from iree.winograd.loading import processor_features, vulkan_features
from iree.winograd.loading.device import close_gpus
from iree.winograd.loading.program_targets import program_targets
from iree.winograd.loading.runtime import LoadedProgram, load
from loaded_programs import PROGRAM, compile_program, random_array
from own_threads import own_threads
from wide import wide_combinations


def test_a_file_is_loaded(vmfb: bytes, tmp_path: Path) -> None:
    path = tmp_path / "program.vmfb"
    path.write_bytes(vmfb)
    x = random_array(4, 64)
    np.testing.assert_array_equal(load(path, "local-sync")(x), 2 * x)
    np.testing.assert_array_equal(load(str(path), "local-sync")(x), 2 * x)


@pytest.mark.parametrize("program", ["path", "path.read_bytes()"], ids=["a file", "bytes"])
def test_an_exception_may_release_a_program(vmfb: bytes, tmp_path: Path, program: str) -> None:
    """Of modules that IREE maps it is lost, and ends a process of Python 3.12."""
    path = tmp_path / "program.vmfb"
    path.write_bytes(vmfb)
    script = (
        "from pathlib import Path\n"
        "from iree.winograd.loading.runtime import load\n"
        f"path = Path({str(path)!r})\n"
        "try:\n"
        f"    load({program}, 'local-sync'), [][0]\n"
        "except IndexError:\n"
        "    print('caught')\n"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (process.returncode, process.stdout, process.stderr) == (0, "caught\n", "")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"can't read '.*missing\.vmfb': No such file"):
        load(tmp_path / "missing.vmfb", "local-sync")
    with pytest.raises(LoadError, match="Is a directory"):
        load(tmp_path, "local-sync")


def test_a_gpu_without_cooperative_matrices_is_refused(
    vmfb: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver of the tests has none."""
    using = vmfb + (2 << 16 | 17).to_bytes(4, "little") + (6022).to_bytes(4, "little")
    path = tmp_path / "program.vmfb"
    path.write_bytes(using)
    for program in (using, path):
        assert vulkan_features.missing_features(program, "vulkan") == ["cooperative matrices"]
        assert vulkan_features.missing_features(program, "vulkan://0") == ["cooperative matrices"]
        assert vulkan_features.missing_features(program, "local-sync") == []
        assert vulkan_features.missing_features(program, "vulkan://elsewhere") == []
    assert vulkan_features.missing_features(vmfb, "vulkan") == []
    monkeypatch.setattr(vulkan_features, "missing_features", lambda *_: ["cooperative matrices"])
    with pytest.raises(LoadError, match="uses cooperative matrices, which 'local-sync' lacks"):
        load(vmfb, "local-sync")


@pytest.mark.parametrize("content", [b"", b"neither this nor that" * 10])
def test_not_a_program(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "text.vmfb"
    path.write_bytes(content)
    with pytest.raises(LoadError, match=r"text\.vmfb' is not a program"):
        load(path, "local-sync")
    with pytest.raises(LoadError, match="is not a program"):
        load(content, "local-sync")


def test_no_damaged_program_is_loaded(vmfb: bytes, tmp_path: Path) -> None:
    path = tmp_path / "damaged.vmfb"
    generator = np.random.default_rng(0)
    x = random_array(4, 64)
    for place in generator.integers(0, len(vmfb), 200):
        damaged = bytearray(vmfb)
        damaged[place] ^= 1 << generator.integers(8)
        # Names and times in the list of parts are no part of the program.
        try:
            program = load(bytes(damaged), "local-sync")
        except LoadError:
            continue
        np.testing.assert_array_equal(program.main(x), 2 * x)
    code = vmfb.index(b"\x7fELF", len(vmfb) // 2) + 1000
    path.write_bytes(vmfb[:code] + bytes(200) + vmfb[code + 200 :])
    with pytest.raises(LoadError, match=r"damaged.vmfb' is damaged: .*\.so isn't what was written; compile"):
        load(path, "local-sync")
    for length in (100, len(vmfb) // 2, len(vmfb) - 1):
        with pytest.raises(LoadError):
            load(vmfb[:length], "local-sync")


def test_a_program_for_a_better_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """func.func @main(%x: tensor<1x14x14x8xf32>, %w: tensor<3x3x8x16xf32>, %y: tensor<1x12x12x16xf32>)
    -> tensor<1x12x12x16xf32> {
  %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x14x14x8xf32>, tensor<3x3x8x16xf32>)
    outs(%y : tensor<1x12x12x16xf32>) -> tensor<1x12x12x16xf32>
  return %r : tensor<1x12x12x16xf32>
}
"""
    vmfb = iree.winograd.compile(text, target="cpu:x86-64-v4", threads=1)
    names = "pni,ssse3,sse4_1,sse4_2,popcnt,abm,bmi1,bmi2,movbe,f16c,fma,avx,avx2"
    flags = frozenset(names.split(","))
    monkeypatch.setattr(processor_features, "_flags", lambda: flags)
    message = (
        r'for a processor with avx512\w*, .*, which this one lacks: compile it here, or .*target="cpu:x86-'
    )
    with pytest.raises(LoadError, match=message):
        load(vmfb, "local-sync")
    load(iree.winograd.compile(text, target="cpu:x86-64-v3", threads=1), "local-sync")
    # Programs that IREE compiled without us say it in their description of the target.
    stock = iree.winograd.compile(PROGRAM, target="cpu:x86-64-v4", enable_winograd=False)
    with pytest.raises(LoadError, match=message):
        load(stock, "local-sync")
    monkeypatch.setattr(processor_features, "_flags", frozenset)
    load(vmfb, "local-sync")


def test_features_that_the_host_lacks_of_its_model() -> None:
    """A virtual machine's processor may have less than others of its name: IREE describes it by both."""
    features = b'cpu = "emeraldrapids", cpu_features = "+avx2,+avx512fp16,+avx2,-avx512fp16"'
    (target,) = program_targets(
        b'#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {' + features + b"}>"
    )
    assert target.features == ("avx2",)


def test_an_unknown_device(vmfb: bytes) -> None:
    with pytest.raises(LoadError, match=r"no device 'abacus' \(drivers: .*local-task.*\)"):
        load(vmfb, "abacus")


def test_a_program_for_a_better_aarch64_processor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As Linux describes that of a Raspberry Pi 4."""
    information = tmp_path / "cpuinfo"
    information.write_text("processor\t: 0\nFeatures\t: fp asimd evtstrm crc32 cpuid\n\nprocessor\t: 1\n")
    monkeypatch.setattr(processor_features, "_CPU_INFORMATION", information)
    monkeypatch.setattr(processor_features, "_flags", processor_features._flags.__wrapped__)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(sys, "platform", "linux")
    features = ["reserve-x18", "fp-armv8", "neon", "crc", "dotprod", "bf16", "sve"]
    assert processor_features.missing_features(features) == ["dotprod", "bf16", "sve"]


AARCH64 = (
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-triple=aarch64-linux-gnu",
)


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (["--iree-hal-target-device=local", *AARCH64], "aarch64 processors, and this one is x86_64"),
        (["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"], "cuda sm_80"),
        *wide_combinations([(["--iree-hal-target-device=vulkan"], r"vulkan-spirv \w+")]),
    ],
    ids=["another architecture", "a GPU of an architecture", "a GPU"],
)
def test_a_program_for_another_target(
    flags: list[str], name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "program.vmfb"
    path.write_bytes(iree.compiler.compile_str(PROGRAM, extra_args=flags))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    for program in (path, path.read_bytes()):
        with pytest.raises(LoadError, match=f"can't run on 'local-sync', as it is compiled for {name}: "):
            load(program, "local-sync")


def test_functions_are_attributes(program: LoadedProgram) -> None:
    assert program.functions == ("main", "swap", "twice")
    assert str(program.main.signature.inputs[0]) == "tensor<4x64xf32>"
    x, y = random_array(5, 2), np.arange(21).reshape(7, 3)
    first, second = program.swap(x, y)
    np.testing.assert_array_equal(first, y)
    np.testing.assert_array_equal(second, x)
    with pytest.raises(AttributeError, match=r"'other'.*'main', 'swap', 'twice'"):
        _ = program.other


def identity(name: str, type_: str) -> str:
    return f"func.func @{name}(%x: {type_}) -> {type_} {{\n  return %x : {type_}\n}}\n"


def test_functions_on_what_no_array_holds_say_so() -> None:
    refused = {
        "on_index": ("tensor<4xindex>", "argument 0 is tensor<4xindex>, and no array has .* of type index"),
        "on_i4": ("tensor<4xi4>", "argument 0 is tensor<4xi4>, and no array has elements of type i4"),
        "on_halves": ("tensor<4xcomplex<f16>>", "no array has elements of type complex<f16>"),
        "on_a_number": ("i32", "argument 0 is i32, no tensor"),
    }
    text = "".join(identity(name, type_) for name, (type_, _) in refused.items())
    program = load(compile_program(PROGRAM + text), "local-sync")
    assert program.functions == ("main", "swap", "twice")
    x = random_array(4, 64)
    np.testing.assert_array_equal(program(x), 2 * x)
    assert program.refused.keys() == refused.keys()
    for name, (_, reason) in refused.items():
        with pytest.raises(AttributeError, match=f"{name} can't be called on arrays: .*{reason}"):
            getattr(program, name)


def test_a_program_of_nothing_that_can_be_called_is_an_error() -> None:
    message = "the program has no function that can be called on arrays: main: argument 0 is tensor<4xf8E3M4>"
    with pytest.raises(LoadError, match=message):
        load(compile_program(identity("main", "tensor<4xf8E3M4>")), "local-sync")


def test_no_other_function_is_called_in_place_of_main() -> None:
    program = load(
        compile_program(identity("main", "i64") + identity("other", "tensor<2xf32>")), "local-sync"
    )
    assert program.functions == ("other",)
    with pytest.raises(CallError, match="main can't be called on arrays: argument 0 is i64, no tensor"):
        program(np.zeros(2, np.float32))


def test_several_functions_without_main_are_called_by_name() -> None:
    text = PROGRAM.replace("@main", "@double")
    program = load(compile_program(text), "local-sync")
    x = random_array(4, 64)
    np.testing.assert_array_equal(program.double(x), 2 * x)
    with pytest.raises(CallError, match=r"no function 'main': call one of \('double', 'swap', 'twice'\)"):
        program(x)


def test_programs_can_be_copied(program: LoadedProgram) -> None:
    x = random_array(4, 64)
    for copied in (copy.copy(program), copy.deepcopy(program), copy.deepcopy(program.main)):
        np.testing.assert_array_equal(copied(x), 2 * x)
    for each in (program, program.main):
        with pytest.raises(TypeError, match="pickle the compiled one"):
            pickle.dumps(each)


def test_a_gpu_is_closed_with_the_last_program_on_it() -> None:
    """So that its threads end: while a device is open, they wait for it."""
    vmfb = iree.compiler.compile_str(PROGRAM, extra_args=["--iree-hal-target-device=vulkan"])
    before = own_threads().keys()
    program = load(vmfb, "vulkan")
    opened = own_threads().keys() - before
    close_gpus()
    assert opened and opened <= own_threads().keys()
    del program
    assert not opened & own_threads().keys()
