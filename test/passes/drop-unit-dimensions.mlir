// RUN: winograd-opt --winograd-drop-unit-dimensions --split-input-file %s | filecheck %s

// A depthwise convolution of a sound, as torch-mlir writes it: padding and reshapes go with the dimension.
// CHECK-DAG: #[[READ:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2 * 2 + d3)>
// CHECK-LABEL: @sound
// CHECK-SAME: (%[[X:.*]]: tensor<1x64x90xf32>, %[[W:.*]]: tensor<64x9x1xf32>)
// CHECK: %[[P:.*]] = tensor.pad %[[X]] low[0, 0, 4] high[0, 0, 3]
// CHECK: tensor<1x64x90xf32> to tensor<1x64x97xf32>
// CHECK: %[[V:.*]] = tensor.collapse_shape %[[W]] {{\[}}[0], [1, 2]]
// CHECK: %[[ZEROS:.*]] = linalg.fill {{.*}} -> tensor<1x64x45xf32>
// CHECK: %[[R:.*]] = linalg.generic {indexing_maps = [#[[READ]],
// CHECK-SAME: ins(%[[P]], %[[V]] : tensor<1x64x97xf32>, tensor<64x9xf32>) outs(%[[ZEROS]]
// CHECK: return %[[R]] : tensor<1x64x45xf32>
func.func @sound(%x: tensor<1x64x90xf32>, %w: tensor<64x9x1xf32>) -> tensor<1x64x45xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [1, 64, 90, 1] : tensor<1x64x90xf32> into tensor<1x64x90x1xf32>
  %p = tensor.pad %e low[0, 0, 4, 0] high[0, 0, 3, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<1x64x90x1xf32> to tensor<1x64x97x1xf32>
  %empty = tensor.empty() : tensor<1x64x45x1xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x64x45x1xf32>) -> tensor<1x64x45x1xf32>
  %c = linalg.depthwise_conv_2d_nchw_chw {dilations = dense<1> : vector<2xi64>, strides = dense<[2, 1]> : vector<2xi64>}
    ins(%p, %w : tensor<1x64x97x1xf32>, tensor<64x9x1xf32>) outs(%zeros : tensor<1x64x45x1xf32>) -> tensor<1x64x45x1xf32>
  %r = tensor.collapse_shape %c [[0], [1], [2, 3]] : tensor<1x64x45x1xf32> into tensor<1x64x45xf32>
  return %r : tensor<1x64x45xf32>
}

// -----

// A column of one element that is padded is a dimension like others, and one dimension has to be left.
// CHECK-LABEL: @kept
// CHECK: linalg.conv_2d_nhwc_hwcf
// CHECK: linalg.conv_1d_nwc_wcf
func.func @kept(%x: tensor<1x9x1x4xf32>, %w: tensor<3x3x4x8xf32>, %y: tensor<1x1x4xf32>, %v: tensor<1x4x8xf32>)
    -> (tensor<1x7x1x8xf32>, tensor<1x1x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 0, 1, 0] high[0, 0, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<1x9x1x4xf32> to tensor<1x9x3x4xf32>
  %empty = tensor.empty() : tensor<1x7x1x8xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x7x1x8xf32>) -> tensor<1x7x1x8xf32>
  %c = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%p, %w : tensor<1x9x3x4xf32>, tensor<3x3x4x8xf32>) outs(%zeros : tensor<1x7x1x8xf32>) -> tensor<1x7x1x8xf32>
  %other = tensor.empty() : tensor<1x1x8xf32>
  %more = linalg.fill ins(%zero : f32) outs(%other : tensor<1x1x8xf32>) -> tensor<1x1x8xf32>
  %d = linalg.conv_1d_nwc_wcf {dilations = dense<1> : vector<1xi64>, strides = dense<1> : vector<1xi64>}
    ins(%y, %v : tensor<1x1x4xf32>, tensor<1x4x8xf32>) outs(%more : tensor<1x1x8xf32>) -> tensor<1x1x8xf32>
  return %c, %d : tensor<1x7x1x8xf32>, tensor<1x1x8xf32>
}

// -----

// What is computed of the output is to become the convolution's epilogue, with no reshape in between.
// CHECK-LABEL: @excitation
// CHECK: linalg.conv_2d_nhwc_hwcf
// CHECK-NEXT: linalg.elementwise <tanh>
func.func @excitation(%x: tensor<1x1x1x32xf32>, %w: tensor<1x1x32x8xf32>) -> tensor<1x1x1x8xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x1x1x8xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x1x1x8xf32>) -> tensor<1x1x1x8xf32>
  %c = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%x, %w : tensor<1x1x1x32xf32>, tensor<1x1x32x8xf32>) outs(%zeros : tensor<1x1x1x8xf32>) -> tensor<1x1x1x8xf32>
  %r = linalg.elementwise <tanh> ins(%c : tensor<1x1x1x8xf32>) outs(%empty : tensor<1x1x1x8xf32>) -> tensor<1x1x1x8xf32>
  return %r : tensor<1x1x1x8xf32>
}
