// RUN: winograd-opt --winograd-split-pooling --split-input-file %s 2>%t.err | filecheck %s
// RUN: winograd-opt --winograd-split-pooling --split-input-file --verify-diagnostics %s

// Planes are pooled first, and then rows of a plane's pixels.
// CHECK-LABEL: @all_dimensions
// CHECK-SAME: (%[[X:.*]]: tensor<2x9x11x13x16xf32>)
// CHECK: %[[PLANES:.*]] = tensor.collapse_shape %[[X]] {{.*}} into tensor<18x11x13x16xf32>
// CHECK: %[[WITHIN:.*]] = linalg.pooling_nhwc_max {dilations = dense<1> : {{.*}}, strides = dense<2> : {{.*}}}
// CHECK-SAME: ins(%[[PLANES]], %{{.*}} : tensor<18x11x13x16xf32>, tensor<3x3xf32>)
// CHECK-SAME: -> tensor<18x5x6x16xf32>
// CHECK: %[[ROWS:.*]] = tensor.collapse_shape {{.*}} into tensor<2x9x30x16xf32>
// CHECK: %[[ACROSS:.*]] = linalg.pooling_nhwc_max {dilations = dense<[2, 1]> : {{.*}}, strides = dense<[3, 1]> : {{.*}}}
// CHECK-SAME: ins(%[[ROWS]], %{{.*}} : tensor<2x9x30x16xf32>, tensor<2x1xf32>)
// CHECK: tensor.expand_shape %[[ACROSS]] {{.*}} into tensor<2x3x5x6x16xf32>
func.func @all_dimensions(%x: tensor<2x9x11x13x16xf32>) -> tensor<2x3x5x6x16xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %w = tensor.empty() : tensor<2x3x3xf32>
  %e = tensor.empty() : tensor<2x3x5x6x16xf32>
  %f = linalg.fill ins(%lowest : f32) outs(%e : tensor<2x3x5x6x16xf32>) -> tensor<2x3x5x6x16xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(n, d, h, w, c, i, j, k) -> (n, d * 3 + i * 2, h * 2 + j, w * 2 + k, c)>,
                     affine_map<(n, d, h, w, c, i, j, k) -> (i, j, k)>,
                     affine_map<(n, d, h, w, c, i, j, k) -> (n, d, h, w, c)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]
  } ins(%x, %w : tensor<2x9x11x13x16xf32>, tensor<2x3x3xf32>) outs(%f : tensor<2x3x5x6x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.maximumf %a, %o : f32
    linalg.yield %m : f32
  } -> tensor<2x3x5x6x16xf32>
  return %r : tensor<2x3x5x6x16xf32>
}

// -----

// Windows within planes, or across them, are pooled once.
// CHECK-LABEL: @within_planes
// CHECK-COUNT-1: linalg.pooling_nhwc_max
// CHECK-NOT: linalg.pooling
// CHECK-LABEL: @across_planes
// CHECK-COUNT-1: linalg.pooling_nhwc_max
// CHECK-NOT: linalg.pooling
func.func @within_planes(%x: tensor<1x8x28x28x16xf32>) -> tensor<1x8x14x14x16xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %w = tensor.empty() : tensor<1x2x2xf32>
  %e = tensor.empty() : tensor<1x8x14x14x16xf32>
  %f = linalg.fill ins(%lowest : f32) outs(%e : tensor<1x8x14x14x16xf32>) -> tensor<1x8x14x14x16xf32>
  %r = linalg.pooling_ndhwc_max {dilations = dense<1> : vector<3xi64>, strides = dense<[1, 2, 2]> : vector<3xi64>}
    ins(%x, %w : tensor<1x8x28x28x16xf32>, tensor<1x2x2xf32>) outs(%f : tensor<1x8x14x14x16xf32>) -> tensor<1x8x14x14x16xf32>
  return %r : tensor<1x8x14x14x16xf32>
}
func.func @across_planes(%x: tensor<1x8x7x7x16xf32>) -> tensor<1x4x7x7x16xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %w = tensor.empty() : tensor<2x1x1xf32>
  %e = tensor.empty() : tensor<1x4x7x7x16xf32>
  %f = linalg.fill ins(%lowest : f32) outs(%e : tensor<1x4x7x7x16xf32>) -> tensor<1x4x7x7x16xf32>
  %r = linalg.pooling_ndhwc_max {dilations = dense<1> : vector<3xi64>, strides = dense<[2, 1, 1]> : vector<3xi64>}
    ins(%x, %w : tensor<1x8x7x7x16xf32>, tensor<2x1x1xf32>) outs(%f : tensor<1x4x7x7x16xf32>) -> tensor<1x4x7x7x16xf32>
  return %r : tensor<1x4x7x7x16xf32>
}

// -----

// Sums, images of unknown size and maxima that begin with those of something else stay.
// CHECK-LABEL: @others
// CHECK: linalg.pooling_ndhwc_sum
// CHECK-COUNT-2: linalg.pooling_ndhwc_max
func.func @others(%x: tensor<1x8x7x7x16xf32>, %y: tensor<?x8x7x7x16xf32>, %of_y: tensor<?x4x7x7x16xf32>, %init: tensor<1x4x7x7x16xf32>)
    -> (tensor<1x4x7x7x16xf32>, tensor<?x4x7x7x16xf32>, tensor<1x4x7x7x16xf32>) {
  %w = tensor.empty() : tensor<2x1x1xf32>
  %sum = linalg.pooling_ndhwc_sum {dilations = dense<1> : vector<3xi64>, strides = dense<[2, 1, 1]> : vector<3xi64>}
    ins(%x, %w : tensor<1x8x7x7x16xf32>, tensor<2x1x1xf32>) outs(%init : tensor<1x4x7x7x16xf32>) -> tensor<1x4x7x7x16xf32>
  // expected-remark @below {{linalg.pooling_ndhwc_max left as it is: its sizes are known only at run time}}
  %dynamic = linalg.pooling_ndhwc_max {dilations = dense<1> : vector<3xi64>, strides = dense<[2, 1, 1]> : vector<3xi64>}
    ins(%y, %w : tensor<?x8x7x7x16xf32>, tensor<2x1x1xf32>) outs(%of_y : tensor<?x4x7x7x16xf32>) -> tensor<?x4x7x7x16xf32>
  // expected-remark @below {{linalg.pooling_ndhwc_max left as it is: it begins with more than one number}}
  %more = linalg.pooling_ndhwc_max {dilations = dense<1> : vector<3xi64>, strides = dense<[2, 1, 1]> : vector<3xi64>}
    ins(%x, %w : tensor<1x8x7x7x16xf32>, tensor<2x1x1xf32>) outs(%init : tensor<1x4x7x7x16xf32>) -> tensor<1x4x7x7x16xf32>
  return %sum, %dynamic, %more : tensor<1x4x7x7x16xf32>, tensor<?x4x7x7x16xf32>, tensor<1x4x7x7x16xf32>
}
