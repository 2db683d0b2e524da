// RUN: winograd-opt --winograd-convert-matmul --split-input-file %s | filecheck %s


// A fully connected layer: rows are elements of a line of inputs. The convolution has its annotations.
// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1 + d4, d3)>
// CHECK-DAG: #[[TAPS_MAP:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d4, d3, d2)>
// CHECK-LABEL: @fully_connected
// CHECK-SAME: (%[[X:.*]]: tensor<3x512xf32>, %[[W:.*]]: tensor<512x256xf32>)
// CHECK-DAG: %[[LINE:.*]] = tensor.expand_shape %[[X]] {{\[}}[0, 1], [2]] output_shape [1, 3, 512]
// CHECK-DAG: %[[TAPS:.*]] = tensor.expand_shape %[[W]] {{\[}}[0, 1], [2]] output_shape [1, 512, 256]
// CHECK: %[[SUMS:.*]] = linalg.generic {indexing_maps = [#[[IMAGE]], #[[TAPS_MAP]], {{.*}} ins(%[[LINE]], %[[TAPS]]
// CHECK-SAME: winograd.algorithm = {output_tile = array<i64: 1>, part_size = array<i64: 1>}
// CHECK-SAME: winograd.schedule = {kind = "direct"}
// CHECK: %[[R:.*]] = tensor.collapse_shape %[[SUMS]] {{\[}}[0, 1], [2]] : tensor<1x3x256xf32> into tensor<3x256xf32>
// CHECK: return %[[R]]
func.func @fully_connected(%x: tensor<3x512xf32>, %w: tensor<512x256xf32>) -> tensor<3x256xf32> {
  %zero = arith.constant 0.0 : f32
  %o = tensor.empty() : tensor<3x256xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<3x256xf32>) -> tensor<3x256xf32>
  %r = linalg.matmul {winograd.algorithm = {output_tile = array<i64: 1>, part_size = array<i64: 1>}, winograd.schedule = {kind = "direct"}}
    ins(%x, %w : tensor<3x512xf32>, tensor<512x256xf32>) outs(%f : tensor<3x256xf32>) -> tensor<3x256xf32>
  return %r : tensor<3x256xf32>
}

// -----

// Rows that were the pixels of an image stay so; what is computed of the product is computed of the image, a product of
// that included, and there is nothing to reshape.
// CHECK-LABEL: @pixels
// CHECK-SAME: (%[[X:.*]]: tensor<2x5x7x64xf32>, %[[W:.*]]: tensor<64x32xf32>, %[[V:.*]]: tensor<32x16xf32>, %[[BIAS:.*]]: tensor<32xf32>, %[[Y:.*]]: tensor<70x32xf32>)
// CHECK-DAG: %[[TAPS:.*]] = tensor.expand_shape %[[W]] {{\[}}[0, 1, 2], [3]] output_shape [1, 1, 64, 32]
// CHECK: %[[SUMS:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[TAPS]]
// CHECK: %[[OTHER:.*]] = tensor.expand_shape %[[Y]] {{\[}}[0, 1, 2], [3]] output_shape [2, 5, 7, 32]
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[SUMS]], %[[BIAS]], %[[OTHER]]
// CHECK-DAG: %[[TAPS2:.*]] = tensor.expand_shape %[[V]] {{\[}}[0, 1, 2], [3]] output_shape [1, 1, 32, 16]
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[S]], %[[TAPS2]]
// CHECK: return %[[R]] : tensor<2x5x7x16xf32>
func.func @pixels(%x: tensor<2x5x7x64xf32>, %w: tensor<64x32xf32>, %v: tensor<32x16xf32>, %bias: tensor<32xf32>, %y: tensor<70x32xf32>)
    -> tensor<2x5x7x16xf32> {
  %zero = arith.constant 0.0 : f32
  %rows = tensor.collapse_shape %x [[0, 1, 2], [3]] : tensor<2x5x7x64xf32> into tensor<70x64xf32>
  %o = tensor.empty() : tensor<70x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<70x32xf32>) -> tensor<70x32xf32>
  %p = linalg.matmul {winograd.algorithm = {output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>}}
    ins(%rows, %w : tensor<70x64xf32>, tensor<64x32xf32>) outs(%f : tensor<70x32xf32>) -> tensor<70x32xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%p, %bias, %y : tensor<70x32xf32>, tensor<32xf32>, tensor<70x32xf32>) outs(%o : tensor<70x32xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %out: f32):
    %t = arith.addf %a, %b : f32
    %u = arith.mulf %t, %c : f32
    linalg.yield %u : f32
  } -> tensor<70x32xf32>
  %o2 = tensor.empty() : tensor<70x16xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%o2 : tensor<70x16xf32>) -> tensor<70x16xf32>
  %q = linalg.matmul {winograd.algorithm = {output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>}}
    ins(%s, %v : tensor<70x32xf32>, tensor<32x16xf32>) outs(%f2 : tensor<70x16xf32>) -> tensor<70x16xf32>
  %r = tensor.expand_shape %q [[0, 1, 2], [3]] output_shape [2, 5, 7, 16] : tensor<70x16xf32> into tensor<2x5x7x16xf32>
  return %r : tensor<2x5x7x16xf32>
}

