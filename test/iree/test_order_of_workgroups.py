"""In which order IREE's runtime has workers begin the workgroups of kernels, where no barrier is between."""

from __future__ import annotations

import re

import numpy as np
import pytest
from stock import called, compiled, kernel, workers

# It changes with the version of IREE, not with what is here.
pytestmark = [pytest.mark.wide, pytest.mark.xdist_group("order of workgroups")]

WORKGROUPS = 64
LOOKS = 20_000_000
"""After which a kernel gives up waiting, a second or more: it is to fail, not to hang."""

# Some microseconds of work, then one more that is done.
FIRST = kernel(
    "first",
    "%a: !stream.binding, %b: !stream.binding",
    """
      %counts = stream.binding.subspan %b[%c0] : !stream.binding -> memref<32xi32>
      %c1 = arith.constant 1 : index
      %work = arith.constant 200 : index
      scf.for %i = %c0 to %work step %c1 {
        llvm.inline_asm has_side_effects "pause", "~{memory}" : () -> ()
      }
      %one = arith.constant 1 : i32
      %before = memref.atomic_rmw addi %one, %counts[%c0] : (i32, memref<32xi32>) -> i32
    """,
    grid=WORKGROUPS,
)
# Each workgroup waits until all of the first kernel are done, or one has given up, and says how many were.
SECOND = kernel(
    "second",
    "%a: !stream.binding, %b: !stream.binding",
    f"""
      %counts = stream.binding.subspan %a[%c0] : !stream.binding -> memref<32xi32>
      %seen = stream.binding.subspan %b[%c0] : !stream.binding -> memref<{WORKGROUPS}xi32>
      %c1 = arith.constant 1 : index
      %given_up = arith.constant 16 : index
      %all = arith.constant {WORKGROUPS} : i32
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %most = arith.constant {LOOKS} : index
      %looks = scf.while (%i = %c0) : (index) -> index {{
        %done = memref.load %counts[%c0] : memref<32xi32>
        %others = memref.load %counts[%given_up] : memref<32xi32>
        %is_early = arith.cmpi slt, %done, %all : i32
        %go_on = arith.cmpi eq, %others, %zero : i32
        %is_patient = arith.cmpi ult, %i, %most : index
        %both = arith.andi %is_early, %go_on : i1
        %wait = arith.andi %both, %is_patient : i1
        scf.condition(%wait) %i : index
      }} do {{
      ^bb0(%i: index):
        llvm.inline_asm has_side_effects "pause", "~{{memory}}" : () -> ()
        %next = arith.addi %i, %c1 : index
        scf.yield %next : index
      }}
      %done = memref.load %counts[%c0] : memref<32xi32>
      %w = stream.dispatch.workgroup.id[0] : index
      memref.store %done, %seen[%w] : memref<{WORKGROUPS}xi32>
      %is_early = arith.cmpi slt, %done, %all : i32
      scf.if %is_early {{
        memref.store %one, %counts[%given_up] : memref<32xi32>
      }}
    """,
    grid=WORKGROUPS,
)
PROGRAM = f"""
{FIRST}
{SECOND}
func.func @main(%x: tensor<4xi32>) -> tensor<{WORKGROUPS}xi32> {{
  %zero = arith.constant 0 : i32
  %n = flow.tensor.splat %zero : tensor<32xi32>
  %a = flow.dispatch @first::@first(%x, %n) : (tensor<4xi32>, tensor<32xi32>) -> %n
  %b:2 = flow.dispatch @second::@second(%a) : (tensor<32xi32>) -> (%a, tensor<{WORKGROUPS}xi32>)
  return %b#1 : tensor<{WORKGROUPS}xi32>
}}
"""
COMMANDS = re.compile(
    r"( *stream\.cmd\.dispatch @first.*?\n *}\n)( *stream\.cmd\.dispatch @second.*?\n *}\n)", re.DOTALL
)


def without_barrier(program: str) -> str:
    text, count = COMMANDS.subn(r"stream.cmd.concurrent {\n\1\2}\n", program)
    assert count == 1
    return text


@pytest.fixture(scope="module")
def program() -> bytes:
    return compiled(PROGRAM, edits={"stream": without_barrier})


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_workgroups_of_a_kernel_begin_before_those_of_the_next(program: bytes, count: int) -> None:
    for _ in range(5):
        (seen,) = called(program, np.zeros(4, np.int32), device=workers(count))
        np.testing.assert_array_equal(seen, WORKGROUPS)


def test_the_calling_thread_does_one_kernel_after_the_other(program: bytes) -> None:
    (seen,) = called(program, np.zeros(4, np.int32))
    np.testing.assert_array_equal(seen, WORKGROUPS)
