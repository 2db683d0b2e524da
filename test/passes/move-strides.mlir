// RUN: winograd-opt --winograd-move-strides %s | filecheck %s

#identity = affine_map<(n, h, w, c) -> (n, h, w, c)>
#channel = affine_map<(n, h, w, c) -> (c)>

// The last block of a stage: its residual and its 3x3 convolution are computed where the next stage reads.
// CHECK-LABEL: func.func @stage
// CHECK-SAME: (%[[X:.*]]: tensor<2x17x16x8xf32>, %[[Y:.*]]: tensor<2x15x14x16xf32>
// CHECK: %[[U:.*]] = linalg.conv_2d_nhwc_hwcf {{.*}}strides = dense<2>{{.*}} ins(%[[X]], {{.*}} -> tensor<2x8x7x8xf32>
// CHECK: %[[C:.*]] = linalg.conv_2d_nhwc_hwcf {{.*}}strides = dense<1>{{.*}} ins(%[[U]], {{.*}} -> tensor<2x8x7x16xf32>
// CHECK: %[[P:.*]] = tensor.extract_slice %[[Y]][0, 0, 0, 0] [2, 8, 7, 16] [1, 2, 2, 1]
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[C]], %[[P]], %{{.*}} : tensor<2x8x7x16xf32>, tensor<2x8x7x16xf32>, tensor<16xf32>)
// CHECK: linalg.conv_2d_nhwc_hwcf {{.*}}strides = dense<1>{{.*}} ins(%[[R]], {{.*}} -> tensor<2x8x7x32xf32>
// CHECK: linalg.conv_2d_nhwc_hwcf {{.*}}strides = dense<1>{{.*}} ins(%[[R]], {{.*}} -> tensor<2x8x7x8xf32>
// CHECK-NOT: linalg.conv
func.func @stage(%x: tensor<2x17x16x8xf32>, %y: tensor<2x15x14x16xf32>, %b: tensor<16xf32>,
    %f: tensor<3x3x8x8xf32>, %g: tensor<1x1x8x16xf32>, %h: tensor<1x1x16x32xf32>, %i: tensor<1x1x16x8xf32>)
    -> (tensor<2x8x7x32xf32>, tensor<2x8x7x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<2x15x14x8xf32>
  %z0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<2x15x14x8xf32>) -> tensor<2x15x14x8xf32>
  %u = linalg.conv_2d_nhwc_hwcf ins(%x, %f : tensor<2x17x16x8xf32>, tensor<3x3x8x8xf32>) outs(%z0 : tensor<2x15x14x8xf32>) -> tensor<2x15x14x8xf32>
  %e1 = tensor.empty() : tensor<2x15x14x16xf32>
  %z1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<2x15x14x16xf32>) -> tensor<2x15x14x16xf32>
  %c = linalg.conv_2d_nhwc_hwcf ins(%u, %g : tensor<2x15x14x8xf32>, tensor<1x1x8x16xf32>) outs(%z1 : tensor<2x15x14x16xf32>) -> tensor<2x15x14x16xf32>
  %r = linalg.generic {indexing_maps = [#identity, #identity, #channel, #identity], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%c, %y, %b : tensor<2x15x14x16xf32>, tensor<2x15x14x16xf32>, tensor<16xf32>) outs(%e1 : tensor<2x15x14x16xf32>) {
  ^bb0(%p: f32, %q: f32, %s: f32, %unused: f32):
    %t = arith.addf %p, %q : f32
    %v = arith.addf %t, %s : f32
    linalg.yield %v : f32
  } -> tensor<2x15x14x16xf32>
  %e2 = tensor.empty() : tensor<2x8x7x32xf32>
  %z2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<2x8x7x32xf32>) -> tensor<2x8x7x32xf32>
  %k = linalg.conv_2d_nhwc_hwcf {strides = dense<2> : tensor<2xi64>} ins(%r, %h : tensor<2x15x14x16xf32>, tensor<1x1x16x32xf32>) outs(%z2 : tensor<2x8x7x32xf32>) -> tensor<2x8x7x32xf32>
  %e3 = tensor.empty() : tensor<2x8x7x8xf32>
  %z3 = linalg.fill ins(%zero : f32) outs(%e3 : tensor<2x8x7x8xf32>) -> tensor<2x8x7x8xf32>
  %l = linalg.conv_2d_nhwc_hwcf {strides = dense<2> : tensor<2xi64>} ins(%r, %i : tensor<2x15x14x16xf32>, tensor<1x1x16x8xf32>) outs(%z3 : tensor<2x8x7x8xf32>) -> tensor<2x8x7x8xf32>
  return %k, %l : tensor<2x8x7x32xf32>, tensor<2x8x7x8xf32>
}

