// RUN: winograd-opt --winograd-expect-sizes %s | filecheck %s
// RUN: winograd-opt --winograd-expect-sizes=size-hint=48,64 %s | filecheck %s --check-prefix=HINT
// RUN: winograd-opt --winograd-expect-sizes=size-hint=32,48,64 %s | filecheck %s --check-prefix=BATCH
// RUN: winograd-opt --winograd-expect-sizes=size-hint=40 %s | filecheck %s --check-prefix=ONE

// Of an image 224 by 224 are expected, with padding 226; what the next convolution reads is half of that.
// CHECK-LABEL: @two_layers
// CHECK: linalg.conv_2d_nchw_fchw {winograd.expected_size = array<i64: 226, 226>,
// CHECK: linalg.conv_2d_nchw_fchw {{.*}}winograd.expected_size = array<i64: 112, 112>,
// HINT-LABEL: @two_layers
// HINT: winograd.expected_size = array<i64: 50, 66>
// HINT: winograd.expected_size = array<i64: 24, 32>
func.func @two_layers(%x: tensor<1x3x?x?xf32>, %w: tensor<8x3x3x3xf32>, %v: tensor<4x8x1x1xf32>)
    -> tensor<1x4x?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %three = arith.constant 3 : index
  %height = tensor.dim %x, %two : tensor<1x3x?x?xf32>
  %width = tensor.dim %x, %three : tensor<1x3x?x?xf32>
  %last_row = arith.subi %height, %one : index
  %last_column = arith.subi %width, %one : index
  %half_rows = arith.floordivsi %last_row, %two : index
  %half_columns = arith.floordivsi %last_column, %two : index
  %rows = arith.addi %half_rows, %one : index
  %columns = arith.addi %half_columns, %one : index
  %padded = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %zero : f32
  } : tensor<1x3x?x?xf32> to tensor<1x3x?x?xf32>
  %empty = tensor.empty(%rows, %columns) : tensor<1x8x?x?xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x8x?x?xf32>) -> tensor<1x8x?x?xf32>
  %r = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<2> : vector<2xi64>}
    ins(%padded, %w : tensor<1x3x?x?xf32>, tensor<8x3x3x3xf32>)
    outs(%zeros : tensor<1x8x?x?xf32>) -> tensor<1x8x?x?xf32>
  %next = tensor.empty(%rows, %columns) : tensor<1x4x?x?xf32>
  %s = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%r, %v : tensor<1x8x?x?xf32>, tensor<4x8x1x1xf32>)
    outs(%next : tensor<1x4x?x?xf32>) -> tensor<1x4x?x?xf32>
  return %s : tensor<1x4x?x?xf32>
}

// An output that may be smaller than the input allows is none that kernels compute.
// CHECK-LABEL: @unrelated
// CHECK-NOT: winograd.expected_size
func.func @unrelated(%x: tensor<1x?x16x8xf32>, %w: tensor<3x3x8x4xf32>, %y: tensor<1x?x14x4xf32>)
    -> tensor<1x?x14x4xf32> {
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%x, %w : tensor<1x?x16x8xf32>, tensor<3x3x8x4xf32>)
    outs(%y : tensor<1x?x14x4xf32>) -> tensor<1x?x14x4xf32>
  return %r : tensor<1x?x14x4xf32>
}

// Nor is one that is cut off at sizes far from those that are expected.
// CHECK-LABEL: @clipped
// CHECK-NOT: winograd.expected_size
func.func @clipped(%x: tensor<1x?x16x8xf32>, %w: tensor<3x3x8x4xf32>) -> tensor<1x?x14x4xf32> {
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %most = arith.constant 100000 : index
  %height = tensor.dim %x, %one : tensor<1x?x16x8xf32>
  %allowed = arith.subi %height, %two : index
  %rows = arith.minsi %allowed, %most : index
  %y = tensor.empty(%rows) : tensor<1x?x14x4xf32>
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%x, %w : tensor<1x?x16x8xf32>, tensor<3x3x8x4xf32>)
    outs(%y : tensor<1x?x14x4xf32>) -> tensor<1x?x14x4xf32>
  return %r : tensor<1x?x14x4xf32>
}

// Halves of halves are quarters, whatever they are computed by.
// CHECK-LABEL: @rounded_twice
// CHECK: linalg.conv_2d_nhwc_hwcf {{.*}}winograd.expected_size = array<i64: 56, 16>
func.func @rounded_twice(%x: tensor<1x?x16x8xf32>, %w: tensor<3x3x8x4xf32>) -> tensor<1x?x14x4xf32> {
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %height = tensor.dim %x, %one : tensor<1x?x16x8xf32>
  %half = arith.floordivsi %height, %two : index
  %quarter = arith.divsi %half, %two : index
  %read = tensor.extract_slice %x[0, 0, 0, 0] [1, %quarter, 16, 8] [1, 1, 1, 1]
    : tensor<1x?x16x8xf32> to tensor<1x?x16x8xf32>
  %rows = affine.apply affine_map<()[s] -> ((s - 8) floordiv 4)>()[%height]
  %y = tensor.empty(%rows) : tensor<1x?x14x4xf32>
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%read, %w : tensor<1x?x16x8xf32>, tensor<3x3x8x4xf32>)
    outs(%y : tensor<1x?x14x4xf32>) -> tensor<1x?x14x4xf32>
  return %r : tensor<1x?x14x4xf32>
}

