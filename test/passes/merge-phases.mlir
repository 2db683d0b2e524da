// RUN: winograd-opt --winograd-merge-phases --split-input-file --verify-diagnostics %s
// RUN: winograd-opt --winograd-merge-phases --split-input-file %s 2>%t.err | filecheck %s

// Frames of 40 taps at every 16th output: an output meets three taps at most, and 16 neighbours the same elements.
// CHECK-DAG: #[[IN:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1 + d4, d3)>
// CHECK-DAG: #[[FILTER:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d4, d3, d2)>
// CHECK-LABEL: @frames
// CHECK-SAME: (%[[X:.*]]: tensor<?x8x5xf32>, %[[N:.*]]: index)
// CHECK: %[[P:.*]] = tensor.pad %[[X]] low[0, 0, 2] high[0, 0, 2]
// CHECK: %[[T:.*]] = linalg.transpose ins(%[[P]] : tensor<?x8x9xf32>) {{.*}} permutation = [0, 2, 1]
// CHECK: %[[W:.*]] = arith.constant dense_resource<phase_filter> : tensor<3x8x16xf32>
// CHECK: %[[Q:.*]] = linalg.generic {indexing_maps = [#[[IN]], #[[FILTER]],
// CHECK-SAME: ins(%[[T]], %[[W]] : tensor<?x9x8xf32>, tensor<3x8x16xf32>) outs(%{{.*}} : tensor<?x7x16xf32>)
// CHECK: tensor.expand_shape %[[Q]] {{.*}} : tensor<?x7x16xf32> into tensor<?x7x16x1xf32>
// CHECK: tensor.collapse_shape {{.*}} : tensor<?x7x16x1xf32> into tensor<?x112x1xf32>
// CHECK: %[[R:.*]] = tensor.extract_slice %{{.*}}[0, 0, 0] [%{{.*}}, 104, 1] [1, 1, 1]
// CHECK: return %{{.*}} : tensor<?x1x104xf32>
func.func @frames(%x: tensor<?x8x5xf32>, %n: index) -> tensor<?x1x104xf32> {
  %zero = arith.constant 0.0 : f32
  %w = arith.constant dense<1.0> : tensor<1x8x40xf32>
  %e = tensor.empty(%n) : tensor<?x8x143xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<?x8x143xf32>) -> tensor<?x8x143xf32>
  %z = tensor.insert_slice %x into %zeros[0, 0, 39] [%n, 8, 5] [1, 1, 16] : tensor<?x8x5xf32> into tensor<?x8x143xf32>
  %y = tensor.empty(%n) : tensor<?x1x104xf32>
  %init = linalg.fill ins(%zero : f32) outs(%y : tensor<?x1x104xf32>) -> tensor<?x1x104xf32>
  // expected-remark @below {{the phases of a transposed convolution became channels of one}}
  %r = linalg.conv_1d_ncw_fcw ins(%z, %w : tensor<?x8x143xf32>, tensor<1x8x40xf32>)
    outs(%init : tensor<?x1x104xf32>) -> tensor<?x1x104xf32>
  return %r : tensor<?x1x104xf32>
}

// -----

// Frames of 32 taps meet each output twice. Without the first 5 outputs these are of other phases: outputs are
// computed from the first one on, so that there are no more taps, and what the convolution is added to is added last.
// CHECK-LABEL: @cropped
// CHECK: arith.constant dense_resource<phase_filter> : tensor<2x8x64xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, 5, 0] [1, 60, 4] [1, 1, 1]
// CHECK: arith.addf
func.func @cropped(%x: tensor<1x5x8xf32>, %y: tensor<1x60x4xf32>) -> tensor<1x60x4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x91x8xf32>
  %w = arith.constant dense<1.0> : tensor<32x8x4xf32>
  %z = tensor.insert_slice %x into %zeros[0, 26, 0] [1, 5, 8] [1, 16, 1] : tensor<1x5x8xf32> into tensor<1x91x8xf32>
  // expected-remark @below {{the phases of a transposed convolution became channels of one}}
  %r = linalg.conv_1d_nwc_wcf ins(%z, %w : tensor<1x91x8xf32>, tensor<32x8x4xf32>)
    outs(%y : tensor<1x60x4xf32>) -> tensor<1x60x4xf32>
  return %r : tensor<1x60x4xf32>
}

// -----

// Short strides are left to phases of their own, and filters known only at run time.
// CHECK-LABEL: @left
// CHECK-NOT: phase_filter
// CHECK-COUNT-2: linalg.conv_1d_nwc_wcf
func.func @left(%x: tensor<1x5x8xf32>, %v: tensor<32x8x4xf32>, %y: tensor<1x10x4xf32>, %y16: tensor<1x64x4xf32>)
    -> (tensor<1x10x4xf32>, tensor<1x64x4xf32>) {
  %zeros = arith.constant dense<0.0> : tensor<1x11x8xf32>
  %zeros16 = arith.constant dense<0.0> : tensor<1x95x8xf32>
  %w = arith.constant dense<1.0> : tensor<2x8x4xf32>
  %z = tensor.insert_slice %x into %zeros[0, 1, 0] [1, 5, 8] [1, 2, 1] : tensor<1x5x8xf32> into tensor<1x11x8xf32>
  %r = linalg.conv_1d_nwc_wcf ins(%z, %w : tensor<1x11x8xf32>, tensor<2x8x4xf32>)
    outs(%y : tensor<1x10x4xf32>) -> tensor<1x10x4xf32>
  %z16 = tensor.insert_slice %x into %zeros16[0, 30, 0] [1, 5, 8] [1, 16, 1] : tensor<1x5x8xf32> into tensor<1x95x8xf32>
  // expected-remark @below {{its filter is not a constant}}
  %s = linalg.conv_1d_nwc_wcf ins(%z16, %v : tensor<1x95x8xf32>, tensor<32x8x4xf32>)
    outs(%y16 : tensor<1x64x4xf32>) -> tensor<1x64x4xf32>
  return %r, %s : tensor<1x10x4xf32>, tensor<1x64x4xf32>
}
