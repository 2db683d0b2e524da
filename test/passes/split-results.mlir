// RUN: winograd-opt --winograd-split-results --split-input-file %s 2>%t.err | filecheck %s
// RUN: winograd-opt --winograd-split-results --split-input-file --verify-diagnostics %s

#nchw = affine_map<(n, c, h, w) -> (n, c, h, w)>
#channel = affine_map<(n, c, h, w) -> (c)>

// Each result is computed from what it needs.
// CHECK-LABEL: @square_and_sum
// CHECK-SAME: (%[[X:.*]]: tensor<1x4x8x8xf32>, %[[B:.*]]: tensor<4xf32>, %[[W:.*]]: tensor<6x4x3x3xf32>
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<1x4x8x8xf32>)
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %{{.*}}: f32):
// CHECK-NEXT: %[[SQUARE:.*]] = arith.mulf %[[A]], %[[A]]
// CHECK-NEXT: linalg.yield %[[SQUARE]]
// CHECK: %[[T:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[B]] : tensor<1x4x8x8xf32>, tensor<4xf32>)
// CHECK: arith.addf
// CHECK-NEXT: linalg.yield
// CHECK: %[[R:.*]] = linalg.conv_2d_nchw_fchw ins(%[[S]], %[[W]]
// CHECK: return %[[R]], %[[T]]
func.func @square_and_sum(%x: tensor<1x4x8x8xf32>, %b: tensor<4xf32>, %w: tensor<6x4x3x3xf32>,
    %init: tensor<1x6x6x6xf32>) -> (tensor<1x6x6x6xf32>, tensor<1x4x8x8xf32>) {
  %e = tensor.empty() : tensor<1x4x8x8xf32>
  %r:2 = linalg.generic {indexing_maps = [#nchw, #channel, #nchw, #nchw],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x, %b : tensor<1x4x8x8xf32>, tensor<4xf32>) outs(%e, %e : tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) {
  ^bb0(%a: f32, %bias: f32, %o0: f32, %o1: f32):
    %s = arith.mulf %a, %a : f32
    %t = arith.addf %a, %bias : f32
    linalg.yield %s, %t : f32, f32
  } -> (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>)
  %c = linalg.conv_2d_nchw_fchw ins(%r#0, %w : tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>)
    outs(%init : tensor<1x6x6x6xf32>) -> tensor<1x6x6x6xf32>
  return %c, %r#1 : tensor<1x6x6x6xf32>, tensor<1x4x8x8xf32>
}

// -----

#nchw = affine_map<(n, c, h, w) -> (n, c, h, w)>
#nhcw = affine_map<(n, c, h, w) -> (n, h, c, w)>

// An initial value that another result is computed from is one more operand; indices and layouts stay. A result
// that nothing uses is not computed.
// CHECK-LABEL: @from_the_initial_values
// CHECK-SAME: (%[[X:.*]]: tensor<1x4x8x8xf32>, %[[I:.*]]: tensor<1x4x8x8xf32>, %[[J:.*]]: tensor<1x8x4x8xf32>
// CHECK-NOT: arith.mulf
// CHECK: linalg.generic {{.*}} ins(%[[I]] : tensor<1x4x8x8xf32>) outs(%[[J]] : tensor<1x8x4x8xf32>)
// CHECK-NEXT: ^bb0(%[[FIRST:.*]]: f32, %[[SECOND:.*]]: f32):
// CHECK-NEXT: %[[COLUMN:.*]] = linalg.index 3
// CHECK: %[[SUM:.*]] = arith.addf %[[FIRST]], %[[SECOND]]
// CHECK-NOT: arith.mulf
// CHECK: return
func.func @from_the_initial_values(%x: tensor<1x4x8x8xf32>, %i: tensor<1x4x8x8xf32>, %j: tensor<1x8x4x8xf32>,
    %w: tensor<6x4x3x3xf32>, %init: tensor<1x6x6x6xf32>) -> (tensor<1x6x6x6xf32>, tensor<1x8x4x8xf32>) {
  %r:2 = linalg.generic {indexing_maps = [#nchw, #nchw, #nhcw],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x : tensor<1x4x8x8xf32>) outs(%i, %j : tensor<1x4x8x8xf32>, tensor<1x8x4x8xf32>) {
  ^bb0(%a: f32, %first: f32, %second: f32):
    %unused = arith.mulf %a, %first : f32
    %column = linalg.index 3 : index
    %integer = arith.index_cast %column : index to i32
    %number = arith.sitofp %integer : i32 to f32
    %s = arith.addf %first, %second : f32
    %t = arith.addf %s, %number : f32
    linalg.yield %unused, %t : f32, f32
  } -> (tensor<1x4x8x8xf32>, tensor<1x8x4x8xf32>)
  %c = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>)
    outs(%init : tensor<1x6x6x6xf32>) -> tensor<1x6x6x6xf32>
  return %c, %r#1 : tensor<1x6x6x6xf32>, tensor<1x8x4x8xf32>
}

// -----

#nk = affine_map<(n, k) -> (n, k)>
#n = affine_map<(n, k) -> (n)>

// The largest element and its number come from one comparison.
// CHECK-LABEL: @largest
// CHECK: linalg.generic
// CHECK: -> (tensor<2xf32>, tensor<2xi64>)
func.func @largest(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>, %init: tensor<1x6x6x6xf32>, %scores: tensor<2x9xf32>,
    %least: tensor<2xf32>, %zero: tensor<2xi64>) -> (tensor<1x6x6x6xf32>, tensor<2xf32>, tensor<2xi64>) {
  %c = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>)
    outs(%init : tensor<1x6x6x6xf32>) -> tensor<1x6x6x6xf32>
  // expected-remark@+1 {{linalg.generic left as it is: it sums, or selects among, several elements}}
  %r:2 = linalg.generic {indexing_maps = [#nk, #n, #n], iterator_types = ["parallel", "reduction"]}
    ins(%scores : tensor<2x9xf32>) outs(%least, %zero : tensor<2xf32>, tensor<2xi64>) {
  ^bb0(%a: f32, %most: f32, %at: i64):
    %number = linalg.index 1 : index
    %here = arith.index_cast %number : index to i64
    %more = arith.cmpf ogt, %a, %most : f32
    %value = arith.select %more, %a, %most : f32
    %place = arith.select %more, %here, %at : i64
    linalg.yield %value, %place : f32, i64
  } -> (tensor<2xf32>, tensor<2xi64>)
  return %c, %r#0, %r#1 : tensor<1x6x6x6xf32>, tensor<2xf32>, tensor<2xi64>
}

// -----

#n = affine_map<(n) -> (n)>

// Nothing to do with convolutions.
// CHECK-LABEL: @no_convolution
// CHECK: linalg.generic
// CHECK: -> (tensor<8xf32>, tensor<8xf32>)
func.func @no_convolution(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %r:2 = linalg.generic {indexing_maps = [#n, #n, #n], iterator_types = ["parallel"]}
    ins(%x : tensor<8xf32>) outs(%x, %x : tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%a: f32, %o0: f32, %o1: f32):
    %s = arith.mulf %a, %a : f32
    %t = arith.addf %a, %a : f32
    linalg.yield %s, %t : f32, f32
  } -> (tensor<8xf32>, tensor<8xf32>)
  return %r#0, %r#1 : tensor<8xf32>, tensor<8xf32>
}
