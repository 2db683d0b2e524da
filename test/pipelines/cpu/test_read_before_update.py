"""Tensors that others read, of which a part is computed in their memory later."""

from __future__ import annotations

import iree.winograd
import numpy as np
import pytest
from wide import wide

ELEMENTWISE = """
    {result} = linalg.generic
        {{indexing_maps = [#identity, #identity], iterator_types = ["parallel", "parallel"]}}
        ins({operand} : {type}) outs({empty} : {type}) {{
      ^bb0(%in: f32, %out: f32):
        %r = arith.addf %in, %in : f32
        linalg.yield %r : f32
    }} -> {type}
"""


def doubled(result: str, operand: str, rows: int) -> str:
    type_ = f"tensor<{rows}x6xf32>"
    empty = f"{result}_empty"
    elementwise = ELEMENTWISE.format(result=result, operand=operand, empty=empty, type=type_)
    return f"    {empty} = tensor.empty() : {type_}{elementwise}"


READ = f"""
  #identity = affine_map<(d0, d1) -> (d0, d1)>
  func.func @main(%x: tensor<2x6xf32>, %y: tensor<5x6xf32>, %w: tensor<6x4xf32>)
      -> (tensor<5x4xf32>, tensor<5x6xf32>) {{
{doubled("%part", "%x", 2)}
{doubled("%whole", "%y", 5)}
    %zero = arith.constant 0.0 : f32
    %read_empty = tensor.empty() : tensor<5x4xf32>
    %zeros = linalg.fill ins(%zero : f32) outs(%read_empty : tensor<5x4xf32>) -> tensor<5x4xf32>
    %read = linalg.matmul ins(%whole, %w : tensor<5x6xf32>, tensor<6x4xf32>)
        outs(%zeros : tensor<5x4xf32>) -> tensor<5x4xf32>
    %updated = tensor.insert_slice %part into %whole[1, 0] [2, 6] [1, 1]
        : tensor<2x6xf32> into tensor<5x6xf32>
    return %read, %updated : tensor<5x4xf32>, tensor<5x6xf32>
  }}"""

CONCATENATED = f"""
  #identity = affine_map<(d0, d1) -> (d0, d1)>
  func.func @main(%x: tensor<2x6xf32>, %y: tensor<2x6xf32>, %z: tensor<2x6xf32>)
      -> (tensor<4x6xf32>, tensor<4x6xf32>) {{
{doubled("%part", "%z", 2)}
    %first = tensor.concat dim(0) %x, %y : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>
    %second = tensor.concat dim(0) %x, %part : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>
    return %first, %second : tensor<4x6xf32>, tensor<4x6xf32>
  }}"""


@pytest.mark.parametrize("threads", [2, *wide([1])])
def test_a_tensor_is_read_before_a_part_of_it_is_computed_in_its_memory(threads: int) -> None:
    generator = np.random.default_rng(0)
    x, y, w = (generator.integers(-9, 9, shape).astype(np.float32) for shape in ((2, 6), (5, 6), (6, 4)))
    program = iree.winograd.load(iree.winograd.compile(READ, threads=threads), threads=threads)
    read, updated = program(x, y, w)
    np.testing.assert_array_equal(read, 2 * y @ w)
    np.testing.assert_array_equal(updated, np.concatenate([2 * y[:1], 2 * x, 2 * y[3:]]))


@pytest.mark.parametrize("threads", [2, *wide([1])])
def test_concatenations_may_begin_with_the_same_part(threads: int) -> None:
    generator = np.random.default_rng(0)
    x, y, z = (generator.standard_normal((2, 6), np.float32) for _ in range(3))
    program = iree.winograd.load(iree.winograd.compile(CONCATENATED, threads=threads), threads=threads)
    first, second = program(x, y, z)
    np.testing.assert_array_equal(first, np.concatenate([x, y]))
    np.testing.assert_array_equal(second, np.concatenate([x, 2 * z]))
