// RUN: winograd-opt --winograd-unroll-pooling --split-input-file %s 2>%t.err | filecheck %s
// RUN: winograd-opt --winograd-unroll-pooling --split-input-file --verify-diagnostics %s

// Sums across the channels of images, which local response normalization makes of its input.
// CHECK-LABEL: @across_channels
// CHECK-SAME: (%[[X:.*]]: tensor<1x98x7x6x1xf32>)
// CHECK-DAG: %[[A:.*]] = tensor.extract_slice %[[X]][0, 0, 0, 0, 0] [1, 96, 7, 6, 1] [1, 1, 1, 1, 1]
// CHECK-DAG: %[[B:.*]] = tensor.extract_slice %[[X]][0, 1, 0, 0, 0] [1, 96, 7, 6, 1] [1, 1, 1, 1, 1]
// CHECK-DAG: %[[C:.*]] = tensor.extract_slice %[[X]][0, 2, 0, 0, 0] [1, 96, 7, 6, 1] [1, 1, 1, 1, 1]
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[B]], %[[C]]
// CHECK: %[[FIRST:.*]] = arith.addf %[[P:.*]], %[[Q:.*]] : f32
// CHECK-NEXT: %[[BOTH:.*]] = arith.addf %[[FIRST]], %[[R:.*]] : f32
// CHECK-NEXT: linalg.yield %[[BOTH]]
// CHECK: return %[[SUM]]
func.func @across_channels(%x: tensor<1x98x7x6x1xf32>) -> tensor<1x96x7x6x1xf32> {
  %zero = arith.constant 0.0 : f32
  %w = tensor.empty() : tensor<3x1x1xf32>
  %e = tensor.empty() : tensor<1x96x7x6x1xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x96x7x6x1xf32>) -> tensor<1x96x7x6x1xf32>
  %r = linalg.pooling_ndhwc_sum {dilations = dense<1> : vector<3xi64>, strides = dense<1> : vector<3xi64>}
    ins(%x, %w : tensor<1x98x7x6x1xf32>, tensor<3x1x1xf32>) outs(%f : tensor<1x96x7x6x1xf32>) -> tensor<1x96x7x6x1xf32>
  return %r : tensor<1x96x7x6x1xf32>
}

// -----

// Windows of two dimensions, or longer ones, or several channels, are IREE's to pool; and so is what isn't a plain sum.
// CHECK-LABEL: @others
// CHECK-COUNT-5: linalg.pooling_nhwc_sum
// CHECK-NOT: tensor.extract_slice
func.func @others(%x: tensor<1x16x16x1xf32>, %y: tensor<1x16x16x4xf32>, %init: tensor<1x14x16x1xf32>)
    -> (tensor<1x14x14x1xf32>, tensor<1x7x16x1xf32>, tensor<1x14x16x4xf32>, tensor<1x7x16x1xf32>, tensor<1x14x16x1xf32>) {
  %zero = arith.constant 0.0 : f32
  %w3x3 = tensor.empty() : tensor<3x3xf32>
  %w10x1 = tensor.empty() : tensor<10x1xf32>
  %w3x1 = tensor.empty() : tensor<3x1xf32>
  %e0 = tensor.empty() : tensor<1x14x14x1xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<1x14x14x1xf32>) -> tensor<1x14x14x1xf32>
  %e1 = tensor.empty() : tensor<1x7x16x1xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1x7x16x1xf32>) -> tensor<1x7x16x1xf32>
  %e2 = tensor.empty() : tensor<1x14x16x4xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<1x14x16x4xf32>) -> tensor<1x14x16x4xf32>
  // expected-remark @below {{its window spans 2 dimensions}}
  %0 = linalg.pooling_nhwc_sum {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%x, %w3x3 : tensor<1x16x16x1xf32>, tensor<3x3xf32>) outs(%f0 : tensor<1x14x14x1xf32>) -> tensor<1x14x14x1xf32>
  // expected-remark @below {{its window holds more than 9 elements}}
  %1 = linalg.pooling_nhwc_sum {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%x, %w10x1 : tensor<1x16x16x1xf32>, tensor<10x1xf32>) outs(%f1 : tensor<1x7x16x1xf32>) -> tensor<1x7x16x1xf32>
  %2 = linalg.pooling_nhwc_sum {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%y, %w3x1 : tensor<1x16x16x4xf32>, tensor<3x1xf32>) outs(%f2 : tensor<1x14x16x4xf32>) -> tensor<1x14x16x4xf32>
  // expected-remark @below {{its strides and dilations are not all 1}}
  %3 = linalg.pooling_nhwc_sum {dilations = dense<1> : vector<2xi64>, strides = dense<[2, 1]> : vector<2xi64>}
    ins(%x, %w3x1 : tensor<1x16x16x1xf32>, tensor<3x1xf32>) outs(%f1 : tensor<1x7x16x1xf32>) -> tensor<1x7x16x1xf32>
  // expected-remark @below {{it adds to something else than zeros}}
  %4 = linalg.pooling_nhwc_sum {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%x, %w3x1 : tensor<1x16x16x1xf32>, tensor<3x1xf32>) outs(%init : tensor<1x14x16x1xf32>) -> tensor<1x14x16x1xf32>
  return %0, %1, %2, %3, %4 : tensor<1x14x14x1xf32>, tensor<1x7x16x1xf32>, tensor<1x14x16x4xf32>, tensor<1x7x16x1xf32>, tensor<1x14x16x1xf32>
}

// -----

// Sums of integers, and of numbers that are converted first.
// CHECK-LABEL: @other_types
// CHECK-COUNT-2: linalg.pooling_nhwc_sum
// CHECK-NOT: tensor.extract_slice
func.func @other_types(%x: tensor<1x16x16x1xi32>, %y: tensor<1x16x16x1xf16>) -> (tensor<1x14x16x1xi32>, tensor<1x14x16x1xf32>) {
  %zero = arith.constant 0.0 : f32
  %wx = tensor.empty() : tensor<3x1xi32>
  %wy = tensor.empty() : tensor<3x1xf16>
  %fx = arith.constant dense<0> : tensor<1x14x16x1xi32>
  %ey = tensor.empty() : tensor<1x14x16x1xf32>
  %fy = linalg.fill ins(%zero : f32) outs(%ey : tensor<1x14x16x1xf32>) -> tensor<1x14x16x1xf32>
  // expected-remark @below {{it does more than to add floating-point numbers}}
  %0 = linalg.pooling_nhwc_sum {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%x, %wx : tensor<1x16x16x1xi32>, tensor<3x1xi32>) outs(%fx : tensor<1x14x16x1xi32>) -> tensor<1x14x16x1xi32>
  // expected-remark @below {{it does more than to add floating-point numbers}}
  %1 = linalg.pooling_nhwc_sum {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%y, %wy : tensor<1x16x16x1xf16>, tensor<3x1xf16>) outs(%fy : tensor<1x14x16x1xf32>) -> tensor<1x14x16x1xf32>
  return %0, %1 : tensor<1x14x16x1xi32>, tensor<1x14x16x1xf32>
}