// Something else reads all of it.
// CHECK-LABEL: func.func @read_elsewhere
// CHECK: linalg.conv_2d_nhwc_hwcf {{.*}} -> tensor<1x15x15x8xf32>
// CHECK: linalg.conv_2d_nhwc_hwcf {{.*}}strides = dense<2>
func.func @read_elsewhere(%x: tensor<1x15x15x8xf32>, %f: tensor<1x1x8x8xf32>) -> (tensor<1x8x8x8xf32>, tensor<1x15x15x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<1x15x15x8xf32>
  %z0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<1x15x15x8xf32>) -> tensor<1x15x15x8xf32>
  %c = linalg.conv_2d_nhwc_hwcf {strides = dense<1> : tensor<2xi64>} ins(%x, %f : tensor<1x15x15x8xf32>, tensor<1x1x8x8xf32>) outs(%z0 : tensor<1x15x15x8xf32>) -> tensor<1x15x15x8xf32>
  %e1 = tensor.empty() : tensor<1x8x8x8xf32>
  %z1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %d = linalg.conv_2d_nhwc_hwcf {strides = dense<2> : tensor<2xi64>} ins(%c, %f : tensor<1x15x15x8xf32>, tensor<1x1x8x8xf32>) outs(%z1 : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  return %d, %c : tensor<1x8x8x8xf32>, tensor<1x15x15x8xf32>
}

// A window of several pixels reads all rows.
// CHECK-LABEL: func.func @window
// CHECK: linalg.conv_2d_nhwc_hwcf {{.*}} -> tensor<1x15x15x8xf32>
// CHECK: linalg.conv_2d_nhwc_hwcf {{.*}}strides = dense<2>
func.func @window(%x: tensor<1x15x15x8xf32>, %f: tensor<1x1x8x8xf32>, %g: tensor<3x3x8x8xf32>) -> tensor<1x7x7x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<1x15x15x8xf32>
  %z0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<1x15x15x8xf32>) -> tensor<1x15x15x8xf32>
  %c = linalg.conv_2d_nhwc_hwcf {strides = dense<1> : tensor<2xi64>} ins(%x, %f : tensor<1x15x15x8xf32>, tensor<1x1x8x8xf32>) outs(%z0 : tensor<1x15x15x8xf32>) -> tensor<1x15x15x8xf32>
  %e1 = tensor.empty() : tensor<1x7x7x8xf32>
  %z1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x7x7x8xf32>) -> tensor<1x7x7x8xf32>
  %d = linalg.conv_2d_nhwc_hwcf {strides = dense<2> : tensor<2xi64>} ins(%c, %g : tensor<1x15x15x8xf32>, tensor<3x3x8x8xf32>) outs(%z1 : tensor<1x7x7x8xf32>) -> tensor<1x7x7x8xf32>
  return %d : tensor<1x7x7x8xf32>
}

// What no convolution computes is there already; an annotated convolution keeps its strides.
// CHECK-LABEL: func.func @argument
// CHECK: linalg.conv_2d_nhwc_hwcf {{.*}}strides = dense<2>{{.*}} -> tensor<1x8x8x8xf32>
// CHECK: linalg.conv_2d_nhwc_hwcf {winograd.algorithm = {{.*}}strides = dense<2>
func.func @argument(%x: tensor<1x15x15x8xf32>, %f: tensor<1x1x8x8xf32>) -> tensor<1x4x4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<1x8x8x8xf32>
  %z1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %d = linalg.conv_2d_nhwc_hwcf {strides = dense<2> : tensor<2xi64>} ins(%x, %f : tensor<1x15x15x8xf32>, tensor<1x1x8x8xf32>) outs(%z1 : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %e2 = tensor.empty() : tensor<1x4x4x8xf32>
  %z2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32>
  %r = linalg.conv_2d_nhwc_hwcf {strides = dense<2> : tensor<2xi64>, winograd.algorithm = {output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>}} ins(%d, %f : tensor<1x8x8x8xf32>, tensor<1x1x8x8xf32>) outs(%z2 : tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32>
  return %r : tensor<1x4x4x8xf32>
}