// Image and gradient of a filter's gradient are arguments: the image is expected that allows the outputs.
// CHECK-LABEL: @gradient
// CHECK: linalg.generic {{.*}}winograd.expected_size = array<i64: 449, 65>
// HINT-LABEL: @gradient
// HINT: linalg.generic {{.*}}winograd.expected_size = array<i64: 129, 65>
#read = affine_map<(k, c, r, s, n, i, j) -> (n, i * 2 + r, j * 2 + s, c)>
#outputs = affine_map<(k, c, r, s, n, i, j) -> (n, i, j, k)>
#taps = affine_map<(k, c, r, s, n, i, j) -> (r, s, c, k)>
func.func @gradient(%x: tensor<?x?x65x8xf32>, %y: tensor<?x?x32x4xf32>, %w: tensor<3x3x8x4xf32>)
    -> tensor<3x3x8x4xf32> {
  %r = linalg.generic {indexing_maps = [#read, #outputs, #taps],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %y : tensor<?x?x65x8xf32>, tensor<?x?x32x4xf32>) outs(%w : tensor<3x3x8x4xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  } -> tensor<3x3x8x4xf32>
  return %r : tensor<3x3x8x4xf32>
}

// A number of images is expected where the hint has one for each open size, the batch first; of a layer that
// reads half of the images half as many.
// CHECK-LABEL: @batch
// CHECK-NOT: winograd.expected_batch
// HINT-LABEL: @batch
// HINT-NOT: winograd.expected_batch
// BATCH-LABEL: @batch
// BATCH: winograd.expected_batch = 32 : i64, winograd.expected_size = array<i64: 48, 64>
// BATCH: winograd.expected_batch = 16 : i64, winograd.expected_size = array<i64: 48, 64>
func.func @batch(%x: tensor<?x?x?x8xf32>, %w: tensor<1x1x8x4xf32>) -> (tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %images = tensor.dim %x, %zero : tensor<?x?x?x8xf32>
  %rows = tensor.dim %x, %one : tensor<?x?x?x8xf32>
  %columns = tensor.dim %x, %two : tensor<?x?x?x8xf32>
  %y = tensor.empty(%images, %rows, %columns) : tensor<?x?x?x4xf32>
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%x, %w : tensor<?x?x?x8xf32>, tensor<1x1x8x4xf32>)
    outs(%y : tensor<?x?x?x4xf32>) -> tensor<?x?x?x4xf32>
  %half = arith.floordivsi %images, %two : index
  %some = tensor.extract_slice %x[0, 0, 0, 0] [%half, %rows, %columns, 8] [1, 1, 1, 1]
    : tensor<?x?x?x8xf32> to tensor<?x?x?x8xf32>
  %z = tensor.empty(%half, %rows, %columns) : tensor<?x?x?x4xf32>
  %s = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%some, %w : tensor<?x?x?x8xf32>, tensor<1x1x8x4xf32>)
    outs(%z : tensor<?x?x?x4xf32>) -> tensor<?x?x?x4xf32>
  return %r, %s : tensor<?x?x?x4xf32>, tensor<?x?x?x4xf32>
}

// The number is of the height, which is open of the first images, not of the others' batch.
// ONE-LABEL: @others
// ONE-NOT: winograd.expected_batch
// ONE: linalg.conv_2d_nhwc_hwcf {{.*}}winograd.expected_size = array<i64: 40, 16>
// ONE-NOT: winograd.expected_batch
func.func @others(%x: tensor<1x?x16x8xf32>, %y: tensor<?x16x16x8xf32>, %w: tensor<1x1x8x4xf32>)
    -> (tensor<1x?x16x4xf32>, tensor<?x16x16x4xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %rows = tensor.dim %x, %one : tensor<1x?x16x8xf32>
  %images = tensor.dim %y, %zero : tensor<?x16x16x8xf32>
  %z = tensor.empty(%rows) : tensor<1x?x16x4xf32>
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%x, %w : tensor<1x?x16x8xf32>, tensor<1x1x8x4xf32>)
    outs(%z : tensor<1x?x16x4xf32>) -> tensor<1x?x16x4xf32>
  %v = tensor.empty(%images) : tensor<?x16x16x4xf32>
  %s = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}
    ins(%y, %w : tensor<?x16x16x8xf32>, tensor<1x1x8x4xf32>)
    outs(%v : tensor<?x16x16x4xf32>) -> tensor<?x16x16x4xf32>
  return %r, %s : tensor<1x?x16x4xf32>, tensor<?x16x16x4xf32>
}
