"""What IREE does wrong that passes keep programs away from: where one of these fails, a pass can go."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from iree.winograd.compiling.embedding import stock_tool
from iree.winograd.targets import target_flags
from stock import called, compiled, kernel, text_after, workers

# It changes with the version of IREE, not with what is here.
pytestmark = pytest.mark.wide


def test_callers_that_pass_one_value_twice_change_it_for_others() -> None:
    """`winograd-separate-calls`."""
    program = """
      func.func private @difference(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32>
          attributes {noinline} {
        %0 = arith.subf %x, %y : tensor<4xf32>
        return %0 : tensor<4xf32>
      }
      func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
        %first = call @difference(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        %second = call @difference(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        %u = math.absf %first : tensor<4xf32>
        %v = math.absf %second : tensor<4xf32>
        return %u, %v : tensor<4xf32>, tensor<4xf32>
      }"""
    x, y = np.arange(4, dtype=np.float32), np.full(4, 16, np.float32)
    first, _ = called(compiled(program), x, y)
    np.testing.assert_array_equal(first, np.zeros(4))


def test_two_scatters_write_in_one_of_two_computed_tensors() -> None:
    """`winograd-fill-unknown-sizes`."""
    program = """
      #scalar = affine_map<(d0, d1) -> ()>
      #identity = affine_map<(d0, d1) -> (d0, d1)>
      func.func @main(%a: tensor<?xi32>, %b: tensor<?xi32>, %places: tensor<?x2xi32>)
          -> (tensor<?x4xi32>, tensor<?x4xi32>) {
        %c0 = arith.constant 0 : index
        %size = tensor.dim %a, %c0 : tensor<?xi32>
        %number = arith.constant dense<-1> : tensor<i32>
        %empty = tensor.empty(%size) : tensor<?x4xi32>
        %filled = linalg.generic
            {indexing_maps = [#scalar, #identity], iterator_types = ["parallel", "parallel"]}
            ins(%number : tensor<i32>) outs(%empty : tensor<?x4xi32>) {
          ^bb0(%in: i32, %out: i32):
            linalg.yield %in : i32
        } -> tensor<?x4xi32>
        %first = iree_linalg_ext.scatter dimension_map = [0, 1] unique_indices(true)
            ins(%a, %places : tensor<?xi32>, tensor<?x2xi32>) outs(%filled : tensor<?x4xi32>) {
          ^bb0(%new: i32, %old: i32):
            iree_linalg_ext.yield %new : i32
        } -> tensor<?x4xi32>
        %second = iree_linalg_ext.scatter dimension_map = [0, 1] unique_indices(true)
            ins(%b, %places : tensor<?xi32>, tensor<?x2xi32>) outs(%filled : tensor<?x4xi32>) {
          ^bb0(%new: i32, %old: i32):
            iree_linalg_ext.yield %new : i32
        } -> tensor<?x4xi32>
        return %first, %second : tensor<?x4xi32>, tensor<?x4xi32>
      }"""
    a, b = np.array([5, 6], np.int32), np.array([7, 8], np.int32)
    places = np.array([[0, 0], [1, 1]], np.int32)
    first, _ = called(compiled(program), a, b, places)
    assert first[0, 0] == b[0], "the second scatter wrote in what the first one has"


def test_casts_to_other_sizes_are_not_checked() -> None:
    """`winograd-check-casts`."""
    program = """
      func.func @main(%x: tensor<?x?xf32>) -> tensor<4xf32> {
        %y = tensor.collapse_shape %x [[0, 1]] : tensor<?x?xf32> into tensor<?xf32>
        %cast = tensor.cast %y : tensor<?xf32> to tensor<4xf32>
        %result = math.absf %cast : tensor<4xf32>
        return %result : tensor<4xf32>
      }"""
    x = np.arange(8, dtype=np.float32)
    (result,) = called(compiled(program), x.reshape(2, 4))
    np.testing.assert_array_equal(result, x[:4])


UPDATED = """
  #identity = affine_map<(d0, d1) -> (d0, d1)>
  func.func @main(%x: tensor<2x6xf32>, %y: tensor<5x6xf32>, %w: tensor<6x4xf32>)
      -> (tensor<5x4xf32>, tensor<5x6xf32>) {
    %part_empty = tensor.empty() : tensor<2x6xf32>
    %part = linalg.generic
        {indexing_maps = [#identity, #identity], iterator_types = ["parallel", "parallel"]}
        ins(%x : tensor<2x6xf32>) outs(%part_empty : tensor<2x6xf32>) {
      ^bb0(%in: f32, %out: f32):
        %negated = arith.negf %in : f32
        linalg.yield %negated : f32
    } -> tensor<2x6xf32>
    %whole_empty = tensor.empty() : tensor<5x6xf32>
    %whole = linalg.generic
        {indexing_maps = [#identity, #identity], iterator_types = ["parallel", "parallel"]}
        ins(%y : tensor<5x6xf32>) outs(%whole_empty : tensor<5x6xf32>) {
      ^bb0(%in: f32, %out: f32):
        %doubled = arith.addf %in, %in : f32
        linalg.yield %doubled : f32
    } -> tensor<5x6xf32>
    %zero = arith.constant 0.0 : f32
    %read_empty = tensor.empty() : tensor<5x4xf32>
    %zeros = linalg.fill ins(%zero : f32) outs(%read_empty : tensor<5x4xf32>) -> tensor<5x4xf32>
    %read = linalg.matmul ins(%whole, %w : tensor<5x6xf32>, tensor<6x4xf32>)
        outs(%zeros : tensor<5x4xf32>) -> tensor<5x4xf32>
    %updated = tensor.insert_slice %part into %whole[1, 0] [2, 6] [1, 1]
        : tensor<2x6xf32> into tensor<5x6xf32>
    return %read, %updated : tensor<5x4xf32>, tensor<5x6xf32>
  }"""


def test_a_tensor_is_updated_before_it_is_read() -> None:
    """`winograd-read-before-update`."""
    x, y, w = np.ones((2, 6), np.float32), np.ones((5, 6), np.float32), np.ones((6, 4), np.float32)
    read, _ = called(compiled(UPDATED), x, y, w)
    np.testing.assert_array_equal(read[1:3], np.full((2, 4), -6))
    np.testing.assert_array_equal(read[3:], np.full((2, 4), 12))


def refused(program: str, folder: Path, target: str = "cpu:haswell", phase: str = "stream") -> str:
    """What the compiler says of a program that it fails on, in a process that may end by a signal."""
    source = folder / "program.mlir"
    source.write_text(program)
    command = [stock_tool("iree-compile"), source, *target_flags(target), f"--compile-to={phase}"]
    failed = subprocess.run([*command, "-o", folder / "out"], capture_output=True, text=True, check=False)
    assert failed.returncode != 0
    return failed.stderr


def test_the_size_of_a_result_is_lost_that_others_share(tmp_path: Path) -> None:
    """`winograd-reshape-returned`. Without the verifier the compiler ends by a signal."""
    nothing = kernel("k", "%a: !stream.binding, %b: !stream.binding", "")
    program = f"""{nothing}
      func.func private @two(%x: tensor<8x9xf32>) -> (tensor<8x9xf32>, tensor<8x9xf32>)
          attributes {{noinline}} {{
        %y = flow.dispatch @k::@k(%x) : (tensor<8x9xf32>) -> tensor<8x9xf32>
        %z = flow.dispatch @k::@k(%y) : (tensor<8x9xf32>) -> tensor<8x9xf32>
        return %y, %z : tensor<8x9xf32>, tensor<8x9xf32>
      }}
      func.func @main(%x: tensor<8x9xf32>) -> (tensor<8x9xf32>, tensor<8x9xf32>) {{
        %r:2 = call @two(%x) : (tensor<8x9xf32>) -> (tensor<8x9xf32>, tensor<8x9xf32>)
        %a = math.absf %r#0 : tensor<8x9xf32>
        %b = flow.dispatch @k::@k(%r#1) : (tensor<8x9xf32>) -> tensor<8x9xf32>
        return %a, %b : tensor<8x9xf32>, tensor<8x9xf32>
      }}"""
    assert "operand is unlinked" in refused(program, tmp_path)


def test_a_transposition_of_one_of_several_results_becomes_an_invalid_operation(tmp_path: Path) -> None:
    """`winograd-split-results`."""
    program = """
      #map = affine_map<(n, c, h, w) -> (n, c, h, w)>
      func.func @main(%x: tensor<1x4x6x7xf32>) -> (tensor<1x6x7x4xf32>, tensor<1x4x6x7xf32>) {
        %half = arith.constant 0.5 : f32
        %e = tensor.empty() : tensor<1x4x6x7xf32>
        %r:2 = linalg.generic {
          indexing_maps = [#map, #map, #map],
          iterator_types = ["parallel", "parallel", "parallel", "parallel"]
        } ins(%x : tensor<1x4x6x7xf32>) outs(%e, %e : tensor<1x4x6x7xf32>, tensor<1x4x6x7xf32>) {
        ^bb0(%a: f32, %o: f32, %p: f32):
          %s = arith.mulf %a, %a : f32
          %t = arith.addf %a, %half : f32
          linalg.yield %s, %t : f32, f32
        } -> (tensor<1x4x6x7xf32>, tensor<1x4x6x7xf32>)
        %f = tensor.empty() : tensor<1x6x7x4xf32>
        %y = linalg.transpose ins(%r#0 : tensor<1x4x6x7xf32>) outs(%f : tensor<1x6x7x4xf32>)
          permutation = [0, 2, 3, 1]
        return %y, %r#1 : tensor<1x6x7x4xf32>, tensor<1x4x6x7xf32>
      }"""
    assert "expected number of yield values (2)" in refused(program, tmp_path)


@pytest.mark.parametrize("target", ["cuda:sm_80", "hip:gfx1201"])
def test_one_tap_whose_filter_is_one_number_does_not_compile(target: str, tmp_path: Path) -> None:
    """`winograd-select-algorithm` doesn't leave such a layer."""
    program = """
      func.func @main(%x: tensor<1x7x7x512xf32>) -> tensor<1x7x7x2048xf32> {
        %w = arith.constant dense<0.5> : tensor<1x1x512x2048xf32>
        %zero = arith.constant 0.0 : f32
        %e = tensor.empty() : tensor<1x7x7x2048xf32>
        %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x7x7x2048xf32>) -> tensor<1x7x7x2048xf32>
        %r = linalg.conv_2d_nhwc_hwcf
          ins(%x, %w : tensor<1x7x7x512xf32>, tensor<1x1x512x2048xf32>)
          outs(%z : tensor<1x7x7x2048xf32>) -> tensor<1x7x7x2048xf32>
        return %r : tensor<1x7x7x2048xf32>
      }"""
    assert "failed to distribute" in refused(program, tmp_path, target, "executable-targets")


def test_a_part_of_an_argument_is_moved_within_it() -> None:
    """Over what is still to be read; workers refuse to. Layouts leave such slices alone."""
    program = """
      func.func @main(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
        %s = tensor.extract_slice %x[0, 0] [3, 64] [1, 1] : tensor<4x64xf32> to tensor<3x64xf32>
        %r = tensor.insert_slice %s into %x[1, 0] [3, 64] [1, 1] : tensor<3x64xf32> into tensor<4x64xf32>
        return %r : tensor<4x64xf32>
      }"""
    with pytest.raises(ValueError, match="source and target ranges must not overlap within the same buffer"):
        called(compiled(program), np.zeros((4, 64), np.float32), device=workers(2))


def test_the_larger_of_a_nan_and_a_number_is_the_number_for_sm_90a() -> None:
    """`winograd-keep-nan`."""
    program = """
      func.func @main(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> {
        %r = arith.maximumf %x, %y : tensor<64xf32>
        return %r : tensor<64xf32>
      }"""
    instructions = [
        re.findall(rb"max\.[\w.]*f32", compiled(program, target)) for target in ("cuda:sm_80", "cuda:sm_90a")
    ]
    assert instructions == [[b"max.NaN.f32"], [b"max.f32"]]


def test_half_numbers_are_read_as_if_they_had_32_bits() -> None:
    """`winograd-admit-shorts`: by the target for any GPU through Vulkan, whose storage has 32 bits alone."""
    program = """
      func.func @main(%x: tensor<64x64xf16>) -> tensor<64x64xf32> {
        %r = arith.extf %x : tensor<64x64xf16> to tensor<64x64xf32>
        return %r : tensor<64x64xf32>
      }"""
    kernel_text = text_after("executable-targets", program, "vulkan")
    arrays = re.findall(
        r"GlobalVariable @__resource_var\w+ bind\(0, \d\) : .*rtarray<(.*?)> \[0\]", kernel_text
    )
    assert arrays == ["vector<4xf32>, stride=16"] * 2, "of its argument and of its result"


def test_a_reduction_is_fused_with_what_reads_it_many_times() -> None:
    """`winograd-separate-reductions`: for Vulkan no barrier is between."""
    program = """
      func.func @main(%x: tensor<20x16xf32>) -> tensor<20x16xf32> {
        %e = tensor.empty() : tensor<20x16xf32>
        %r = linalg.softmax dimension(1) ins(%x : tensor<20x16xf32>) outs(%e : tensor<20x16xf32>)
          -> tensor<20x16xf32>
        return %r : tensor<20x16xf32>
      }"""
    assert text_after("flow", program, "vulkan").count("flow.dispatch @") == 1


def test_a_transposition_is_fused_with_a_convolution() -> None:
    """`winograd-separate-transpositions`: the loops then follow the order of before, which is slow."""
    program = """
      func.func @main(%x: tensor<1x8x6x6xi8>, %w: tensor<3x3x8x4xi8>, %i: tensor<1x4x4x4xi32>)
          -> tensor<1x4x4x4xi32> {
        %e = tensor.empty() : tensor<1x6x6x8xi8>
        %t = linalg.transpose ins(%x : tensor<1x8x6x6xi8>) outs(%e : tensor<1x6x6x8xi8>)
          permutation = [0, 2, 3, 1]
        %y = linalg.conv_2d_nhwc_hwcf ins(%t, %w : tensor<1x6x6x8xi8>, tensor<3x3x8x4xi8>)
          outs(%i : tensor<1x4x4x4xi32>) -> tensor<1x4x4x4xi32>
        return %y : tensor<1x4x4x4xi32>
      }"""
    assert text_after("flow", program, "cpu").count("flow.dispatch @") == 1


def test_sums_of_five_subgroups_are_for_two_lanes_to_add() -> None:
    """`winograd-reduce-by-lanes`."""
    program = """
      func.func @main(%x: tensor<2x64x32x40xf32>) -> tensor<2x32xf32> {
        %zero = arith.constant 0.0 : f32
        %e = tensor.empty() : tensor<2x32xf32>
        %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x32xf32>) -> tensor<2x32xf32>
        %r = linalg.generic {
          indexing_maps = [affine_map<(n, g, p, c) -> (n, p, g, c)>, affine_map<(n, g, p, c) -> (n, g)>],
          iterator_types = ["parallel", "parallel", "reduction", "reduction"]
        } ins(%x : tensor<2x64x32x40xf32>) outs(%z : tensor<2x32xf32>) {
        ^bb0(%a: f32, %b: f32):
          %s = arith.addf %a, %b : f32
          linalg.yield %s : f32
        } -> tensor<2x32xf32>
        return %r : tensor<2x32xf32>
      }"""
    text = text_after("executable-configurations", program, "cuda:sm_80")
    assert "lane_basis = [[1, 1, 1, 2], [0, 1, 2, 3]]" in text
    assert "subgroup_basis = [[1, 1, 1, 5], [0, 1, 2, 3]]" in text


def test_loops_of_unknown_lengths_are_divided_by_64() -> None:
    """`winograd-distribute-rows`."""
    program = """
      func.func @main(%x: tensor<?x?x32xf32>, %y: tensor<?x?x64xf32>) -> tensor<?x?x64xf32> {
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %h = tensor.dim %x, %zero : tensor<?x?x32xf32>
        %w = tensor.dim %x, %one : tensor<?x?x32xf32>
        %r = tensor.insert_slice %x into %y[0, 0, 32] [%h, %w, 32] [1, 1, 1]
               : tensor<?x?x32xf32> into tensor<?x?x64xf32>
        return %r : tensor<?x?x64xf32>
      }"""
    assert "distribution = [64, 64, " in text_after("executable-configurations", program, "cpu")
