// RUN: winograd-opt --winograd-merge-quantization --split-input-file %s | filecheck %s

#nchw = affine_map<(n, c, h, w) -> (n, c, h, w)>

// The byte is gone: f32 holds it, and what is subtracted from it.
// CHECK-LABEL: @between_layers
// CHECK-SAME: (%[[X:.*]]: tensor<1x4x8x8xf32>
// CHECK-NOT: i8
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<1x4x8x8xf32>)
// CHECK: %[[KEPT:.*]] = arith.minimumf
// CHECK: %[[ZERO:.*]] = arith.constant 3.000000e+00 : f32
// CHECK-NEXT: %[[MOVED:.*]] = arith.subf %[[KEPT]], %[[ZERO]] : f32
// CHECK: arith.mulf %[[MOVED]]
// CHECK: linalg.conv_2d_nchw_fchw ins(%[[R]],
func.func @between_layers(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>, %init: tensor<1x6x6x6xf32>)
    -> tensor<1x6x6x6xf32> {
  %scale = arith.constant 0.05 : f32
  %zero = arith.constant 3.0 : f32
  %least = arith.constant -128.0 : f32
  %most = arith.constant 127.0 : f32
  %integer = arith.constant 3 : i64
  %bytes = tensor.empty() : tensor<1x4x8x8xi8>
  %e = tensor.empty() : tensor<1x4x8x8xf32>
  %q = linalg.generic {indexing_maps = [#nchw, #nchw],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x : tensor<1x4x8x8xf32>) outs(%bytes : tensor<1x4x8x8xi8>) {
  ^bb0(%in: f32, %out: i8):
    %a = arith.divf %in, %scale : f32
    %b = math.roundeven %a : f32
    %c = arith.addf %b, %zero : f32
    %d = arith.maximumf %c, %least : f32
    %f = arith.minimumf %d, %most : f32
    %g = arith.fptosi %f : f32 to i8
    linalg.yield %g : i8
  } -> tensor<1x4x8x8xi8>
  %r = linalg.generic {indexing_maps = [#nchw, #nchw],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%q : tensor<1x4x8x8xi8>) outs(%e : tensor<1x4x8x8xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.extsi %in : i8 to i64
    %b = arith.subi %a, %integer : i64
    %c = arith.sitofp %b : i64 to f32
    %d = arith.mulf %c, %scale : f32
    linalg.yield %d : f32
  } -> tensor<1x4x8x8xf32>
  %y = linalg.conv_2d_nchw_fchw ins(%r, %w : tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>)
    outs(%init : tensor<1x6x6x6xf32>) -> tensor<1x6x6x6xf32>
  return %y : tensor<1x6x6x6xf32>
}

// -----

#nchw = affine_map<(n, c, h, w) -> (n, c, h, w)>

// A number up to 255 is read with a sign: the byte is another number.
// CHECK-LABEL: @another_number
// CHECK: arith.fptosi
// CHECK: arith.extsi
func.func @another_number(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>, %init: tensor<1x6x6x6xf32>)
    -> tensor<1x6x6x6xf32> {
  %least = arith.constant 0.0 : f32
  %most = arith.constant 255.0 : f32
  %bytes = tensor.empty() : tensor<1x4x8x8xi8>
  %e = tensor.empty() : tensor<1x4x8x8xf32>
  %q = linalg.generic {indexing_maps = [#nchw, #nchw],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x : tensor<1x4x8x8xf32>) outs(%bytes : tensor<1x4x8x8xi8>) {
  ^bb0(%in: f32, %out: i8):
    %b = math.roundeven %in : f32
    %d = arith.maximumf %b, %least : f32
    %f = arith.minimumf %d, %most : f32
    %g = arith.fptosi %f : f32 to i8
    linalg.yield %g : i8
  } -> tensor<1x4x8x8xi8>
  %r = linalg.generic {indexing_maps = [#nchw, #nchw],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%q : tensor<1x4x8x8xi8>) outs(%e : tensor<1x4x8x8xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.extsi %in : i8 to i64
    %c = arith.sitofp %a : i64 to f32
    linalg.yield %c : f32
  } -> tensor<1x4x8x8xf32>
  %y = linalg.conv_2d_nchw_fchw ins(%r, %w : tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>)
    outs(%init : tensor<1x6x6x6xf32>) -> tensor<1x6x6x6xf32>
  return %y : tensor<1x6x6x6xf32>
}

// -----

#nchw = affine_map<(n, c, h, w) -> (n, c, h, w)>

// The same of integers of 16 bits.
// CHECK-LABEL: @of_16_bits
// CHECK-SAME: (%[[X:.*]]: tensor<1x4x8x8xf32>
// CHECK-NOT: i16
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<1x4x8x8xf32>)
// CHECK: %[[KEPT:.*]] = arith.minimumf
// CHECK: %[[ZERO:.*]] = arith.constant 3.000000e+00 : f32
// CHECK-NEXT: %[[MOVED:.*]] = arith.subf %[[KEPT]], %[[ZERO]] : f32
// CHECK: arith.mulf %[[MOVED]]
// CHECK: linalg.conv_2d_nchw_fchw ins(%[[R]],
func.func @of_16_bits(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>, %init: tensor<1x6x6x6xf32>)
    -> tensor<1x6x6x6xf32> {
  %scale = arith.constant 0.05 : f32
  %zero = arith.constant 3.0 : f32
  %least = arith.constant -32768.0 : f32
  %most = arith.constant 32767.0 : f32
  %integer = arith.constant 3 : i64
  %bytes = tensor.empty() : tensor<1x4x8x8xi16>
  %e = tensor.empty() : tensor<1x4x8x8xf32>
  %q = linalg.generic {indexing_maps = [#nchw, #nchw],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x : tensor<1x4x8x8xf32>) outs(%bytes : tensor<1x4x8x8xi16>) {
  ^bb0(%in: f32, %out: i16):
    %a = arith.divf %in, %scale : f32
    %b = math.roundeven %a : f32
    %c = arith.addf %b, %zero : f32
    %d = arith.maximumf %c, %least : f32
    %f = arith.minimumf %d, %most : f32
    %g = arith.fptosi %f : f32 to i16
    linalg.yield %g : i16
  } -> tensor<1x4x8x8xi16>
  %r = linalg.generic {indexing_maps = [#nchw, #nchw],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%q : tensor<1x4x8x8xi16>) outs(%e : tensor<1x4x8x8xf32>) {
  ^bb0(%in: i16, %out: f32):
    %a = arith.extsi %in : i16 to i64
    %b = arith.subi %a, %integer : i64
    %c = arith.sitofp %b : i64 to f32
    %d = arith.mulf %c, %scale : f32
    linalg.yield %d : f32
  } -> tensor<1x4x8x8xf32>
  %y = linalg.conv_2d_nchw_fchw ins(%r, %w : tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>)
    outs(%init : tensor<1x6x6x6xf32>) -> tensor<1x6x6x6xf32>
  return %y : tensor<1x6x6x6xf32>
}
