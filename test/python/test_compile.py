"""`iree.winograd.compile`: forms of programs, targets, options, and what happens when something fails."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import iree.winograd as winograd
import numpy as np
import numpy.typing as npt
import onnx
import pytest
from agreement import expect_within
from iree import runtime
from iree.winograd.compiling import compilation, embedding
from iree.winograd.compiling.input_type import input_type_flags
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes.infrastructure import registry
from iree.winograd.passes.infrastructure.registry import Pass, PassError
from iree.winograd.passes.match.navigation import walk
from iree.winograd.pipelines import compile_pipeline
from onnx_models import convolution_model
from small_programs import ADD, CONVOLUTION

MATMUL = """\
func.func @matmul(
    %lhs: tensor<64x64xf32>, %rhs: tensor<64x64xf32>, %out: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %result = linalg.matmul ins(%lhs, %rhs : tensor<64x64xf32>, tensor<64x64xf32>)
    outs(%out : tensor<64x64xf32>) -> tensor<64x64xf32>
  return %result : tensor<64x64xf32>
}
"""
WIDE_MATMUL = MATMUL.replace("f32", "f128")
"""In numbers for which processors have no instructions, and IREE no functions."""
TYPE_ERROR = ADD.replace("arith.addf", "arith.addi")


def convolution(filters: npt.NDArray[np.float32]) -> str:
    """A convolution by constant filters, 3x3x16x16."""
    return CONVOLUTION.replace("dense<0.5>", f'dense<"0x{filters.tobytes().hex()}">')


def run_add(vmfb: bytes) -> None:
    config = runtime.Config("local-sync")
    module = runtime.load_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, vmfb), config)
    lhs, rhs = np.arange(8, dtype=np.float32), np.full(8, 0.5, np.float32)
    np.testing.assert_array_equal(module.add(lhs, rhs).to_host(), lhs + rhs)


DEPTHWISE = """\
func.func @depthwise(%image: tensor<1x10x10x16xf32>) -> tensor<1x8x8x16xf32> {
  %filter = arith.constant dense<0.5> : tensor<3x3x16xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x8x8x16xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x8x8x16xf32>) -> tensor<1x8x8x16xf32>
  %result = linalg.depthwise_conv_2d_nhwc_hwc
    {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
    ins(%image, %filter : tensor<1x10x10x16xf32>, tensor<3x3x16xf32>)
    outs(%init : tensor<1x8x8x16xf32>) -> tensor<1x8x8x16xf32>
  return %result : tensor<1x8x8x16xf32>
}
"""


def test_a_program_is_freed_without_a_search_for_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search looks at all objects of the process, which takes as long as a small program's passes."""
    searches: list[None] = []
    monkeypatch.setattr(embedding.gc, "collect", lambda: searches.append(None))
    monkeypatch.setattr(embedding.gc, "isenabled", lambda: True)
    # Python's own searches come at random.
    gc.disable()
    try:
        winograd.compile(CONVOLUTION + DEPTHWISE, target="cpu:haswell", strict=True)
    finally:
        gc.enable()
    assert not searches


def test_every_form_of_a_program(tmp_path: Path) -> None:
    path = tmp_path / "add.mlir"
    path.write_text(ADD)
    context = ir.Context()
    bytecode = tmp_path / "add.mlirbc"
    with bytecode.open("wb") as file:
        ir.Module.parse(ADD, context).operation.write_bytecode(file)
    module = ir.Module.parse(ADD, context)
    # As iree-turbine's exporter returns them.
    exported = SimpleNamespace(mlir_module=module.operation)
    forms = (path, str(path), ADD, ADD.encode(), bytecode.read_bytes(), bytecode)
    for source in (*forms, module, module.operation, exported):
        run_add(winograd.compile(source))


