"""Kernels for CUDA as machine code; what stands in for NVIDIA's assembler writes something else."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import iree.winograd
import pytest
from iree.winograd.compiling.assembler import AssemblyError, assemble, installed_assembler
from iree.winograd.errors import InvalidOptionError

PROGRAM = """
func.func @main(%a: tensor<64xf32>) -> tensor<64xf32> {
  %r = arith.addf %a, %a : tensor<64xf32>
  return %r : tensor<64xf32>
}
"""
CONVOLUTION = """
func.func @main(%x: tensor<4x16x16x64xf32>, %f: tensor<3x3x64x64xf32>) -> tensor<4x14x14x64xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x14x14x64xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x14x14x64xf32>) -> tensor<4x14x14x64xf32>
  %r = linalg.conv_2d_nhwc_hwcf ins(%x, %f : tensor<4x16x16x64xf32>, tensor<3x3x64x64xf32>)
      outs(%init : tensor<4x14x14x64xf32>) -> tensor<4x14x14x64xf32>
  return %r : tensor<4x14x14x64xf32>
}
"""
CODE = b"\x7fELF and what follows"


@pytest.fixture
def assembler(tmp_path: Path) -> Path:
    """A program with the arguments of ptxas that wants the text of a kernel for sm_80."""
    path = tmp_path / "ptxas"
    path.write_text(f"""#!{sys.executable}
import sys
from pathlib import Path
architecture, source, option, target = sys.argv[1:]
text = Path(source).read_bytes()
assert architecture == "-arch=sm_80" and option == "-o", sys.argv
assert text.lstrip().startswith(b"//") and b".target sm_80" in text and text.rstrip().endswith(b"}}"), text
Path(target).write_bytes({CODE!r})
""")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("target", "is_assembled"), [("cuda:sm_90a", True), ("cuda:sm_80", False)])
def test_kernels_of_one_architecture_are_assembled(target: str, is_assembled: bool) -> None:
    program = iree.winograd.compile(CONVOLUTION, target=target, strict=True)
    assert program is not None
    assert (b"\x7fELF" in program) == is_assembled
    assert (b".visible .entry" in program) != is_assembled


def test_an_assembler_on_the_path_comes_first(assembler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = installed_assembler()
    assert packaged is not None
    monkeypatch.setenv("PATH", str(assembler.parent), prepend=os.pathsep)
    assert installed_assembler() == str(assembler) != packaged


def test_programs_hold_what_the_assembler_gives(assembler: Path) -> None:
    plain = iree.winograd.compile(PROGRAM, target="cuda:sm_80")
    program = iree.winograd.compile(PROGRAM, target="cuda:sm_80", ptxas=str(assembler))
    assert plain is not None and program is not None
    assert b".visible .entry" in plain and CODE not in plain
    assert CODE in program and b".visible .entry" not in program


def test_an_assembler_that_fails_leaves_the_text(tmp_path: Path) -> None:
    failing = tmp_path / "ptxas"
    failing.write_text("#!/bin/sh\necho unknown architecture >&2; exit 1\n")
    failing.chmod(0o755)
    with pytest.warns(iree.winograd.RewriteWarning, match="kernels stay text.*unknown architecture"):
        program = iree.winograd.compile(PROGRAM, target="cuda:sm_80", ptxas=str(failing))
    assert program is not None and b".visible .entry" in program


def test_programs_for_other_targets_have_nothing_to_assemble(tmp_path: Path, assembler: Path) -> None:
    assert iree.winograd.compile(
        PROGRAM, target="cpu:haswell", ptxas=str(assembler)
    ) == iree.winograd.compile(PROGRAM, target="cpu:haswell")


def test_an_assembler_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="can't run assembler"):
        iree.winograd.compile(PROGRAM, target="cuda:sm_80", ptxas=str(tmp_path / "ptxas"))


def test_what_holds_no_text_is_an_error(assembler: Path) -> None:
    for executable in (b"", b"no text at all", b"....\n.target sm_80\n"):
        with pytest.raises(AssemblyError, match="has no"):
            assemble(executable, str(assembler))
