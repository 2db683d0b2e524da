// RUN: winograd-opt --winograd-convert-conv --winograd-verify --split-input-file %s 2>%t.err | filecheck %s
// RUN: winograd-opt --winograd-convert-conv --split-input-file %s 2>%t.err | iree-opt --irdl-file=%S/../../dialect/winograd.irdl.mlir --split-input-file -o %t
// RUN: winograd-opt --winograd-convert-conv --split-input-file --verify-diagnostics %s

// Zeros are added to: the transforms and the product replace the convolution.
// CHECK-LABEL: @zeros
// CHECK-SAME: (%[[X:.*]]: tensor<1x16x16x8xf32>, %[[W:.*]]: tensor<3x3x8x4xf32>)
// CHECK: %[[U:.*]] = "winograd.filter_transform"(%[[W]])
// CHECK-SAME: output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>
// CHECK-SAME: -> tensor<36x8x4xf32>
// CHECK: %[[V:.*]] = "winograd.input_transform"(%[[X]])
// CHECK-SAME: padding_high = array<i64: 0, 0>, padding_low = array<i64: 0, 0>
// CHECK-SAME: -> tensor<36x16x8xf32>
// CHECK: %[[ZEROS:.*]] = linalg.fill {{.*}} -> tensor<36x16x4xf32>
// CHECK: %[[M:.*]] = linalg.batch_matmul ins(%[[V]], %[[U]] : {{.*}}) outs(%[[ZEROS]] : {{.*}})
// CHECK: %[[R:.*]] = "winograd.output_transform"(%[[M]])
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32):
// CHECK-NEXT: vector.yield %[[A]] : f32
// CHECK: return %[[R]]
func.func @zeros(%x: tensor<1x16x16x8xf32>, %w: tensor<3x3x8x4xf32>) -> tensor<1x14x14x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x14x14x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<1x14x14x4xf32>) -> tensor<1x14x14x4xf32>
  // expected-remark @below {{convolution 0 (3x3, 8 to 4 channels) became F(4x4, 3x3)}}
  %r = linalg.conv_2d_nhwc_hwcf {winograd.algorithm = {output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>}}
    ins(%x, %w : tensor<1x16x16x8xf32>, tensor<3x3x8x4xf32>)
    outs(%zeros : tensor<1x14x14x4xf32>) -> tensor<1x14x14x4xf32>
  return %r : tensor<1x14x14x4xf32>
}

// -----

// A bias, broadcast to the initial value, is added in the epilogue, read where it is. Tiles may be rectangular.
// CHECK-DAG: #[[CHANNEL:.*]] = affine_map<(d0, d1, d2, d3) -> (d3)>
// CHECK-LABEL: @bias
// CHECK-SAME: %[[BIAS:[a-z0-9]*]]: tensor<4xf32>)
// CHECK: "winograd.output_transform"(%{{.*}}, %[[BIAS]])
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32):
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[A]], %[[B]] : f32
// CHECK-NEXT: vector.yield %[[S]] : f32
// CHECK: indexing_maps = [#[[CHANNEL]]]
// CHECK-SAME: (tensor<24x28x4xf32>, tensor<4xf32>) -> tensor<1x14x14x4xf32>
func.func @bias(%x: tensor<1x16x16x8xf32>, %w: tensor<3x3x8x4xf32>, %bias: tensor<4xf32>) -> tensor<1x14x14x4xf32> {
  %e = tensor.empty() : tensor<1x14x14x4xf32>
  %b = linalg.broadcast ins(%bias : tensor<4xf32>) outs(%e : tensor<1x14x14x4xf32>) dimensions = [0, 1, 2]
  // expected-remark @below {{became F(2x4, 3x3)}}
  %r = linalg.conv_2d_nhwc_hwcf {winograd.algorithm = {output_tile = array<i64: 2, 4>, part_size = array<i64: 3, 3>}}
    ins(%x, %w : tensor<1x16x16x8xf32>, tensor<3x3x8x4xf32>)
    outs(%b : tensor<1x14x14x4xf32>) -> tensor<1x14x14x4xf32>
  return %r : tensor<1x14x14x4xf32>
}

// -----

// The number of tiles follows from that of the images where it is known only at run time.
// CHECK-LABEL: @dynamic_batch
// CHECK-SAME: (%[[X:.*]]: tensor<?x16x16x8xf32>,
// CHECK: "winograd.input_transform"(%[[X]]) {{.*}} -> tensor<36x?x8xf32>
// CHECK: %[[N:.*]] = tensor.dim %[[X]], %{{.*}}
// CHECK: %[[ROWS:.*]] = arith.muli %[[N]], %c4
// CHECK: %[[T:.*]] = arith.muli %[[ROWS]], %c4
// CHECK: tensor.empty(%[[T]]) : tensor<36x?x4xf32>
// CHECK: "winograd.output_transform"
// CHECK: -> tensor<?x14x14x4xf32>
func.func @dynamic_batch(%x: tensor<?x16x16x8xf32>, %w: tensor<3x3x8x4xf32>, %y: tensor<?x14x14x4xf32>)
    -> tensor<?x14x14x4xf32> {
  // expected-remark @below {{became F(4x4, 3x3)}}
  %r = linalg.conv_2d_nhwc_hwcf {winograd.algorithm = {output_tile = array<i64: 4, 4>, part_size = array<i64: 3, 3>}}
    ins(%x, %w : tensor<?x16x16x8xf32>, tensor<3x3x8x4xf32>)
    outs(%y : tensor<?x14x14x4xf32>) -> tensor<?x14x14x4xf32>
  return %r : tensor<?x14x14x4xf32>
}

// -----

// A convolution with strides and dilations is a sum over views.
// CHECK-LABEL: @views
// CHECK: "winograd.input_transform"
// CHECK-SAME: spacing = array<i64: 2>, step = array<i64: 2>, views = [array<i64: 0>, array<i64: 1>]
// CHECK-SAME: -> tensor<3x4x16xf32>
func.func @views(%x: tensor<1x17x8xf32>, %w: tensor<3x8x4xf32>, %y: tensor<1x8x4xf32>) -> tensor<1x8x4xf32> {
  // expected-remark @below {{convolution 0 (3, 8 to 4 channels) became F(2, 2)}}
  %r = linalg.conv_1d_nwc_wcf {strides = dense<2> : vector<1xi64>,
      winograd.algorithm = {output_tile = array<i64: 2>, part_size = array<i64: 2>}}
    ins(%x, %w : tensor<1x17x8xf32>, tensor<3x8x4xf32>) outs(%y : tensor<1x8x4xf32>) -> tensor<1x8x4xf32>
  return %r : tensor<1x8x4xf32>
}

// -----

// CHECK-LABEL: @not_annotated
// CHECK: linalg.conv_2d_nhwc_hwcf
// CHECK-NOT: winograd
func.func @not_annotated(%x: tensor<1x16x16x8xf32>, %w: tensor<3x3x8x4xf32>, %y: tensor<1x14x14x4xf32>)
    -> tensor<1x14x14x4xf32> {
  %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x16x16x8xf32>, tensor<3x3x8x4xf32>)
    outs(%y : tensor<1x14x14x4xf32>) -> tensor<1x14x14x4xf32>
  return %r : tensor<1x14x14x4xf32>
}
