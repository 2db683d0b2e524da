// RUN: winograd-opt --winograd-trim-taps %s | filecheck %s

// The outer taps of both dimensions read padding only: what is left is pointwise.
// CHECK-LABEL: func.func @larger_than_the_image
// CHECK-SAME: (%[[X:.*]]: tensor<?x28x28x8xf32>, %[[W:.*]]: tensor<3x3x8x16xf32>
// CHECK: %[[V:.*]] = tensor.extract_slice %[[W]][1, 1, 0, 0] [1, 1, 8, 16] [1, 1, 1, 1]
// CHECK: linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%[[X]], %[[V]]
func.func @larger_than_the_image(%x: tensor<?x28x28x8xf32>, %w: tensor<3x3x8x16xf32>, %z: tensor<?x28x28x16xf32>) -> tensor<?x28x28x16xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 36, 28, 0] high[0, 36, 28, 0] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %zero : f32
  } : tensor<?x28x28x8xf32> to tensor<?x100x84x8xf32>
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<[36, 28]> : tensor<2xi64>} ins(%p, %w : tensor<?x100x84x8xf32>, tensor<3x3x8x16xf32>) outs(%z : tensor<?x28x28x16xf32>) -> tensor<?x28x28x16xf32>
  return %r : tensor<?x28x28x16xf32>
}

// A row of taps reads padding only, and two columns. Strided outputs leave some of the image unread.
// CHECK-LABEL: func.func @on_one_side
// CHECK-SAME: (%[[X:.*]]: tensor<1x5x6x8xf32>, %[[W:.*]]: tensor<3x3x4x2x4xf32>
// CHECK: %[[S:.*]] = tensor.extract_slice %[[X]][0, 0, 0, 0] [1, 5, 5, 8] [1, 1, 1, 1]
// CHECK: %[[P:.*]] = tensor.pad %[[S]] low[0, 1, 0, 0] high[0, 0, 0, 0]
// CHECK: %[[E:.*]] = tensor.expand_shape %[[P]] {{.*}} into tensor<1x6x5x2x4xf32>
// CHECK: %[[V:.*]] = tensor.extract_slice %[[W]][1, 0, 0, 0, 0] [2, 1, 4, 2, 4]
// CHECK: linalg.generic {{.*}} ins(%[[E]], %[[V]] : tensor<1x6x5x2x4xf32>, tensor<2x1x4x2x4xf32>)
#image = affine_map<(n, h, w, g, f, c, r, s) -> (n, h + r * 3, w * 4 + s * 9, g, c)>
#filter = affine_map<(n, h, w, g, f, c, r, s) -> (r, s, c, g, f)>
#result = affine_map<(n, h, w, g, f, c, r, s) -> (n, h, w, g, f)>
func.func @on_one_side(%x: tensor<1x5x6x8xf32>, %w: tensor<3x3x4x2x4xf32>, %z: tensor<1x3x2x2x4xf32>) -> tensor<1x3x2x2x4xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 4, 0, 0] high[0, 0, 17, 0] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %zero : f32
  } : tensor<1x5x6x8xf32> to tensor<1x9x23x8xf32>
  %q = tensor.expand_shape %p [[0], [1], [2], [3, 4]] output_shape [1, 9, 23, 2, 4] : tensor<1x9x23x8xf32> into tensor<1x9x23x2x4xf32>
  %r = linalg.generic {indexing_maps = [#image, #filter, #result], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%q, %w : tensor<1x9x23x2x4xf32>, tensor<3x3x4x2x4xf32>) outs(%z : tensor<1x3x2x2x4xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32):
    %m = arith.mulf %i, %j : f32
    %n = arith.addf %k, %m : f32
    linalg.yield %n : f32
  } -> tensor<1x3x2x2x4xf32>
  return %r : tensor<1x3x2x2x4xf32>
}

