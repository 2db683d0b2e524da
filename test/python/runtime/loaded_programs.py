"""A program of a few functions to load, and arrays to call it with."""

from collections.abc import Sequence

import iree.winograd
import numpy as np
import numpy.typing as npt
from iree.winograd.loading.device import BUFFER_ALIGNMENT

Array = npt.NDArray[np.float32]


PROGRAM = """
#rows = affine_map<(i, j) -> (i, j)>
func.func @main(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %empty = tensor.empty() : tensor<4x64xf32>
  %doubled = linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x64xf32>) outs(%empty : tensor<4x64xf32>) {
  ^bb0(%element: f32, %unused: f32):
    %sum = arith.addf %element, %element : f32
    linalg.yield %sum : f32
  } -> tensor<4x64xf32>
  return %doubled : tensor<4x64xf32>
}
func.func @swap(%x: tensor<?x2xf32>, %y: tensor<?x3xi64>) -> (tensor<?x3xi64>, tensor<?x2xf32>) {
  return %y, %x : tensor<?x3xi64>, tensor<?x2xf32>
}
func.func @twice(%x: tensor<4x64xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  %doubled = arith.addf %x, %x : tensor<4x64xf32>
  return %doubled, %doubled : tensor<4x64xf32>, tensor<4x64xf32>
}
"""


HOST_DEVICES = ["local-sync", "local-task"]


def compile_program(text: str, flags: Sequence[str] = ()) -> bytes:
    return iree.winograd.compile(text, target="cpu:x86-64", enable_winograd=False, flags=flags)


def random_array(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def aligned(array: Array, offset: int) -> Array:
    """A copy of `array` whose first element lies `offset` bytes after a multiple of the alignment."""
    memory = np.empty(array.nbytes + 2 * BUFFER_ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % BUFFER_ALIGNMENT + offset
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
