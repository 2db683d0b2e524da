// RUN: winograd-opt --winograd-convert-weight-gradient --split-input-file --verify-diagnostics %s

#image = affine_map<(k, c, r, n, o) -> (n, o + r, c)>
#gradient = affine_map<(k, c, r, n, o) -> (n, o, k)>
#filter = affine_map<(k, c, r, n, o) -> (r, c, k)>
func.func @not_zero(%x: tensor<2x9x8xf32>, %y: tensor<2x7x4xf32>, %w: tensor<3x8x4xf32>) -> tensor<3x8x4xf32> {
  // expected-error @below {{an annotated gradient can't be converted by F(4, 3): its sums don't begin with zero}}
  %r = linalg.generic {indexing_maps = [#image, #gradient, #filter],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %y : tensor<2x9x8xf32>, tensor<2x7x4xf32>) outs(%w : tensor<3x8x4xf32>)
    attrs = {winograd.algorithm = {output_tile = array<i64: 4>, part_size = array<i64: 3>}} {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<3x8x4xf32>
  return %r : tensor<3x8x4xf32>
}

// -----

#image = affine_map<(k, c, r, n, o) -> (n, o + r, c)>
#gradient = affine_map<(k, c, r, n, o) -> (n, o, k)>
#filter = affine_map<(k, c, r, n, o) -> (r, c, k)>
func.func @rank(%x: tensor<2x9x8xf32>, %y: tensor<2x7x4xf32>) -> tensor<3x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x8x4xf32>
  %w = linalg.fill ins(%zero : f32) outs(%e : tensor<3x8x4xf32>) -> tensor<3x8x4xf32>
  // expected-error @below {{an annotated gradient can't be converted by F(4x4, 3x3): it has 1 dimensions}}
  %r = linalg.generic {indexing_maps = [#image, #gradient, #filter],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %y : tensor<2x9x8xf32>, tensor<2x7x4xf32>) outs(%w : tensor<3x8x4xf32>)
    attrs = {winograd.algorithm = {output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>}} {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<3x8x4xf32>
  return %r : tensor<3x8x4xf32>
}
