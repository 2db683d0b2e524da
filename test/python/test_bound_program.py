"""Programs called on arguments that stay on the device."""

from __future__ import annotations

import numpy as np
from iree.winograd import compile
from iree.winograd.loading.device import open_device
from iree.winograd.tuning.measuring.bound_program import BoundProgram

PROGRAM = b"""
func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xi64>, tensor<2xi8>) {
  %sum = arith.addf %x, %x : tensor<2xf32>
  %whole = arith.fptosi %sum : tensor<2xf32> to tensor<2xi64>
  %narrow = arith.trunci %whole : tensor<2xi64> to tensor<2xi8>
  return %sum, %whole, %narrow : tensor<2xf32>, tensor<2xi64>, tensor<2xi8>
}
"""


def test_results_have_the_types_of_the_program() -> None:
    device = open_device("local-sync")
    argument = device.copy_from_host(np.array([1.25, -3], np.float32))
    results = BoundProgram(compile(PROGRAM), [argument], device).results()
    assert [result.dtype for result in results] == [np.float32, np.int64, np.int8]
    assert [result.tolist() for result in results] == [[2.5, -6], [2, -6], [2, -6]]
