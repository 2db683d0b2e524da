// RUN: winograd-opt --winograd-convert-weight-gradient --winograd-fuse-pad --winograd-verify --split-input-file %s | filecheck %s

// The transposes of F(4, 3)'s transforms, and a product that sums over the tiles of both images. Padding stays with images.
// CHECK-DAG: #[[LEFT:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3, d1)>
// CHECK-DAG: #[[RIGHT:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>
// CHECK-LABEL: @channels_last
// CHECK-SAME: (%[[X:.*]]: tensor<2x9x8xf32>, %[[Y:.*]]: tensor<2x9x4xf32>)
// CHECK: %[[V:.*]] = "winograd.input_transform"(%[[X]])
// CHECK-SAME: padding_high = array<i64: 1>, padding_low = array<i64: 1>
// CHECK-SAME: -> tensor<6x6x8xf32>
// CHECK: %[[Z:.*]] = "winograd.gradient_transform"(%[[Y]])
// CHECK-SAME: (tensor<2x9x4xf32>) -> tensor<6x6x4xf32>
// CHECK: %[[M:.*]] = linalg.batch_matmul indexing_maps = [#[[LEFT]], #[[RIGHT]], {{.*}}] {winograd.origin = {{.*}}} ins(%[[V]], %[[Z]] : {{.*}}) {{.*}} -> tensor<6x8x4xf32>
// CHECK: %[[W:.*]] = "winograd.filter_gradient"(%[[M]])
// CHECK-SAME: (tensor<6x8x4xf32>) -> tensor<3x8x4xf32>
// CHECK: return %[[W]]
#image = affine_map<(k, c, r, n, o) -> (n, o + r, c)>
#gradient = affine_map<(k, c, r, n, o) -> (n, o, k)>
#filter = affine_map<(k, c, r, n, o) -> (r, c, k)>
func.func @channels_last(%x: tensor<2x9x8xf32>, %y: tensor<2x9x4xf32>) -> tensor<3x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 1, 0] high[0, 1, 0] {
  ^bb0(%i: index, %j: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<2x9x8xf32> to tensor<2x11x8xf32>
  %e = tensor.empty() : tensor<3x8x4xf32>
  %w = linalg.fill ins(%zero : f32) outs(%e : tensor<3x8x4xf32>) -> tensor<3x8x4xf32>
  %r = linalg.generic {indexing_maps = [#image, #gradient, #filter],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%p, %y : tensor<2x11x8xf32>, tensor<2x9x4xf32>) outs(%w : tensor<3x8x4xf32>)
    attrs = {winograd.algorithm = {output_tile = array<i64: 4>, part_size = array<i64: 3>}} {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %m = arith.mulf %a, %b : f32
    %t = arith.addf %s, %m : f32
    linalg.yield %t : f32
  } -> tensor<3x8x4xf32>
  return %r : tensor<3x8x4xf32>
}

// -----

// As torch has them, images and the gradient are transposed. Of stride 2 the phases are views: columns of the product.
// CHECK-LABEL: @strided
// CHECK: "winograd.input_transform"
// CHECK-SAME: step = array<i64: 2>, views = [array<i64: 0>, array<i64: 1>]
// CHECK-SAME: (tensor<2x9x8xf32>) -> tensor<5x2x16xf32>
// CHECK: "winograd.gradient_transform"
// CHECK: linalg.batch_matmul {{.*}} -> tensor<5x16x4xf32>
// CHECK: %[[W:.*]] = "winograd.filter_gradient"
// CHECK: linalg.transpose ins(%[[W]] : tensor<3x8x4xf32>) {{.*}} permutation = [2, 1, 0]
#image = affine_map<(k, c, r, n, o) -> (n, c, o * 2 + r)>
#gradient = affine_map<(k, c, r, n, o) -> (n, k, o)>
#filter = affine_map<(k, c, r, n, o) -> (k, c, r)>
func.func @strided(%x: tensor<2x8x9xf32>, %y: tensor<2x4x4xf32>) -> tensor<4x8x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8x3xf32>
  %w = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8x3xf32>) -> tensor<4x8x3xf32>
  %r = linalg.generic {indexing_maps = [#image, #gradient, #filter],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %y : tensor<2x8x9xf32>, tensor<2x4x4xf32>) outs(%w : tensor<4x8x3xf32>)
    attrs = {winograd.algorithm = {output_tile = array<i64: 4>, part_size = array<i64: 2>}} {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %m = arith.mulf %a, %b : f32
    %t = arith.addf %s, %m : f32
    linalg.yield %t : f32
  } -> tensor<4x8x3xf32>
  return %r : tensor<4x8x3xf32>
}

// -----

// Without an algorithm it stays.
// CHECK-LABEL: @not_annotated
// CHECK-NOT: winograd
#image = affine_map<(k, c, r, n, o) -> (n, o + r, c)>
#gradient = affine_map<(k, c, r, n, o) -> (n, o, k)>
#filter = affine_map<(k, c, r, n, o) -> (r, c, k)>
func.func @not_annotated(%x: tensor<2x9x8xf32>, %y: tensor<2x7x4xf32>, %w: tensor<3x8x4xf32>) -> tensor<3x8x4xf32> {
  %r = linalg.generic {indexing_maps = [#image, #gradient, #filter],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%x, %y : tensor<2x9x8xf32>, tensor<2x7x4xf32>) outs(%w : tensor<3x8x4xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<3x8x4xf32>
  return %r : tensor<3x8x4xf32>
}
