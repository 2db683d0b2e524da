"""Operations of linalg have the classes of the bindings without the import of the dialect's package."""

import subprocess
import sys

PROGRAM = """
import sys
from iree.winograd.dialect.bindings import ir, linalg

text = '''
func.func @f(%x: tensor<2x3xf32>, %init: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %r = linalg.transpose ins(%x : tensor<2x3xf32>) outs(%init : tensor<3x2xf32>) permutation = [1, 0]
  return %r : tensor<3x2xf32>
}'''
with ir.Context():
    module = ir.Module.parse(text)
    function = module.body.operations[0]
    assert isinstance(function.regions[0].blocks[0].operations[0], linalg.TransposeOp)
assert not any(name.startswith("iree.compiler.dialects.linalg") for name in sys.modules)

from iree.compiler.dialects import linalg as package

assert package.TransposeOp is linalg.TransposeOp and package.matmul
"""


def test_operations_have_their_classes() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
