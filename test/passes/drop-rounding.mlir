// RUN: winograd-opt --winograd-drop-rounding --split-input-file %s | filecheck %s

#f2 = {dilation = array<i64: 1>, kernel_size = array<i64: 3>, output_tile = array<i64: 2>, part_size = array<i64: 3>, spacing = array<i64: 1>, step = array<i64: 1>, views = [array<i64: 0>]}

// A sum is scaled, shifted, added to a shortcut and kept above zero: what is stored is rounded, nothing before.
// CHECK-LABEL: @residual
// CHECK: ^bb0(%[[A:.*]]: f32, %[[S:.*]]: f32, %[[T:.*]]: f32, %[[X:.*]]: f32):
// CHECK-NEXT: %[[SCALED:.*]] = arith.mulf %[[A]], %[[S]] : f32
// CHECK-NEXT: %[[SHIFTED:.*]] = arith.addf %[[SCALED]], %[[T]] : f32
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[SHIFTED]], %[[X]] : f32
// CHECK-NEXT: %[[HALF:.*]] = arith.truncf %[[SUM]] : f32 to bf16
// CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[HALF]] : bf16 to f32
// CHECK-NEXT: %[[Y:.*]] = arith.maximumf %[[WIDE]], %{{.*}} : f32
// CHECK-NEXT: vector.yield %[[Y]] : f32
func.func @residual(%m: tensor<4x1x2xf32>, %scale: tensor<2xf32>, %shift: tensor<2xf32>, %shortcut: tensor<1x2x2xf32>) -> tensor<1x2x2xf32> {
  %zero = arith.constant 0.0 : f32
  %y = "winograd.output_transform"(%m, %scale, %shift, %shortcut) ({
  ^bb0(%a: f32, %s: f32, %t: f32, %x: f32):
    %h0 = arith.truncf %a : f32 to bf16
    %w0 = arith.extf %h0 : bf16 to f32
    %b = arith.mulf %w0, %s : f32
    %c = arith.addf %b, %t : f32
    %h1 = arith.truncf %c : f32 to bf16
    %w1 = arith.extf %h1 : bf16 to f32
    %d = arith.addf %w1, %x : f32
    %h2 = arith.truncf %d : f32 to bf16
    %w2 = arith.extf %h2 : bf16 to f32
    %e = arith.maximumf %w2, %zero : f32
    vector.yield %e : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [affine_map<(n, w, k) -> (k)>, affine_map<(n, w, k) -> (k)>, affine_map<(n, w, k) -> (n, w, k)>],
      operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0>} : (tensor<4x1x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  return %y : tensor<1x2x2xf32>
}

// -----

#f2 = {dilation = array<i64: 1>, kernel_size = array<i64: 3>, output_tile = array<i64: 2>, part_size = array<i64: 3>, spacing = array<i64: 1>, step = array<i64: 1>, views = [array<i64: 0>]}

// What is given, or chosen to be, stays rounded, although something is computed with it, too.
// CHECK-LABEL: @chosen
// CHECK: %[[HALF:.*]] = arith.truncf
// CHECK-NEXT: %[[X:.*]] = arith.extf %[[HALF]] : f16 to f32
// CHECK: arith.mulf %[[X]], %[[X]] : f32
// CHECK: arith.select %{{.*}}, %[[X]], %{{.*}} : f32
func.func @chosen(%m: tensor<4x1x2xf32>) -> tensor<1x2x2xf32> {
  %zero = arith.constant 0.0 : f32
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    %h = arith.truncf %a : f32 to f16
    %x = arith.extf %h : f16 to f32
    %b = arith.mulf %x, %x : f32
    %c = arith.cmpf ogt, %b, %zero : f32
    %d = arith.select %c, %x, %zero : f32
    vector.yield %d : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<4x1x2xf32>) -> tensor<1x2x2xf32>
  return %y : tensor<1x2x2xf32>
}
