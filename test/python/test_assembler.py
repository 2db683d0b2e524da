"""Kernels for CUDA as machine code; what stands in for NVIDIA's assembler writes something else."""

from __future__ import annotations

import os
import struct
import sys
import warnings
from pathlib import Path

import iree.winograd
import pytest
from flatbuffers import Builder
from flatbuffers.number_types import UOffsetTFlags
from flatbuffers.table import Table
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
ONE_CHANNEL = """
func.func @main(%x: tensor<1x8x8x1xf32>, %f: tensor<3x3x1x1xf32>) -> tensor<1x6x6x1xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x6x6x1xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x6x6x1xf32>) -> tensor<1x6x6x1xf32>
  %r = linalg.conv_2d_nhwc_hwcf ins(%x, %f : tensor<1x8x8x1xf32>, tensor<3x3x1x1xf32>)
      outs(%init : tensor<1x6x6x1xf32>) -> tensor<1x6x6x1xf32>
  return %r : tensor<1x6x6x1xf32>
}
"""
CODE = b"\x7fELF and what follows"
LONG_CODE = b"\x7fELF" + bytes(range(256)) * 64
TEXT = b"// kernels\n.target sm_80\n}"


HEADER_BYTES = 64


@pytest.fixture
def assembler(tmp_path: Path) -> Path:
    """A program with the arguments of ptxas that wants the text of a kernel for sm_80."""
    return assembler_that_writes(CODE, tmp_path / "ptxas")


@pytest.fixture
def verbose_assembler(tmp_path: Path) -> Path:
    """One whose machine code is longer than the text."""
    return assembler_that_writes(LONG_CODE, tmp_path / "ptxas")


def assembler_that_writes(code: bytes, path: Path) -> Path:
    path.write_text(f"""#!{sys.executable}
import sys
from pathlib import Path
architecture, source, option, target = sys.argv[1:]
text = Path(source).read_bytes()
assert architecture == "-arch=sm_80" and option == "-o", sys.argv
assert text.lstrip().startswith(b"//") and b".target sm_80" in text and text.rstrip().endswith(b"}}"), text
Path(target).write_bytes({code!r})
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
    whole = executable_of([TEXT])
    for executable in (b"", b"no text at all", b"....\n.target sm_80\n", executable_of([]), whole[:72]):
        with pytest.raises(AssemblyError, match="has no"):
            assemble(executable, str(assembler))
    with pytest.raises(AssemblyError, match="behind its end"):
        assemble(executable_of([TEXT * 99])[:-90], str(assembler))
    with pytest.raises(AssemblyError, match="no architecture"):
        assemble(executable_of([b"// nothing"]), str(assembler))


def test_machine_code_that_is_longer_than_the_text_has_room_of_its_own(verbose_assembler: Path) -> None:
    plain = iree.winograd.compile(PROGRAM, target="cuda:sm_80")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = iree.winograd.compile(PROGRAM, target="cuda:sm_80", ptxas=str(verbose_assembler))
    assert LONG_CODE in program and b".visible .entry" not in program
    assert len(program) > len(plain) + len(LONG_CODE) // 2


def test_a_convolution_of_one_channel_is_machine_code() -> None:
    """Its text is shorter than that."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = iree.winograd.compile(ONE_CHANNEL, target="cuda:sm_90a", strict=True)
    assert b"\x7fELF" in program and b".visible .entry" not in program


def test_executables_with_longer_code_are_valid_flatbuffers(verbose_assembler: Path) -> None:
    assembled = assemble(executable_of([TEXT, TEXT + b"\n}"]), str(verbose_assembler))
    names, contents = read_executable(assembled)
    assert names == [b"first", b"second"]
    assert contents == [LONG_CODE, LONG_CODE]


def executable_of(texts: list[bytes]) -> bytes:
    """As IREE's serialization makes one, of two exports and a module for each text."""
    builder = Builder()
    names = [builder.CreateString(name) for name in ("first", "second")]
    modules = []
    for text in texts:
        content = builder.CreateString(text)
        builder.StartObject(1)
        builder.PrependUOffsetTRelativeSlot(0, content, 0)
        modules.append(builder.EndObject())
    vectors = [vector_of(builder, names), vector_of(builder, modules)]
    builder.StartObject(2)
    for field, vector in enumerate(vectors):
        builder.PrependUOffsetTRelativeSlot(field, vector, 0)
    builder.Finish(builder.EndObject(), file_identifier=b"CDA1")
    buffer = bytes(builder.Output())
    return struct.pack("<4sIQ48x", b"CDA1", 0, len(buffer)) + buffer


def vector_of(builder: Builder, elements: list[int]) -> int:
    builder.StartVector(4, len(elements), 4)
    for element in reversed(elements):
        builder.PrependUOffsetTRelative(element)
    return int(builder.EndVector())


def read_executable(executable: bytes) -> tuple[list[bytes], list[bytes]]:
    """The names of its exports and the contents of its modules, by the library of the format."""
    magic, _, size = struct.unpack_from("<4sIQ", executable)
    assert magic == b"CDA1" and size == len(executable) - HEADER_BYTES
    buffer = executable[HEADER_BYTES:]
    root = Table(buffer, UOffsetTFlags.py_type(struct.unpack_from("<I", buffer)[0]))

    def elements(field: int) -> list[int]:
        offset = root.Offset(4 + 2 * field)
        return [root.Vector(offset) + 4 * index for index in range(root.VectorLen(offset))]

    modules = [Table(buffer, root.Indirect(place)) for place in elements(1)]
    texts = [module.String(module.Pos + module.Offset(4)) for module in modules]
    return [root.String(place) for place in elements(0)], texts