def test_programs_of_torch() -> None:
    torch = pytest.importorskip("torch")
    fx = pytest.importorskip("torch_mlir.fx")
    layer, values = torch.nn.Threshold(0.25, 1.0), torch.linspace(-1, 1, 8)
    exported = torch.export.export(layer, (values,))
    of_torch_mlir = [
        fx.export_and_import(layer, values, output_type=kind) for kind in ("raw", "linalg-on-tensors")
    ]
    for source in (exported, *of_torch_mlir):
        program = winograd.load(winograd.compile(source), "local-sync")
        np.testing.assert_array_equal(program(values), layer(values))
    with pytest.raises(TypeError, match=r"compile import_torch\(model"):
        winograd.compile(layer)
    with pytest.raises(TypeError, match="can't compile a int"):
        winograd.compile(3)  # type: ignore[arg-type]


def test_output_file(tmp_path: Path) -> None:
    output = tmp_path / "add.vmfb"
    assert winograd.compile(ADD, output=output) is None  # type: ignore[func-returns-value]
    run_add(output.read_bytes())


@pytest.mark.parametrize(
    ("target", "magic"), [("cpu", b"ELF"), ("cpu:x86-64-v3", b"ELF"), ("vulkan:rdna3", b"\x03\x02\x23\x07")]
)
def test_targets(target: str, magic: bytes) -> None:
    assert magic in winograd.compile(ADD, target=target)


def test_flags_take_precedence_over_the_target() -> None:
    flags = ["--iree-hal-local-target-device-backends=vmvx"]
    assert b"vmvx" in winograd.compile(ADD, flags=flags)


def test_a_program_that_is_wrong() -> None:
    with pytest.raises(winograd.CompilationError, match="must be signless") as raised:
        winograd.compile(TYPE_ERROR)
    (diagnostic,) = (found for found in raised.value.diagnostics if found.severity == "error")
    assert diagnostic.position is not None
    assert diagnostic.position.line == 2
    assert str(raised.value) == diagnostic.format()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"source": "no-such-file.mlir"}, winograd.CompilationError, "No such file or directory"),
        ({"source": "."}, winograd.CompilationError, "Is a directory"),
        ({"source": ADD, "output": "."}, winograd.CompilationError, "Is a directory"),
        (
            {"source": ADD, "output": "no/such/out.vmfb"},
            winograd.CompilationError,
            "no/such/out.vmfb': No such",
        ),
        (
            {"source": ADD, "target": "abacus"},
            winograd.InvalidOptionError,
            "known are cpu, vulkan, cuda, hip",
        ),
        ({"source": ADD, "flags": "--quiet"}, winograd.InvalidOptionError, "flags must be a list of them"),
        ({"source": ADD, "flags": [3]}, winograd.InvalidOptionError, "flags must be texts, got 3"),
        ({"source": ADD, "flags": ["--no-such"]}, winograd.InvalidOptionError, "option not found: no-such"),
        (
            {"source": ADD, "output_tile": 9},
            winograd.InvalidOptionError,
            "output_tile must be None or 1 to 8",
        ),
        ({"source": ADD, "tile": 4}, winograd.InvalidOptionError, "option 'tile' is not known"),
    ],
)
def test_bad_input(arguments: dict[str, object], error: type[winograd.WinogradError], message: str) -> None:
    with pytest.raises(error, match=message):
        winograd.compile(**arguments)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("cpu:no-such", "'no-such' is not a recognized processor"),
        ("vulkan:no-such", r"Unknown .* target 'no-such'"),
        ("cuda:no-such", r"Unknown .* target 'no-such'"),
        ("cuda:sm_9", "Unknown CUDA target 'sm_9'"),
        ("cpu:pentium", "--iree-llvmcpu-target-cpu=pentium: 64-bit code requested"),
        (80, "target 80 is not known; known are cpu, vulkan, cuda, hip"),
        ("hip:gfx1102", r"Unknown ROCM target 'gfx1102': compile for Vulkan, vulkan:rdna3, and run"),
        ("hip:gfx1030", "vulkan:rdna2"),
        ("hip:gfx1010", "vulkan:rdna1"),
        ("hip:gfx906", r"Unknown ROCM target 'gfx906'$"),
        ("hip:abacus", r"Unknown ROCM target 'abacus'$"),
    ],
)
def test_targets_that_iree_does_not_know(target: Any, message: str) -> None:
    with pytest.raises(winograd.InvalidOptionError, match=message):
        winograd.compile(ADD, target=target)


