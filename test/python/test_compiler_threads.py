"""Errors that MLIR's worker threads find are reported: the calling thread doesn't wait for them for ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_FUNCTIONS = """
  func.func @before(%x: f32) -> f32 { return %x : f32 }
  func.func @broken(%x: f32) -> RESULT { return %x : f32 }
  func.func @behind(%x: f32) -> RESULT { return %x : f32 }
"""
_BREAKING_PASS = """
import sys
from iree.winograd import compiler_threads
from iree.winograd.compiling.diagnostics import capture_diagnostics
from iree.winograd.compiling.ir_dumps import IRDumps
from iree.winograd.compiling.pass_pipeline import load_passes, run_passes
from iree.winograd.dialect.bindings import c_pointer, ir
from iree.winograd.passes.infrastructure.containment import Containment, RewriteFailuresError
from iree.winograd.passes.match.navigation import walk

breaking = load_passes()["winograd-pool-in-place"]

def number_of_threads(context):
    return compiler_threads._number_of_threads(c_pointer(context))

def run(self, module):
    assert number_of_threads(module.context) == 1
    wrong = ir.FunctionType.get([ir.F32Type.get()], [ir.IntegerType.get_signless(32)])
    for function in [each for each in walk(module) if each.name == "func.func"]:
        function.attributes["function_type"] = ir.TypeAttr.get(wrong)

breaking.run = run
source = sys.stdin.read()
for number in range(8):
    context, diagnostics = ir.Context(), []
    capture_diagnostics(context, diagnostics.append)
    module = ir.Module.parse(source, context).operation
    before = number_of_threads(context)
    try:
        run_passes(module, [breaking()], IRDumps(), Containment(verifies_each=True))
    except RewriteFailuresError as error:
        print(error.failures[0].reason)
    assert number_of_threads(context) == before
"""


def nested(result: str) -> str:
    """Many modules of several functions, two of each of which return something else than they say."""
    functions = _FUNCTIONS.replace("RESULT", result)
    return "\n".join(f"module @m{number} {{{functions}}}" for number in range(24))


@pytest.mark.parametrize("number", range(3))
def test_winograd_opt_reports_errors_in_nested_modules(number: int, tmp_path: Path) -> None:
    source = tmp_path / f"nested-{number}.mlir"
    source.write_text(nested("i32"))
    tool = Path(sys.executable).with_name("winograd-opt")
    ended = subprocess.run([tool, source], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "type of return operand 0 ('f32') doesn't match function result type ('i32')" in ended.stderr


def test_a_pass_that_breaks_nested_modules_is_an_error() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _BREAKING_PASS],
        input=nested("f32"),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout.count("InvalidRewriteError") == 8
