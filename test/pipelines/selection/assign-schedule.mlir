// RUN: winograd-opt --winograd-assign-schedule --split-input-file %s | filecheck %s
// RUN: winograd-opt --winograd-assign-schedule=threads=4 --split-input-file %s | filecheck %s --check-prefix=THREADS
// RUN: not winograd-opt --winograd-assign-schedule=machine=%t.none --split-input-file %s 2>&1 | filecheck %s --check-prefix=MISSING

#f2 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 2, 2>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// The product of a convolution that nobody scheduled gets the default schedule for the module's target.
// MISSING: error: the machine can't be read: {{.*}}No such file or directory
// CHECK-LABEL: @unscheduled
// CHECK: linalg.batch_matmul {winograd.schedule = {{{.*}}kind = "winograd"{{.*}}vector_width = 16
// THREADS-LABEL: @unscheduled
// THREADS: linalg.batch_matmul {winograd.schedule = {
func.func @unscheduled(%x: tensor<1x30x30x64xf32>, %u: tensor<16x64x64xf32>) -> tensor<1x28x28x64xf32> {
  %zeros = arith.constant dense<0.0> : tensor<16x196x64xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x30x30x64xf32>) -> tensor<16x196x64xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<16x196x64xf32>, tensor<16x64x64xf32>) outs(%zeros : tensor<16x196x64xf32>) -> tensor<16x196x64xf32>
  %r = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x196x64xf32>) -> tensor<1x28x28x64xf32>
  return %r : tensor<1x28x28x64xf32>
}

// -----

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// A schedule that is there is kept, whatever it is.
// CHECK-LABEL: @scheduled
// CHECK: linalg.batch_matmul {winograd.schedule = {kind = "direct", pixel_block = 7 : i64, register_pixels = 1 : i64, register_vectors = 1 : i64, row_block = 1 : i64, vector_width = 4 : i64}}
func.func @scheduled(%x: tensor<1x7x7x8xf32>, %u: tensor<1x8x4xf32>) -> tensor<1x7x7x4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x49x4xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x7x7x8xf32>) -> tensor<1x49x8xf32>
  %m = linalg.batch_matmul {winograd.schedule = {kind = "direct", pixel_block = 7 : i64, register_pixels = 1 : i64, register_vectors = 1 : i64, row_block = 1 : i64, vector_width = 4 : i64}} ins(%v, %u : tensor<1x49x8xf32>, tensor<1x8x4xf32>) outs(%zeros : tensor<1x49x4xf32>) -> tensor<1x49x4xf32>
  %r = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  return %r : tensor<1x7x7x4xf32>
}