FORKING = """
import os, sys
import iree.winograd as winograd

compiled = winograd.compile(sys.argv[1])
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
winograd.import_onnx(sys.argv[2]).save(sys.argv[3])
os._exit(int(bytes(winograd.compile(sys.argv[1])) != bytes(compiled)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_fork_of_a_process_that_has_compiled_imports_and_compiles_the_same(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    onnx.save(convolution_model(), model)
    paths = [model, tmp_path / "model.mlirbc"]
    subprocess.run([sys.executable, "-c", FORKING, CONVOLUTION, *paths], timeout=120, check=True)


def test_a_program_without_functions(tmp_path: Path) -> None:
    output = tmp_path / "program.vmfb"
    with pytest.raises(
        winograd.CompilationError, match="nothing can be written: failed to generate"
    ) as error:
        winograd.compile(b"module {}\n", output=output)
    assert "does not contain a vm.module" in error.value.diagnostics[0].message
    assert not output.exists()


@pytest.mark.parametrize("variable", ["TMPDIR", "TEMP"])
def test_a_folder_of_temporary_files_that_is_not_there(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM would end the process by a signal."""
    for name in ("TMPDIR", "TMP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "missing"))
    with pytest.raises(winograd.CompilationError, match=f"{variable} names .*missing', in which no"):
        winograd.compile(ADD)


def test_a_target_without_kernels(capfd: pytest.CaptureFixture[str]) -> None:
    flags = ["--iree-hal-local-target-device-backends=vmvx"]
    with pytest.raises(winograd.CompilationError, match='no kernels for target "vmvx"') as raised:
        winograd.compile(convolution(np.ones((3, 3, 16, 16), np.float32)), flags=flags, remarks=True)
    assert len(raised.value.diagnostics) == 1
    assert capfd.readouterr().err == ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert winograd.compile(ADD, flags=flags)


def test_filters_that_grow_much_are_transformed_at_load_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    filters = np.ones((3, 3, 16, 16), np.float32)
    # From 3x3 taps to 6x6 points.
    growth = (36 - 9) * 16 * 16 * 4
    for most, when in ((growth, "compile"), (growth - 1, "load")):
        monkeypatch.setattr(compile_pipeline, "MOST_GROWTH", most)
        vmfb = winograd.compile(convolution(filters), output_tile=4, report=report)
        assert json.loads(report.read_text())["folds_filters"] == when
        assert (len(vmfb) > filters.nbytes + growth) == (when == "compile")
        result = winograd.load(vmfb, device="local-sync")(np.ones((1, 18, 18, 16), np.float32))
        np.testing.assert_allclose(result, np.full((1, 16, 16, 16), 9.0 * 16), rtol=1e-5)


def test_filters_transformed_at_load_time() -> None:
    random = np.random.default_rng(0)
    image = random.standard_normal((1, 18, 18, 16), np.float32)
    filters = random.standard_normal((3, 3, 16, 16), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(image[0], (3, 3), (0, 1)).astype(np.float64)
    expected = np.einsum("hwcrs,rsck->hwk", windows, filters)[None]
    vmfbs = [
        winograd.compile(convolution(filters), output_tile=4, fold_filters=when)
        for when in ("compile", "load")
    ]
    # The filters themselves are in the file in place of what F(4x4, 3x3) makes of them.
    assert len(vmfbs[0]) > 36 * 16 * 16 * 4 > len(vmfbs[1])
    for vmfb in vmfbs:
        result = winograd.load(vmfb, device="local-sync")(image)
        expect_within(result, expected, 1e-5 * np.abs(expected).max())


@dataclass(frozen=True)
class EmitError:
    """Fails as a pass should."""

    def run(self, module: ir.Operation) -> None:
        module.location.emit_error("not today")
        raise PassError


@dataclass(frozen=True)
class Crash:
    """Fails as a pass should not."""

    def run(self, module: ir.Operation) -> None:
        raise KeyError("an oversight")


@dataclass(frozen=True)
class LeaveAnOp:
    """Forgets to lower an op of our dialect."""

    def run(self, module: ir.Operation) -> None:
        (sum_,) = (operation for operation in walk(module) if operation.name == "arith.addf")
        with ir.InsertionPoint(sum_), sum_.location:
            unknown = ir.Operation.create(
                "winograd.unknown", [sum_.results[0].type], operands=list(sum_.operands)
            )
        sum_.results[0].replace_all_uses_with(unknown.results[0])


def use_pass(patch: pytest.MonkeyPatch, pass_class: type[Pass]) -> None:
    """Makes a pass of this class all that is done to programs."""
    patch.setitem(registry._names, pass_class, "winograd-test")
    patch.setattr(compilation, "compile_pipeline", lambda *_, **_options: [pass_class()])


def test_a_pass_that_crashes_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    use_pass(monkeypatch, Crash)
    reason = "winograd-test failed on the program: KeyError: 'an oversight'; winograd-test was left out"
    with pytest.warns(winograd.RewriteWarning, match=reason) as caught:
        run_add(winograd.compile(ADD))
    assert caught[0].filename == __file__


def test_falls_back_to_stock_iree(monkeypatch: pytest.MonkeyPatch) -> None:
    use_pass(monkeypatch, LeaveAnOp)
    reason = "not lowered: winograd.unknown; the program was compiled without iree-winograd"
    with pytest.warns(winograd.RewriteWarning, match=reason) as caught:
        run_add(winograd.compile(ADD))
    assert caught[0].filename == __file__


@pytest.mark.parametrize("strict", [False, True])
def test_an_error_that_a_pass_finds_in_the_program(monkeypatch: pytest.MonkeyPatch, strict: bool) -> None:
    use_pass(monkeypatch, EmitError)
    with pytest.raises(winograd.CompilationError, match="not today"):
        winograd.compile(ADD, strict=strict)


@pytest.mark.parametrize(
    ("pass_class", "reason"),
    [(Crash, "KeyError: 'an oversight'"), (LeaveAnOp, "not lowered: winograd.unknown")],
)
def test_strict_makes_a_failure_an_error(
    monkeypatch: pytest.MonkeyPatch, pass_class: type[Pass], reason: str
) -> None:
    use_pass(monkeypatch, pass_class)
    with pytest.raises(winograd.CompilationError, match=reason) as raised:
        winograd.compile(ADD, strict=True)
    assert [found.severity for found in raised.value.diagnostics] == ["error", "note"]


CONVERTED = """\
func.func @add(%lhs: tensor<8xf32>, %rhs: tensor<8xf32>) -> tensor<8xf32> {
  %sum = stablehlo.add %lhs, %rhs : tensor<8xf32>
  return %sum : tensor<8xf32>
}
"""


def test_iree_is_told_what_it_need_not_convert() -> None:
    """It converts what is in dialects of others, where no flag says which one that is."""
    run_add(winograd.compile(CONVERTED))
    run_add(winograd.compile(CONVERTED, flags=["--iree-input-type=stablehlo"]))
    with pytest.raises(winograd.CompilationError, match="stablehlo"):
        winograd.compile(CONVERTED, flags=["--iree-input-type=none"])
    assert input_type_flags(ADD.encode(), ()) == ("--iree-input-type=none",)
    assert input_type_flags(CONVERTED.encode(), ()) == ("--iree-input-type=auto",)
    assert input_type_flags(ADD.encode(), ("--iree-input-type=auto",)) == ()


def test_programs_own_errors_are_reported_once() -> None:
    """What fails with and without our passes is reported as stock IREE reports it."""
    with pytest.raises(winograd.CompilationError) as stock:
        winograd.compile(WIDE_MATMUL, target="cpu:x86-64", enable_winograd=False)
    with pytest.raises(winograd.CompilationError) as ours:
        winograd.compile(WIDE_MATMUL, target="cpu:x86-64")
    assert ours.value.diagnostics == stock.value.diagnostics
