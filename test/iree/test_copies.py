"""Which memory values of a program share: what IREE copies, and what it writes in place."""

from __future__ import annotations

import re

import numpy as np
import pytest
from stock import StockCompilation, called, compiled, kernel, text_after

# It changes with the version of IREE, not with what is here.
pytestmark = pytest.mark.wide

X = np.arange(64, dtype=np.float32)
DOUBLE = kernel(
    "double",
    "%a: !stream.binding",
    """
      %x = stream.binding.subspan %a[%c0] : !stream.binding -> memref<64xf32>
      %v = vector.load %x[%c0] : memref<64xf32>, vector<64xf32>
      %s = arith.addf %v, %v : vector<64xf32>
      vector.store %s, %x[%c0] : memref<64xf32>, vector<64xf32>
    """,
)
REVERSE = kernel(
    "reverse",
    "%a: !stream.binding, %b: !stream.binding",
    """
      %x = stream.binding.subspan %a[%c0] : !stream.binding -> memref<64xf32>
      %y = stream.binding.subspan %b[%c0] : !stream.binding -> memref<64xf32>
      %c1 = arith.constant 1 : index
      %c63 = arith.constant 63 : index
      %c64 = arith.constant 64 : index
      scf.for %i = %c0 to %c64 step %c1 {
        %j = arith.subi %c63, %i : index
        %v = memref.load %x[%i] : memref<64xf32>
        memref.store %v, %y[%j] : memref<64xf32>
      }
    """,
)
ACCESS = re.compile(r"^ *(ro|wo|rw) %", re.MULTILINE)


def in_place(read_later: str) -> str:
    """Doubles the magnitudes of `%x` in place, and adds one of them, before or after, to the results."""
    return f"""{DOUBLE}
    func.func @main(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {{
      %before = math.absf %x : tensor<64xf32>
      %after = flow.dispatch @double::@double(%before) : (tensor<64xf32>) -> %before
      %sum = arith.addf {read_later}, %after : tensor<64xf32>
      return %sum, %after : tensor<64xf32>, tensor<64xf32>
    }}"""


def test_an_operand_that_is_overwritten_and_read_later_is_copied() -> None:
    total, doubled = called(compiled(in_place("%before")), X)
    np.testing.assert_array_equal(doubled, 2 * X)
    np.testing.assert_array_equal(total, 3 * X)


def test_an_operand_that_nothing_reads_later_is_overwritten_without_a_copy() -> None:
    assert text_after("stream", in_place("%before")).count("stream.cmd.copy") == 1
    assert "stream.cmd.copy" not in text_after("stream", in_place("%after"))
    total, _ = called(compiled(in_place("%after")), X)
    np.testing.assert_array_equal(total, 4 * X)


def test_a_kernels_result_is_not_where_its_operands_are() -> None:
    """Also where nothing needs these any more: a kernel reads what it has not come to yet."""
    program = f"""{REVERSE}
    func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {{
      %y = flow.dispatch @reverse::@reverse(%x) : (tensor<64xf32>) -> tensor<64xf32>
      %z = flow.dispatch @reverse::@reverse(%y) : (tensor<64xf32>) -> tensor<64xf32>
      %r = flow.dispatch @reverse::@reverse(%z) : (tensor<64xf32>) -> tensor<64xf32>
      return %r : tensor<64xf32>
    }}"""
    assert ACCESS.findall(text_after("stream", program)) == ["ro", "wo"] * 3
    np.testing.assert_array_equal(called(compiled(program), X)[0], X[::-1])


ACCUMULATION = """
func.func @main(%y: tensor<16x16xf32>, %target: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %r = linalg.matmul ins(%y, %y : tensor<16x16xf32>, tensor<16x16xf32>)
    outs(%target : tensor<16x16xf32>) -> tensor<16x16xf32>
  return %r : tensor<16x16xf32>
}"""


def test_an_argument_is_memory_for_what_is_computed_from_it_and_says_so() -> None:
    """Reading has the first bit of a dispatch's accesses, writing the second."""
    text = StockCompilation(ACCUMULATION).run_to("stream").text(generic=True)
    (accesses,) = re.findall(r"resource_accesses = \[(.*?)\]", text)
    assert accesses == "1 : i32, 3 : i32"


@pytest.mark.parametrize("elements", [16, 1 << 20])
def test_results_are_allocated_in_the_order_of_commands(elements: int) -> None:
    program = f"""
    func.func @main(%x: tensor<{elements}xf32>) -> tensor<{elements}xf32> {{
      %r = arith.addf %x, %x : tensor<{elements}xf32>
      return %r : tensor<{elements}xf32>
    }}"""
    text = text_after("stream", program)
    assert re.search(r"stream\.resource\.alloca uninitialized .*: !stream\.resource<external>", text)
