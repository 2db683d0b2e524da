// RUN: winograd-opt --winograd-merge-bounds --split-input-file %s | filecheck %s

// The activation's bounds are those of the bytes that it becomes, and a NaN is what it was: the least of them.
// CHECK-LABEL: @activation
// CHECK: ^bb0(%[[X:.*]]: f32):
// CHECK: %[[SCALED:.*]] = arith.divf %[[X]],
// CHECK-NEXT: %[[ROUNDED:.*]] = math.roundeven %[[SCALED]]
// CHECK-NEXT: %[[LEAST:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT: %[[IS_LARGER:.*]] = arith.cmpf ogt, %[[ROUNDED]], %[[LEAST]]
// CHECK-NEXT: %[[LARGER:.*]] = arith.select %[[IS_LARGER]], %[[ROUNDED]], %[[LEAST]]
// CHECK-NEXT: %[[MOST:.*]] = arith.constant 2.000000e+02 : f32
// CHECK-NEXT: %[[KEPT:.*]] = arith.minimumf %[[LARGER]], %[[MOST]]
// CHECK-NEXT: arith.mulf %[[KEPT]],
func.func @activation(%m: tensor<1x64x8xf32>) -> tensor<1x8x8x8xf32> {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%x: f32):
    %zero = arith.constant 0.0 : f32
    %six = arith.constant 6.0 : f32
    %scale = arith.constant 0.03 : f32
    %most = arith.constant 255.0 : f32
    %is_positive = arith.cmpf ogt, %x, %zero : f32
    %a = arith.select %is_positive, %x, %zero : f32
    %is_large = arith.cmpf olt, %six, %a : f32
    %b = arith.select %is_large, %six, %a : f32
    %c = arith.divf %b, %scale : f32
    %d = math.roundeven %c : f32
    %e = arith.addf %d, %zero : f32
    %f = arith.maximumf %e, %zero : f32
    %g = arith.minimumf %f, %most : f32
    %h = arith.mulf %g, %scale : f32
    vector.yield %h : f32
  }) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>,
      output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>,
      step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}
    : (tensor<1x64x8xf32>) -> tensor<1x8x8x8xf32>
  return %y : tensor<1x8x8x8xf32>
}

// -----

// An offset that integers lose again goes, and the bounds move by it.
// CHECK-LABEL: @offset
// CHECK: %[[ROUNDED:.*]] = math.roundeven
// CHECK-NEXT: %[[LEAST:.*]] = arith.constant -1.000000e+01 : f32
// CHECK-NEXT: %[[LARGER:.*]] = arith.maximumf %[[ROUNDED]], %[[LEAST]]
// CHECK-NEXT: %[[MOST:.*]] = arith.constant 2.450000e+02 : f32
// CHECK-NEXT: %[[KEPT:.*]] = arith.minimumf %[[LARGER]], %[[MOST]]
// CHECK-NEXT: vector.yield %[[KEPT]]
func.func @offset(%m: tensor<1x64x8xf32>) -> tensor<1x8x8x8xf32> {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%x: f32):
    %zero = arith.constant 0.0 : f32
    %ten = arith.constant 10.0 : f32
    %most = arith.constant 255.0 : f32
    %d = math.roundeven %x : f32
    %e = arith.addf %d, %ten : f32
    %f = arith.maximumf %e, %zero : f32
    %g = arith.minimumf %f, %most : f32
    %h = arith.subf %g, %ten : f32
    vector.yield %h : f32
  }) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>,
      output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>,
      step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}
    : (tensor<1x64x8xf32>) -> tensor<1x8x8x8xf32>
  return %y : tensor<1x8x8x8xf32>
}

// -----