// -----

// Rows of windows are a line. What is computed of the windows is computed of it, before they are split.
// CHECK-LABEL: @windows
// CHECK-SAME: (%[[X:.*]]: tensor<294x96xf32>, %[[W:.*]]: tensor<96x32xf32>, %[[BIAS:.*]]: tensor<32xf32>, %[[Y:.*]]: tensor<6x49x32xf32>)
// CHECK: %[[LINE:.*]] = tensor.expand_shape {{.*}} output_shape [1, 294, 96]
// CHECK: %[[SUMS:.*]] = linalg.generic {{.*}} ins(%[[LINE]]
// CHECK: %[[ROWS:.*]] = tensor.collapse_shape %[[Y]] {{\[}}[0, 1], [2]]
// CHECK: %[[OTHER:.*]] = tensor.expand_shape %[[ROWS]] {{\[}}[0, 1], [2]] output_shape [1, 294, 32]
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[SUMS]], %[[BIAS]], %[[OTHER]]
// CHECK: %[[R:.*]] = tensor.expand_shape {{.*}} output_shape [6, 49, 32]
// CHECK: return %[[R]] : tensor<6x49x32xf32>
func.func @windows(%x: tensor<294x96xf32>, %w: tensor<96x32xf32>, %bias: tensor<32xf32>, %y: tensor<6x49x32xf32>)
    -> tensor<6x49x32xf32> {
  %zero = arith.constant 0.0 : f32
  %o = tensor.empty() : tensor<294x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<294x32xf32>) -> tensor<294x32xf32>
  %p = linalg.matmul {winograd.algorithm = {output_tile = array<i64: 1>, part_size = array<i64: 1>}}
    ins(%x, %w : tensor<294x96xf32>, tensor<96x32xf32>) outs(%f : tensor<294x32xf32>) -> tensor<294x32xf32>
  %split = tensor.expand_shape %p [[0, 1], [2]] output_shape [6, 49, 32] : tensor<294x32xf32> into tensor<6x49x32xf32>
  %o2 = tensor.empty() : tensor<6x49x32xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(w, i, j) -> (w, i, j)>, affine_map<(w, i, j) -> (j)>, affine_map<(w, i, j) -> (w, i, j)>,
      affine_map<(w, i, j) -> (w, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%split, %bias, %y : tensor<6x49x32xf32>, tensor<32xf32>, tensor<6x49x32xf32>) outs(%o2 : tensor<6x49x32xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %out: f32):
    %t = arith.addf %a, %b : f32
    %u = arith.addf %t, %c : f32
    linalg.yield %u : f32
  } -> tensor<6x49x32xf32>
  return %r : tensor<6x49x32xf32>
}

// -----

// Without an annotation it stays as it is.
// CHECK-LABEL: @left
// CHECK: linalg.matmul
// CHECK-NOT: linalg.generic
func.func @left(%x: tensor<3x512xf32>, %w: tensor<512x256xf32>) -> tensor<3x256xf32> {
  %zero = arith.constant 0.0 : f32
  %o = tensor.empty() : tensor<3x256xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<3x256xf32>) -> tensor<3x256xf32>
  %r = linalg.matmul ins(%x, %w : tensor<3x512xf32>, tensor<512x256xf32>) outs(%f : tensor<3x256xf32>) -> tensor<3x256xf32>
  return %r : tensor<3x256xf32>
}
