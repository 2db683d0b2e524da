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
// CHECK: %[[M:.*]] = linalg.batch_matmul {{.*}}ins(%[[V]], %[[U]] : {{.*}}) outs(%[[ZEROS]] : {{.*}})
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

// -----

// Groups are products of their own; their channels are merged, which undoes how images were split for the convolution.
// CHECK-LABEL: @groups
// CHECK-SAME: (%[[X:.*]]: tensor<1x6x8xf32>, %[[W:.*]]: tensor<3x2x4x3xf32>, %[[Y:.*]]: tensor<1x4x12xf32>)
// CHECK: %[[WM:.*]] = tensor.collapse_shape %[[W]] {{.*}} into tensor<3x2x12xf32>
// CHECK: "winograd.filter_transform"(%[[WM]]) {{.*}}groups = 4 : i64{{.*}} -> tensor<16x2x3xf32>
// CHECK: "winograd.input_transform"(%[[X]]) {{.*}}groups = 4 : i64{{.*}} -> tensor<16x2x2xf32>
// CHECK: linalg.batch_matmul {{.*}} -> tensor<16x2x3xf32>
// CHECK: %[[R:.*]] = "winograd.output_transform"(%{{.*}}, %[[Y]])
// CHECK: -> tensor<1x4x12xf32>
// CHECK: return %[[R]]
func.func @groups(%x: tensor<1x6x8xf32>, %w: tensor<3x2x4x3xf32>, %y: tensor<1x4x12xf32>) -> tensor<1x4x12xf32> {
  %xg = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [1, 6, 4, 2] : tensor<1x6x8xf32> into tensor<1x6x4x2xf32>
  %yg = tensor.expand_shape %y [[0], [1], [2, 3]] output_shape [1, 4, 4, 3] : tensor<1x4x12xf32> into tensor<1x4x4x3xf32>
  // expected-remark @below {{convolution 0 (3, 8 to 12 channels in 4 groups) became F(2, 3)}}
  %c = linalg.generic {
    indexing_maps = [affine_map<(n, o, g, f, c, r) -> (n, o + r, g, c)>, affine_map<(n, o, g, f, c, r) -> (r, c, g, f)>,
                     affine_map<(n, o, g, f, c, r) -> (n, o, g, f)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%xg, %w : tensor<1x6x4x2xf32>, tensor<3x2x4x3xf32>) outs(%yg : tensor<1x4x4x3xf32>)
    attrs = {winograd.algorithm = {output_tile = array<i64: 2>, part_size = array<i64: 3>}} {
  ^bb0(%in: f32, %weight: f32, %out: f32):
    %product = arith.mulf %in, %weight : f32
    %sum = arith.addf %out, %product : f32
    linalg.yield %sum : f32
  } -> tensor<1x4x4x3xf32>
  %r = tensor.collapse_shape %c [[0], [1], [2, 3]] : tensor<1x4x4x3xf32> into tensor<1x4x12xf32>
  return %r : tensor<1x4x12xf32>
}

// -----

// A depthwise convolution has as many groups as channels.
// CHECK-LABEL: @depthwise
// CHECK: "winograd.filter_transform"(%{{.*}}) {{.*}}groups = 8 : i64{{.*}} : (tensor<3x3x1x8xf32>) -> tensor<128x1x1xf32>
// CHECK: "winograd.input_transform"(%{{.*}}) {{.*}}groups = 8 : i64{{.*}} -> tensor<128x9x1xf32>
func.func @depthwise(%x: tensor<1x8x8x8xf32>, %w: tensor<3x3x8xf32>, %y: tensor<1x6x6x8xf32>) -> tensor<1x6x6x8xf32> {
  // expected-remark @below {{convolution 0 (3x3, 8 to 8 channels in 8 groups) became F(2x2, 3x3)}}
  %r = linalg.depthwise_conv_2d_nhwc_hwc {
      winograd.algorithm = {output_tile = array<i64: 2, 2>, part_size = array<i64: 3, 3>}}
    ins(%x, %w : tensor<1x8x8x8xf32>, tensor<3x3x8xf32>) outs(%y : tensor<1x6x6x8xf32>) -> tensor<1x6x6x8xf32>
  return %r : tensor<1x6x6x8xf32>
}

// -----

// An epilogue reads channels innermost only: of what is broadcast from a tensor with other channels, the whole is read.
// CHECK-DAG: #[[ALL:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-LABEL: @init_with_channels_outermost
// CHECK: %[[INIT:.*]] = linalg.generic
// CHECK: "winograd.output_transform"(%{{.*}}, %[[INIT]])
// CHECK: indexing_maps = [#[[ALL]]]
func.func @init_with_channels_outermost(%x: tensor<1x6x8xf32>, %w: tensor<3x8x4xf32>, %b: tensor<4x4xf32>) -> tensor<1x4x4xf32> {
  %e = tensor.empty() : tensor<1x4x4xf32>
  %init = linalg.generic {
    indexing_maps = [affine_map<(n, o, k) -> (k, o)>, affine_map<(n, o, k) -> (n, o, k)>],
    iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%b : tensor<4x4xf32>) outs(%e : tensor<1x4x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<1x4x4xf32>
  // expected-remark @below {{became F(2, 3)}}
  %r = linalg.conv_1d_nwc_wcf {winograd.algorithm = {output_tile = array<i64: 2>, part_size = array<i64: 3>}}
    ins(%x, %w : tensor<1x6x8xf32>, tensor<3x8x4xf32>) outs(%init : tensor<1x4x4xf32>) -> tensor<1x4x4xf32>
  return %r : tensor<1x4x4xf32>
}
