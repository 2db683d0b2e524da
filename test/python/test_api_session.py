"""Flags of ours in the API of IREE's compiler, by the calls that iree-turbine's `ExportOutput` makes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import iree.winograd as winograd
import numpy as np
import pytest
from iree.compiler import api
from iree.winograd.compiling.embedding import stock_tool
from iree.winograd.dialect.algebra.numerics import UNIT_ROUNDOFF
from iree.winograd.dialect.bindings import ir
from iree.winograd.loading.signatures import TensorSignature
from iree.winograd.targets import target_flags
from small_programs import ADD, CONVOLUTION, ENABLE, STRICT

# As iree-turbine exports a convolution: its filter in a global, its types those of torch-mlir.
EXPORTED = """\
module @module {
  util.global private @filter = dense_resource<filter> : tensor<16x16x3x3xf32>
  func.func @main(%image: !torch.vtensor<[1,16,18,18],f32>) -> !torch.vtensor<[1,16,16,16],f32> {
    %loaded = util.global.load @filter : tensor<16x16x3x3xf32>
    %filter = torch_c.from_builtin_tensor %loaded : tensor<16x16x3x3xf32> -> !torch.vtensor<[16,16,3,3],f32>
    %one = torch.constant.int 1
    %zero = torch.constant.int 0
    %ones = torch.prim.ListConstruct %one, %one : (!torch.int, !torch.int) -> !torch.list<int>
    %zeros = torch.prim.ListConstruct %zero, %zero : (!torch.int, !torch.int) -> !torch.list<int>
    %none = torch.constant.none
    %result = torch.aten.conv2d %image, %filter, %none, %ones, %zeros, %ones, %one
      : !torch.vtensor<[1,16,18,18],f32>, !torch.vtensor<[16,16,3,3],f32>, !torch.none, !torch.list<int>,
        !torch.list<int>, !torch.list<int>, !torch.int -> !torch.vtensor<[1,16,16,16],f32>
    return %result : !torch.vtensor<[1,16,16,16],f32>
  }
}
{-# dialect_resources: { builtin: { filter: "0x04000000FILTER" } } #-}
"""
GENERATOR = np.random.default_rng(0)
FILTER = GENERATOR.standard_normal((16, 16, 3, 3), np.float32)
IMAGE = GENERATOR.standard_normal((1, 16, 18, 18), np.float32)
PROGRAM = EXPORTED.replace("FILTER", FILTER.tobytes().hex())
# Sums of 144 products; F(m, 3) may err some times as much as a direct convolution.
TOLERANCE = 8 * 144 * UNIT_ROUNDOFF["float32"]


def new_session(*flags: str) -> Any:
    session = api.Session()
    session.set_flags("--iree-input-type=auto")
    session.set_flags(*target_flags("cpu"), "--iree-winograd-threads=1", *flags)
    return session


def compile_in(session: Any, program: str = PROGRAM) -> bytes | None:
    """What iree-turbine does; None where the compiler fails."""
    invocation = session.invocation()
    assert invocation.parse_source(api.Source.wrap_buffer(session, program.encode() + b"\0"))
    invocation.enable_console_diagnostics()
    output = api.Output.open_membuffer()
    if not invocation.execute():
        return None
    invocation.output_vm_bytecode(output)
    output.keep()
    return bytes(output.map_memory())


def check(program: bytes | None) -> None:
    assert program is not None
    loaded = winograd.load(program, "local-sync")
    parts = [IMAGE[:, :, i : i + 16, j : j + 16].astype(float) for i in range(3) for j in range(3)]
    taps = FILTER.astype(float).reshape(16, 16, 9)
    expected = sum(np.einsum("kc,nchw->nkhw", taps[:, :, t], part) for t, part in enumerate(parts))
    error = np.abs(loaded.main(IMAGE) - expected).max()
    assert 0 < error < TOLERANCE * np.abs(expected).max()


def test_a_session_with_our_flags_rewrites(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    session = new_session(ENABLE, STRICT, f"--iree-winograd-report={report}")
    assert ENABLE in session.get_flags() and ENABLE in session.get_flags(non_default_only=True)
    program = compile_in(session)
    check(program)
    assert program is not None
    # The filter was no longer that of a global: it is transformed when compiling.
    (layer,) = json.loads(report.read_text())["layers"]
    assert layer["candidates"][layer["chosen"]]["algorithm"].startswith("F(")
    signature = winograd.load(program, "local-sync").main.signature
    assert signature is not None
    assert signature.inputs == (TensorSignature((1, 16, 18, 18), "f32"),)
    assert signature.outputs == (TensorSignature((1, 16, 16, 16), "f32"),)
    # The session compiles further programs.
    check(compile_in(session))


def test_a_session_without_is_that_of_stock_iree(tmp_path: Path) -> None:
    outside = f"""
from iree.compiler import api
import sys
session = api.Session()
session.set_flags(*{target_flags("cpu")!r})
invocation = session.invocation()
invocation.parse_source(api.Source.open_file(session, "program.mlir"))
assert invocation.execute()
with api.Output.open_file("program.vmfb") as output:
    invocation.output_vm_bytecode(output)
    output.keep()
print([name for name in sys.modules if name.startswith("iree.winograd.")])
"""
    (tmp_path / "program.mlir").write_text(ADD)
    completed = subprocess.run(
        [sys.executable, "-c", outside], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert completed.stdout == "[]\n"
    command = [stock_tool("iree-compile"), *target_flags("cpu"), "program.mlir", "-o", "stock.vmfb"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert (tmp_path / "program.vmfb").read_bytes() == (tmp_path / "stock.vmfb").read_bytes()
    # Other flags of ours have no effect without the one that enables.
    session = new_session()
    check(compile_in(session))
    assert session.get_flags()[-1] == "--iree-winograd-threads=1"


@pytest.mark.wide
def test_a_module_is_imported() -> None:
    session = new_session()
    session.set_flags(ENABLE, STRICT)
    module = ir.Module.parse(PROGRAM, session.context).operation
    invocation = session.invocation()
    invocation.import_module(module)
    assert invocation.execute()
    output = api.Output.open_membuffer()
    invocation.output_vm_bytecode(output)
    check(bytes(output.map_memory()))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--iree-winograd-nothing"], "option not found: iree-winograd-nothing"),
        ([ENABLE, "--iree-winograd-output-tile=9"], "iree-winograd-output-tile option: must be"),
        (["--iree-winograd-output-tile"], "requires a value"),
        ([ENABLE, "--iree-winograd-tuning-database=/nowhere"], "can't read tuning database '/nowhere'"),
        ([ENABLE, "--iree-llvmcpu-target-cpu=pentium9"], "pentium9"),
    ],
)
def test_flags_that_are_wrong(flags: list[str], message: str) -> None:
    session = new_session()
    with pytest.raises(ValueError, match=message):
        session.set_flags(*flags)
    # What was refused isn't set.
    assert ENABLE not in session.get_flags()


def test_a_program_that_is_wrong(capfd: pytest.CaptureFixture[str]) -> None:
    program = "func.func @f(%x: tensor<*xf32>) -> tensor<*xf32> { return %x : tensor<*xf32> }"
    assert compile_in(new_session(ENABLE), program) is None
    assert "unranked tensor types are not supported" in capfd.readouterr().err


@pytest.mark.wide
def test_remarks_are_printed(capfd: pytest.CaptureFixture[str]) -> None:
    check(compile_in(new_session(ENABLE, "--iree-winograd-remarks")))
    assert "remark: " in capfd.readouterr().err


def test_our_compile_takes_options_as_keywords() -> None:
    with pytest.raises(winograd.InvalidOptionError, match="in Python it is an option"):
        winograd.compile(CONVOLUTION, flags=["--iree-winograd-threads=1"])


@pytest.mark.wide
def test_iree_turbine() -> None:
    import torch
    from iree.turbine import aot

    model = torch.nn.Conv2d(16, 16, 3, bias=False)
    model.weight.data = torch.from_numpy(FILTER)
    exported = aot.export(model.eval(), args=(torch.from_numpy(IMAGE),))
    exported.session.set_flags("--iree-llvmcpu-target-cpu=host", ENABLE, STRICT)
    check(bytes(exported.compile(None).map_memory()))
    check(winograd.compile(exported, strict=True))
