// RUN: winograd-opt --winograd-permute-shuffled --split-input-file --verify-diagnostics %s
// RUN: winograd-opt --winograd-permute-shuffled --split-input-file %s 2>%t.err | filecheck %s

// Channel 4 * c + p of pixel p becomes channel 3 * p + c, of the filter, of the bias, and of what is added before the
// shuffle; what is computed behind it is computed before it, of each pixel's channels by the same slopes.
// CHECK-LABEL: @shuffled
// CHECK: %[[E:.*]] = tensor.expand_shape %{{.*}} {{\[\[}}0, 1, 2], [3], [4], [5]] {{.*}} into tensor<3x2x2x8x1x1xf32>
// CHECK: %[[T:.*]] = linalg.transpose ins(%[[E]] : {{.*}} permutation = [1, 2, 0, 3, 4, 5]
// CHECK: %[[F:.*]] = tensor.collapse_shape %[[T]] {{\[\[}}0, 1, 2], [3], [4], [5]]
// CHECK: %[[B:.*]] = linalg.transpose ins(%{{.*}} : tensor<3x2x2xf32>) {{.*}} permutation = [1, 2, 0]
// CHECK: %[[C:.*]] = linalg.conv_2d_nchw_fchw ins(%{{.*}}, %[[F]]
// CHECK: %[[U:.*]] = linalg.generic {{.*}} ins(%[[C]]
// CHECK: arith.mulf
// CHECK: %[[R:.*]] = arith.constant dense_resource<repeated> : tensor<12xf32>
// CHECK: %[[L:.*]] = linalg.generic {{.*}} ins(%[[U]], %[[R]] : tensor<1x12x4x5xf32>, tensor<12xf32>)
// CHECK: arith.maximumf
// CHECK: %[[D:.*]] = tensor.expand_shape %[[L]] {{\[\[}}0], [1, 2, 3], [4], [5]] {{.*}} into tensor<1x2x2x3x4x5xf32>
// CHECK: %[[S:.*]] = linalg.transpose ins(%[[D]] : {{.*}} permutation = [0, 3, 4, 1, 5, 2]
// CHECK: %[[P:.*]] = tensor.collapse_shape %[[S]] {{\[\[}}0], [1], [2, 3], [4, 5]] : tensor<1x3x4x2x5x2xf32> into tensor<1x3x8x10xf32>
// CHECK: linalg.conv_2d_nchw_fchw ins(%[[P]]
#image = affine_map<(n, c, h, w) -> (n, c, h, w)>
#channel = affine_map<(n, c, h, w) -> (c)>
func.func @shuffled(%x: tensor<1x8x4x5xf32>, %g: tensor<2x3x1x1xf32>, %z: tensor<1x2x8x10xf32>) -> tensor<1x2x8x10xf32> {
  %f = arith.constant dense<1.0> : tensor<12x8x1x1xf32>
  %b = arith.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]> : tensor<12xf32>
  %slope = arith.constant dense<[0.25, 0.5, 0.75]> : tensor<3xf32>
  %y = tensor.empty() : tensor<1x12x4x5xf32>
  %bias = linalg.generic {indexing_maps = [#channel, #image], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%b : tensor<12xf32>) outs(%y : tensor<1x12x4x5xf32>) {
  ^bb0(%e: f32, %o: f32):
    linalg.yield %e : f32
  } -> tensor<1x12x4x5xf32>
  %c = linalg.conv_2d_nchw_fchw ins(%x, %f : tensor<1x8x4x5xf32>, tensor<12x8x1x1xf32>) outs(%bias : tensor<1x12x4x5xf32>) -> tensor<1x12x4x5xf32>
  %m = linalg.generic {indexing_maps = [#image, #image], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%c : tensor<1x12x4x5xf32>) outs(%y : tensor<1x12x4x5xf32>) {
  ^bb0(%e: f32, %o: f32):
    %t = arith.mulf %e, %e : f32
    linalg.yield %t : f32
  } -> tensor<1x12x4x5xf32>
  %d = tensor.expand_shape %m [[0], [1, 2, 3], [4], [5]] output_shape [1, 3, 2, 2, 4, 5] : tensor<1x12x4x5xf32> into tensor<1x3x2x2x4x5xf32>
  %i = tensor.empty() : tensor<1x3x4x2x5x2xf32>
  %t = linalg.transpose ins(%d : tensor<1x3x2x2x4x5xf32>) outs(%i : tensor<1x3x4x2x5x2xf32>) permutation = [0, 1, 4, 2, 5, 3]
  // expected-remark @below {{channels that become pixels were permuted}}
  %s = tensor.collapse_shape %t [[0], [1], [2, 3], [4, 5]] : tensor<1x3x4x2x5x2xf32> into tensor<1x3x8x10xf32>
  %k = tensor.empty() : tensor<1x3x8x10xf32>
  %r = linalg.generic {indexing_maps = [#image, #channel, #image], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%s, %slope : tensor<1x3x8x10xf32>, tensor<3xf32>) outs(%k : tensor<1x3x8x10xf32>) {
  ^bb0(%e: f32, %w: f32, %o: f32):
    %p = arith.mulf %e, %w : f32
    %q = arith.maximumf %e, %p : f32
    linalg.yield %q : f32
  } -> tensor<1x3x8x10xf32>
  %h = linalg.conv_2d_nchw_fchw ins(%r, %g : tensor<1x3x8x10xf32>, tensor<2x3x1x1xf32>) outs(%z : tensor<1x2x8x10xf32>) -> tensor<1x2x8x10xf32>
  return %h : tensor<1x2x8x10xf32>
}

// -----

// What leaves the program stays, and so does a filter that is known only at run time.
// CHECK-LABEL: @left
// CHECK-COUNT-2: linalg.transpose {{.*}} permutation = [0, 1, 4, 2, 5, 3]
func.func @left(%x: tensor<1x8x4x5xf32>, %v: tensor<12x8x1x1xf32>, %g: tensor<2x3x1x1xf32>, %y: tensor<1x12x4x5xf32>, %z: tensor<1x2x8x10xf32>)
    -> (tensor<1x3x8x10xf32>, tensor<1x2x8x10xf32>) {
  %f = arith.constant dense<1.0> : tensor<12x8x1x1xf32>
  %i = tensor.empty() : tensor<1x3x4x2x5x2xf32>
  %c = linalg.conv_2d_nchw_fchw ins(%x, %f : tensor<1x8x4x5xf32>, tensor<12x8x1x1xf32>) outs(%y : tensor<1x12x4x5xf32>) -> tensor<1x12x4x5xf32>
  %d = tensor.expand_shape %c [[0], [1, 2, 3], [4], [5]] output_shape [1, 3, 2, 2, 4, 5] : tensor<1x12x4x5xf32> into tensor<1x3x2x2x4x5xf32>
  %t = linalg.transpose ins(%d : tensor<1x3x2x2x4x5xf32>) outs(%i : tensor<1x3x4x2x5x2xf32>) permutation = [0, 1, 4, 2, 5, 3]
  %s = tensor.collapse_shape %t [[0], [1], [2, 3], [4, 5]] : tensor<1x3x4x2x5x2xf32> into tensor<1x3x8x10xf32>
  %c2 = linalg.conv_2d_nchw_fchw ins(%x, %v : tensor<1x8x4x5xf32>, tensor<12x8x1x1xf32>) outs(%y : tensor<1x12x4x5xf32>) -> tensor<1x12x4x5xf32>
  %d2 = tensor.expand_shape %c2 [[0], [1, 2, 3], [4], [5]] output_shape [1, 3, 2, 2, 4, 5] : tensor<1x12x4x5xf32> into tensor<1x3x2x2x4x5xf32>
  %t2 = linalg.transpose ins(%d2 : tensor<1x3x2x2x4x5xf32>) outs(%i : tensor<1x3x4x2x5x2xf32>) permutation = [0, 1, 4, 2, 5, 3]
  %s2 = tensor.collapse_shape %t2 [[0], [1], [2, 3], [4, 5]] : tensor<1x3x4x2x5x2xf32> into tensor<1x3x8x10xf32>
  %h = linalg.conv_2d_nchw_fchw ins(%s2, %g : tensor<1x3x8x10xf32>, tensor<2x3x1x1xf32>) outs(%z : tensor<1x2x8x10xf32>) -> tensor<1x2x8x10xf32>
  return %s, %h : tensor<1x3x8x10xf32>, tensor<1x2x8x10xf32>
}
