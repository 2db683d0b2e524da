// RUN: winograd-opt --winograd-fold-scale --winograd-verify --split-input-file %s 2>%t.err | filecheck %s
// RUN: winograd-opt --winograd-fold-scale --split-input-file --verify-diagnostics %s

#f2 = {dilation = array<i64: 1>, kernel_size = array<i64: 3>, output_tile = array<i64: 2>, part_size = array<i64: 3>, spacing = array<i64: 1>, step = array<i64: 1>, views = [array<i64: 0>]}

// (output - [1, 2]) * 2 / 4 + [1, 1]: the filter is halved, [0.5, 0] is added; what follows stays.
// CHECK-LABEL: @batch_norm
// CHECK-SAME: %[[RESIDUAL:[a-z0-9]*]]: tensor<1x2x2xf32>)
// CHECK: %[[W:.*]] = arith.constant dense_resource<scaled_filter> : tensor<3x1x2xf32>
// CHECK: "winograd.filter_transform"(%[[W]])
// CHECK: %[[SHIFT:.*]] = arith.constant dense_resource<shift> : tensor<2xf32>
// CHECK: "winograd.output_transform"(%{{.*}}, %[[SHIFT]], %[[RESIDUAL]])
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32, %[[C:.*]]: f32):
// CHECK-NEXT: %[[AB:.*]] = arith.addf %[[A]], %[[B]] : f32
// CHECK-NEXT: %[[ABC:.*]] = arith.addf %[[AB]], %[[C]] : f32
// CHECK-NEXT: vector.yield %[[ABC]] : f32
// CHECK: scaled_filter: "0x040000000000C03F0000C03F0000C03F0000C03F0000C03F0000C03F"
// CHECK: shift: "0x040000000000003F00000000"
func.func @batch_norm(%v: tensor<4x1x1xf32>, %zeros: tensor<4x1x2xf32>, %residual: tensor<1x2x2xf32>) -> tensor<1x2x2xf32> {
  %w = arith.constant dense<3.0> : tensor<3x1x2xf32>
  %mean = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %weight = arith.constant dense<2.0> : tensor<2xf32>
  %bias = arith.constant dense<1.0> : tensor<2xf32>
  %four = arith.constant 4.0 : f32
  %u = "winograd.filter_transform"(%w) {decomposition = #f2, groups = 1 : i64} : (tensor<3x1x2xf32>) -> tensor<4x1x2xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<4x1x1xf32>, tensor<4x1x2xf32>)
    outs(%zeros : tensor<4x1x2xf32>) -> tensor<4x1x2xf32>
  %y = "winograd.output_transform"(%m, %mean, %weight, %bias, %residual) ({
  ^bb0(%a: f32, %p0: f32, %p1: f32, %p2: f32, %p3: f32):
    %b = arith.subf %a, %p0 : f32
    %c = arith.mulf %p1, %b : f32
    %d = arith.divf %c, %four : f32
    %e = arith.addf %d, %p2 : f32
    %f = arith.addf %e, %p3 : f32
    vector.yield %f : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [affine_map<(n, w, k) -> (k)>, affine_map<(n, w, k) -> (k)>, affine_map<(n, w, k) -> (k)>, affine_map<(n, w, k) -> (n, w, k)>],
      operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 0, 0>} : (tensor<4x1x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  return %y : tensor<1x2x2xf32>
}

// -----

#f2 = {dilation = array<i64: 1>, kernel_size = array<i64: 3>, output_tile = array<i64: 2>, part_size = array<i64: 3>, spacing = array<i64: 1>, step = array<i64: 1>, views = [array<i64: 0>]}

// A scale known only at run time, and one that comes after something not linear, stay.
// CHECK-LABEL: @left
// CHECK-SAME: %[[SCALE:[a-z0-9]*]]: tensor<2xf32>)
// CHECK-NOT: scaled_filter
// CHECK: arith.mulf
// CHECK: arith.maximumf
// CHECK: arith.mulf
func.func @left(%v: tensor<4x1x1xf32>, %zeros: tensor<4x1x2xf32>, %scale: tensor<2xf32>) -> tensor<1x2x2xf32> {
  %w = arith.constant dense<3.0> : tensor<3x1x2xf32>
  %weight = arith.constant dense<2.0> : tensor<2xf32>
  %zero = arith.constant 0.0 : f32
  %u = "winograd.filter_transform"(%w) {decomposition = #f2, groups = 1 : i64} : (tensor<3x1x2xf32>) -> tensor<4x1x2xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<4x1x1xf32>, tensor<4x1x2xf32>)
    outs(%zeros : tensor<4x1x2xf32>) -> tensor<4x1x2xf32>
  %y = "winograd.output_transform"(%m, %scale, %weight) ({
  ^bb0(%a: f32, %p0: f32, %p1: f32):
    %b = arith.mulf %a, %p0 : f32
    %c = arith.maximumf %b, %zero : f32
    %d = arith.mulf %c, %p1 : f32
    vector.yield %d : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [affine_map<(n, w, k) -> (k)>, affine_map<(n, w, k) -> (k)>],
      operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<4x1x2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x2xf32>
  return %y : tensor<1x2x2xf32>
}

// -----

#f2 = {dilation = array<i64: 1>, kernel_size = array<i64: 3>, output_tile = array<i64: 2>, part_size = array<i64: 3>, spacing = array<i64: 1>, step = array<i64: 1>, views = [array<i64: 0>]}

// A transformed filter that another product uses, too, can't be scaled for one of them.
// CHECK-LABEL: @shared_filter
// CHECK-NOT: scaled_filter
// CHECK: arith.mulf
func.func @shared_filter(%v: tensor<4x1x1xf32>, %zeros: tensor<4x1x2xf32>) -> (tensor<1x2x2xf32>, tensor<4x1x2xf32>) {
  %w = arith.constant dense<3.0> : tensor<3x1x2xf32>
  %weight = arith.constant dense<2.0> : tensor<2xf32>
  %u = "winograd.filter_transform"(%w) {decomposition = #f2, groups = 1 : i64} : (tensor<3x1x2xf32>) -> tensor<4x1x2xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<4x1x1xf32>, tensor<4x1x2xf32>)
    outs(%zeros : tensor<4x1x2xf32>) -> tensor<4x1x2xf32>
  // expected-remark @below {{something else uses its products or their filter}}
  %y = "winograd.output_transform"(%m, %weight) ({
  ^bb0(%a: f32, %p0: f32):
    %b = arith.mulf %a, %p0 : f32
    vector.yield %b : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [affine_map<(n, w, k) -> (k)>],
      operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<4x1x2xf32>, tensor<2xf32>) -> tensor<1x2x2xf32>
  return %y, %u : tensor<1x2x2xf32>, tensor<4x1x2xf32>
}

// -----

#f2 = {dilation = array<i64: 1>, kernel_size = array<i64: 3>, output_tile = array<i64: 2>, part_size = array<i64: 3>, spacing = array<i64: 1>, step = array<i64: 1>, views = [array<i64: 0>]}

// A filter known only at run time isn't scaled, and no filter by what isn't a number.
// CHECK-LABEL: @not_scaled
// CHECK-COUNT-2: arith.mulf
func.func @not_scaled(%v: tensor<4x1x1xf32>, %w: tensor<3x1x2xf32>, %zeros: tensor<4x1x2xf32>) -> (tensor<1x2x2xf32>, tensor<1x2x2xf32>) {
  %weight = arith.constant dense<2.0> : tensor<2xf32>
  %infinite = arith.constant dense<[1.0, 0x7F800000]> : tensor<2xf32>
  %known = arith.constant dense<3.0> : tensor<3x1x2xf32>
  %u = "winograd.filter_transform"(%w) {decomposition = #f2, groups = 1 : i64} : (tensor<3x1x2xf32>) -> tensor<4x1x2xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<4x1x1xf32>, tensor<4x1x2xf32>)
    outs(%zeros : tensor<4x1x2xf32>) -> tensor<4x1x2xf32>
  // expected-remark @below {{its filter is not a constant}}
  %y = "winograd.output_transform"(%m, %weight) ({
  ^bb0(%a: f32, %p0: f32):
    %b = arith.mulf %a, %p0 : f32
    vector.yield %b : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [affine_map<(n, w, k) -> (k)>],
      operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<4x1x2xf32>, tensor<2xf32>) -> tensor<1x2x2xf32>
  %u2 = "winograd.filter_transform"(%known) {decomposition = #f2, groups = 1 : i64} : (tensor<3x1x2xf32>) -> tensor<4x1x2xf32>
  %m2 = linalg.batch_matmul ins(%v, %u2 : tensor<4x1x1xf32>, tensor<4x1x2xf32>)
    outs(%zeros : tensor<4x1x2xf32>) -> tensor<4x1x2xf32>
  // expected-remark @below {{its factors are not all finite}}
  %z = "winograd.output_transform"(%m2, %infinite) ({
  ^bb0(%a: f32, %p0: f32):
    %b = arith.mulf %a, %p0 : f32
    vector.yield %b : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [affine_map<(n, w, k) -> (k)>],
      operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<4x1x2xf32>, tensor<2xf32>) -> tensor<1x2x2xf32>
  return %y, %z : tensor<1x2x2xf32>, tensor<1x2x2xf32>
}

// -----

#f1 = {dilation = array<i64: 1>, kernel_size = array<i64: 1>, output_tile = array<i64: 1>, part_size = array<i64: 1>, spacing = array<i64: 1>, step = array<i64: 1>, views = [array<i64: 0>]}

// Once scaled, the numbers of this filter would no longer be those of the type that its kernel rounds to.
// CHECK-LABEL: @kept
// CHECK-NOT: scaled_filter
// CHECK: arith.mulf
func.func @kept(%v: tensor<1x2x1xf32>, %zeros: tensor<1x2x2xf32>) -> tensor<1x2x2xf32> {
  %w = arith.constant dense<3.0> : tensor<1x1x2xf32>
  %weight = arith.constant dense<1.1> : tensor<2xf32>
  %u = "winograd.filter_transform"(%w) {decomposition = #f1, groups = 1 : i64} : (tensor<1x1x2xf32>) -> tensor<1x1x2xf32>
  %m = linalg.batch_matmul {winograd.keeps_filter} ins(%v, %u : tensor<1x2x1xf32>, tensor<1x1x2xf32>)
    outs(%zeros : tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  // expected-remark @below {{its filter, once scaled, would be rounded}}
  %y = "winograd.output_transform"(%m, %weight) ({
  ^bb0(%a: f32, %p0: f32):
    %b = arith.mulf %a, %p0 : f32
    vector.yield %b : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [affine_map<(n, w, k) -> (k)>],
      operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2xf32>
  return %y : tensor<1x2x2xf32>
}

// -----

#f2 = {dilation = array<i64: 1>, kernel_size = array<i64: 3>, output_tile = array<i64: 2>, part_size = array<i64: 3>, spacing = array<i64: 1>, step = array<i64: 1>, views = [array<i64: 0>]}

// The same of a rounded number is a product and a sum: (x - [1, 2]) * 2 / 4 + [1, 1] = x * 0.5 + [0.5, 0].
// What is rounded before it is complete is left.
// CHECK-LABEL: @rounded
// CHECK-NOT: scaled_filter
// CHECK: %[[SCALE:.*]] = arith.constant dense_resource<scale> : tensor<2xf32>
// CHECK: %[[SHIFT:.*]] = arith.constant dense_resource<shift> : tensor<2xf32>
// CHECK: "winograd.output_transform"(%{{.*}}, %[[SCALE]], %[[SHIFT]], %{{.*}})
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[S:.*]]: f32, %[[T:.*]]: f32, %[[W:.*]]: f32):
// CHECK-NEXT: %[[HALF:.*]] = arith.truncf %[[A]] : f32 to bf16
// CHECK-NEXT: %[[X:.*]] = arith.extf %[[HALF]] : bf16 to f32
// CHECK-NEXT: %[[SCALED:.*]] = arith.mulf %[[X]], %[[S]] : f32
// CHECK-NEXT: %[[SHIFTED:.*]] = arith.addf %[[SCALED]], %[[T]] : f32
// CHECK-NEXT: %[[ROUNDED:.*]] = arith.truncf %[[SHIFTED]] : f32 to bf16
// CHECK-NEXT: %[[Y:.*]] = arith.extf %[[ROUNDED]] : bf16 to f32
// CHECK-NEXT: arith.mulf %[[Y]], %[[W]] : f32
// CHECK: scale: "0x040000000000003F0000003F"
// CHECK: shift: "0x040000000000003F00000000"
func.func @rounded(%v: tensor<4x1x1xf32>, %zeros: tensor<4x1x2xf32>) -> tensor<1x2x2xf32> {
  %w = arith.constant dense<3.0> : tensor<3x1x2xf32>
  %mean = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %weight = arith.constant dense<2.0> : tensor<2xf32>
  %bias = arith.constant dense<1.0> : tensor<2xf32>
  %four = arith.constant 4.0 : f32
  %u = "winograd.filter_transform"(%w) {decomposition = #f2, groups = 1 : i64} : (tensor<3x1x2xf32>) -> tensor<4x1x2xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<4x1x1xf32>, tensor<4x1x2xf32>)
    outs(%zeros : tensor<4x1x2xf32>) -> tensor<4x1x2xf32>
  %y = "winograd.output_transform"(%m, %mean, %weight, %bias) ({
  ^bb0(%a: f32, %p0: f32, %p1: f32, %p2: f32):
    %half = arith.truncf %a : f32 to bf16
    %x = arith.extf %half : bf16 to f32
    %b = arith.subf %x, %p0 : f32
    %c = arith.mulf %p1, %b : f32
    %d = arith.divf %c, %four : f32
    %e = arith.addf %d, %p2 : f32
    %rounded = arith.truncf %e : f32 to bf16
    %f = arith.extf %rounded : bf16 to f32
    %g = arith.mulf %f, %p1 : f32
    vector.yield %g : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [affine_map<(n, w, k) -> (k)>, affine_map<(n, w, k) -> (k)>, affine_map<(n, w, k) -> (k)>],
      operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0>} : (tensor<4x1x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x2xf32>
  return %y : tensor<1x2x2xf32>
}
