// RUN: winograd-opt --winograd-compute-before-concat --winograd-verify --split-input-file %s 2>%t.err | filecheck %s
// RUN: winograd-opt --winograd-compute-before-concat --split-input-file --verify-diagnostics %s

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#all = affine_map<(n, h, w, k) -> (n, h, w, k)>
#channel = affine_map<(n, h, w, k) -> (k)>
#row = affine_map<(n, h, w, k) -> (n, h, 0, 0)>

// A chain of operations is computed on each part, with its channels of what varies along them.
// CHECK-LABEL: @chain
// CHECK-SAME: (%[[X:.*]]: tensor<1x7x7x8xf32>, %[[M:.*]]: tensor<1x49x4xf32>, %[[SCALE:.*]]: tensor<1x7x1x1xf32>)
// CHECK: %[[BIAS:.*]] = arith.constant {{.*}} : tensor<12xf32>
// CHECK: %[[Y:.*]] = "winograd.output_transform"(%[[M]])
// CHECK: %[[FIRST:.*]] = tensor.extract_slice %[[BIAS]][0] [4] [1]
// CHECK: %[[YB:.*]] = linalg.generic {{.*}} ins(%[[Y]], %[[FIRST]] : tensor<1x7x7x4xf32>, tensor<4xf32>)
// CHECK: %[[LAST:.*]] = tensor.extract_slice %[[BIAS]][4] [8] [1]
// CHECK: %[[XB:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[LAST]] : tensor<1x7x7x8xf32>, tensor<8xf32>)
// CHECK: %[[YS:.*]] = linalg.generic {{.*}} ins(%[[YB]], %[[SCALE]] : tensor<1x7x7x4xf32>, tensor<1x7x1x1xf32>)
// CHECK: %[[XS:.*]] = linalg.generic {{.*}} ins(%[[XB]], %[[SCALE]] : tensor<1x7x7x8xf32>, tensor<1x7x1x1xf32>)
// CHECK: %[[C:.*]] = tensor.concat dim(3) %[[YS]], %[[XS]]
// CHECK: return %[[C]]
func.func @chain(%x: tensor<1x7x7x8xf32>, %m: tensor<1x49x4xf32>, %scale: tensor<1x7x1x1xf32>) -> tensor<1x7x7x12xf32> {
  %bias = arith.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]> : tensor<12xf32>
  %e = tensor.empty() : tensor<1x7x7x12xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  %c = tensor.concat dim(3) %y, %x : (tensor<1x7x7x4xf32>, tensor<1x7x7x8xf32>) -> tensor<1x7x7x12xf32>
  %b = linalg.generic {indexing_maps = [#all, #channel, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%c, %bias : tensor<1x7x7x12xf32>, tensor<12xf32>) outs(%e : tensor<1x7x7x12xf32>) {
  ^bb0(%a: f32, %d: f32, %out: f32):
    %t = arith.addf %a, %d : f32
    linalg.yield %t : f32
  } -> tensor<1x7x7x12xf32>
  %s = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%b, %scale : tensor<1x7x7x12xf32>, tensor<1x7x1x1xf32>) outs(%e : tensor<1x7x7x12xf32>) {
  ^bb0(%a: f32, %d: f32, %out: f32):
    %t = arith.mulf %a, %d : f32
    linalg.yield %t : f32
  } -> tensor<1x7x7x12xf32>
  return %s : tensor<1x7x7x12xf32>
}

// -----

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// A slice of an image's channels would be a copy of it.
// CHECK-LABEL: @varies
// CHECK: %[[C:.*]] = tensor.concat
// CHECK: linalg.elementwise <add> ins(%[[C]],
func.func @varies(%x: tensor<1x7x7x8xf32>, %m: tensor<1x49x4xf32>, %other: tensor<1x7x7x12xf32>) -> tensor<1x7x7x12xf32> {
  %e = tensor.empty() : tensor<1x7x7x12xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  %c = tensor.concat dim(3) %y, %x : (tensor<1x7x7x4xf32>, tensor<1x7x7x8xf32>) -> tensor<1x7x7x12xf32>
  // expected-remark @below {{an operand varies along the channels, and isn't a constant}}
  %s = linalg.elementwise <add> ins(%c, %other : tensor<1x7x7x12xf32>, tensor<1x7x7x12xf32>) outs(%e : tensor<1x7x7x12xf32>) -> tensor<1x7x7x12xf32>
  return %s : tensor<1x7x7x12xf32>
}

// -----

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// What else reads the concatenation needs it, and none of the parts of the other is a convolution's.
// CHECK-LABEL: @stays
// CHECK: %[[C:.*]] = tensor.concat
// CHECK: linalg.elementwise <tanh> ins(%[[C]]
// CHECK: %[[D:.*]] = tensor.concat
// CHECK: linalg.elementwise <tanh> ins(%[[D]]
func.func @stays(%x: tensor<1x7x7x8xf32>, %m: tensor<1x49x4xf32>) -> (tensor<1x7x7x12xf32>, tensor<1x7x7x12xf32>, tensor<1x7x7x16xf32>) {
  %e = tensor.empty() : tensor<1x7x7x12xf32>
  %f = tensor.empty() : tensor<1x7x7x16xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  %c = tensor.concat dim(3) %y, %x : (tensor<1x7x7x4xf32>, tensor<1x7x7x8xf32>) -> tensor<1x7x7x12xf32>
  %s = linalg.elementwise <tanh> ins(%c : tensor<1x7x7x12xf32>) outs(%e : tensor<1x7x7x12xf32>) -> tensor<1x7x7x12xf32>
  %d = tensor.concat dim(3) %x, %x : (tensor<1x7x7x8xf32>, tensor<1x7x7x8xf32>) -> tensor<1x7x7x16xf32>
  %t = linalg.elementwise <tanh> ins(%d : tensor<1x7x7x16xf32>) outs(%f : tensor<1x7x7x16xf32>) -> tensor<1x7x7x16xf32>
  return %c, %s, %t : tensor<1x7x7x12xf32>, tensor<1x7x7x12xf32>, tensor<1x7x7x16xf32>
}