// The gradients of taps that read padding only are zero.
// CHECK-LABEL: func.func @gradient
// CHECK-SAME: (%[[X:.*]]: tensor<2x9x8xf32>, %[[G:.*]]: tensor<2x9x4xf32>
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[G]] :
// CHECK: tensor.pad %[[T]] low[1, 0, 0] high[1, 0, 0]
#line = affine_map<(r, c, f, n, w) -> (n, w + r * 9, c)>
#outputs = affine_map<(r, c, f, n, w) -> (n, w, f)>
#taps = affine_map<(r, c, f, n, w) -> (r, c, f)>
func.func @gradient(%x: tensor<2x9x8xf32>, %g: tensor<2x9x4xf32>) -> tensor<3x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 9, 0] high[0, 9, 0] {
  ^bb0(%a: index, %b: index, %c: index):
    tensor.yield %zero : f32
  } : tensor<2x9x8xf32> to tensor<2x27x8xf32>
  %e = tensor.empty() : tensor<3x8x4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<3x8x4xf32>) -> tensor<3x8x4xf32>
  %r = linalg.generic {indexing_maps = [#line, #outputs, #taps], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%p, %g : tensor<2x27x8xf32>, tensor<2x9x4xf32>) outs(%z : tensor<3x8x4xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32):
    %m = arith.mulf %i, %j : f32
    %n = arith.addf %k, %m : f32
    linalg.yield %n : f32
  } -> tensor<3x8x4xf32>
  return %r : tensor<3x8x4xf32>
}

// Some outputs need the outer taps.
// CHECK-LABEL: func.func @needed
// CHECK: linalg.depthwise_conv_2d_nhwc_hwc {{.*}} tensor<3x3x8xf32>
func.func @needed(%x: tensor<1x28x28x8xf32>, %w: tensor<3x3x8xf32>, %z: tensor<1x28x28x8xf32>) -> tensor<1x28x28x8xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 27, 27, 0] high[0, 27, 27, 0] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %zero : f32
  } : tensor<1x28x28x8xf32> to tensor<1x82x82x8xf32>
  %r = linalg.depthwise_conv_2d_nhwc_hwc {dilations = dense<27> : tensor<2xi64>} ins(%p, %w : tensor<1x82x82x8xf32>, tensor<3x3x8xf32>) outs(%z : tensor<1x28x28x8xf32>) -> tensor<1x28x28x8xf32>
  return %r : tensor<1x28x28x8xf32>
}

// An algorithm that was chosen for three taps stays with them.
// CHECK-LABEL: func.func @annotated
// CHECK: linalg.conv_1d_nwc_wcf {{.*}} tensor<3x8x16xf32>
func.func @annotated(%x: tensor<1x9x8xf32>, %w: tensor<3x8x16xf32>, %z: tensor<1x9x16xf32>) -> tensor<1x9x16xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 9, 0] high[0, 9, 0] {
  ^bb0(%a: index, %b: index, %c: index):
    tensor.yield %zero : f32
  } : tensor<1x9x8xf32> to tensor<1x27x8xf32>
  %r = linalg.conv_1d_nwc_wcf {dilations = dense<9> : tensor<1xi64>, winograd.algorithm = {output_tile = array<i64: 1>, part_size = array<i64: 1>}}
    ins(%p, %w : tensor<1x27x8xf32>, tensor<3x8x16xf32>) outs(%z : tensor<1x9x16xf32>) -> tensor<1x9x16xf32>
  return %r : tensor<1x9x16xf32>
}

// An image of unknown size may be larger than the one that is expected.
// CHECK-LABEL: func.func @unknown_size
// CHECK: tensor.pad %{{.*}} low[0, 36, 0, 0] high[0, 36, 0, 0]
// CHECK: linalg.conv_2d_nhwc_hwcf {{.*}} tensor<3x1x8x16xf32>)
func.func @unknown_size(%x: tensor<1x?x28x8xf32>, %w: tensor<3x1x8x16xf32>, %z: tensor<1x?x28x16xf32>) -> tensor<1x?x28x16xf32> {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[0, 36, 0, 0] high[0, 36, 0, 0] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %zero : f32
  } : tensor<1x?x28x8xf32> to tensor<1x?x28x8xf32>
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<[36, 1]> : tensor<2xi64>, winograd.expected_size = array<i64: 100, 28>} ins(%p, %w : tensor<1x?x28x8xf32>, tensor<3x1x8x16xf32>) outs(%z : tensor<1x?x28x16xf32>) -> tensor<1x?x28x16xf32>
  return %r : tensor<1x?x28x16xf32>
}