// What isn't an integer loses digits by an offset, a negative factor turns bounds around, and what is read
// elsewhere has to be there. A NaN becomes a number below the least of the others.
// CHECK-LABEL: @kept
// CHECK: arith.addf
// CHECK-COUNT-2: arith.maximumf
// CHECK: arith.subf
// CHECK: arith.mulf
// CHECK: arith.maximumf
// CHECK: arith.maximumf
// CHECK: arith.maxnumf
func.func @kept(%m: tensor<1x64x8xf32>) -> tensor<1x8x8x8xf32> {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%x: f32):
    %zero = arith.constant 0.0 : f32
    %ten = arith.constant 10.0 : f32
    %minus = arith.constant -1.0 : f32
    %a = arith.addf %x, %ten : f32
    %b = arith.maximumf %a, %zero : f32
    %read = arith.maximumf %b, %ten : f32
    %c = arith.subf %b, %ten : f32
    %d = arith.mulf %c, %minus : f32
    %e = arith.maximumf %d, %zero : f32
    %f = arith.addf %e, %read : f32
    %g = arith.maximumf %f, %ten : f32
    %h = arith.maxnumf %g, %zero : f32
    vector.yield %h : f32
  }) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>,
      output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>,
      step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}
    : (tensor<1x64x8xf32>) -> tensor<1x8x8x8xf32>
  return %y : tensor<1x8x8x8xf32>
}

// -----

// Bounds that bf16 has come before the rounding to it, however they are written.
// CHECK-LABEL: @rounded
// CHECK: ^bb0(%[[X:.*]]: f32):
// CHECK: %[[IS_POSITIVE:.*]] = arith.cmpf ogt, %[[X]],
// CHECK-NEXT: %[[A:.*]] = arith.select %[[IS_POSITIVE]], %[[X]],
// CHECK-NEXT: %[[B:.*]] = arith.minimumf %[[A]],
// CHECK-NEXT: %[[H:.*]] = arith.truncf %[[B]] : f32 to bf16
// CHECK-NEXT: %[[W:.*]] = arith.extf %[[H]] : bf16 to f32
// CHECK-NEXT: vector.yield %[[W]]
func.func @rounded(%m: tensor<1x64x8xf32>) -> tensor<1x8x8x8xf32> {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%x: f32):
    %zero = arith.constant 0.0 : f32
    %six = arith.constant 6.0 : f32
    %h = arith.truncf %x : f32 to bf16
    %w = arith.extf %h : bf16 to f32
    %is_positive = arith.cmpf ogt, %w, %zero : f32
    %a = arith.select %is_positive, %w, %zero : f32
    %b = arith.minimumf %a, %six : f32
    vector.yield %b : f32
  }) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>,
      output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>,
      step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}
    : (tensor<1x64x8xf32>) -> tensor<1x8x8x8xf32>
  return %y : tensor<1x8x8x8xf32>
}

// -----

// Those that it lacks don't, nor those of a number that is read rounded elsewhere, too.
// CHECK-LABEL: @rounded_first
// CHECK: arith.truncf
// CHECK-NEXT: arith.extf
// CHECK-NEXT: arith.minimumf
// CHECK-NEXT: %[[H:.*]] = arith.truncf
// CHECK-NEXT: %[[W:.*]] = arith.extf %[[H]]
// CHECK-NEXT: %[[A:.*]] = arith.maximumf %[[W]],
// CHECK-NEXT: arith.mulf %[[A]], %[[W]]
func.func @rounded_first(%m: tensor<1x64x8xf32>) -> tensor<1x8x8x8xf32> {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%x: f32):
    %tenth = arith.constant 0.1 : f32
    %zero = arith.constant 0.0 : f32
    %h = arith.truncf %x : f32 to bf16
    %w = arith.extf %h : bf16 to f32
    %a = arith.minimumf %w, %tenth : f32
    %g = arith.truncf %a : f32 to bf16
    %v = arith.extf %g : bf16 to f32
    %b = arith.maximumf %v, %zero : f32
    %c = arith.mulf %b, %v : f32
    vector.yield %c : f32
  }) {decomposition = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>,
      output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>,
      step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}, groups = 1 : i64, indexing_maps = [],
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}
    : (tensor<1x64x8xf32>) -> tensor<1x8x8x8xf32>
  return %y : tensor<1x8x8x8xf32>
}
