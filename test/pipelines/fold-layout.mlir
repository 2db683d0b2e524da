// RUN: winograd-opt %s --winograd-assign-schedule --winograd-fold-layout 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=REMARK --input-file=%t

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#f2 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 2, 2>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

#strided = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 2, 2>, step = array<i64: 2, 2>, views = [array<i64: 0, 0>, array<i64: 0, 1>, array<i64: 0, 2>, array<i64: 1, 0>, array<i64: 1, 1>, array<i64: 1, 2>, array<i64: 2, 0>, array<i64: 2, 1>, array<i64: 2, 2>]}

// The transforms read and write the program's images.
// CHECK-LABEL: func.func @both
// CHECK-SAME: (%[[X:.*]]: tensor<1x8x10x8xf32>
// CHECK-NOT: linalg.transpose
// CHECK: %[[V:.*]] = "winograd.input_transform"(%[[X]]) {channels_first
// CHECK: %[[M:.*]] = linalg.batch_matmul {{.*}} ins(%[[V]]
// CHECK: %[[Y:.*]] = "winograd.output_transform"(%[[M]], %{{.*}})
// CHECK: arith.addf
// CHECK: channels_first
// CHECK-SAME: (tensor<16x12x4xf32>, tensor<4xf32>) -> tensor<1x4x8x6xf32>
// CHECK-NOT: linalg.transpose
// CHECK: return %[[Y]]
func.func @both(%x: tensor<1x8x10x8xf32>, %u: tensor<16x8x4xf32>, %bias: tensor<4xf32>) -> tensor<1x4x8x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<16x12x4xf32>
  %e = tensor.empty() : tensor<1x10x8x8xf32>
  %t = linalg.transpose ins(%x : tensor<1x8x10x8xf32>) outs(%e : tensor<1x10x8x8xf32>) permutation = [0, 2, 3, 1]
  %v = "winograd.input_transform"(%t) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x10x8x8xf32>) -> tensor<16x12x8xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<16x12x8xf32>, tensor<16x8x4xf32>) outs(%zeros : tensor<16x12x4xf32>) -> tensor<16x12x4xf32>
  %y = "winograd.output_transform"(%m, %bias) ({
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    vector.yield %s : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [affine_map<(n, h, w, k) -> (k)>], operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x12x4xf32>, tensor<4xf32>) -> tensor<1x8x6x4xf32>
  %f = tensor.empty() : tensor<1x4x8x6xf32>
  %r = linalg.transpose ins(%y : tensor<1x8x6x4xf32>) outs(%f : tensor<1x4x8x6xf32>) permutation = [0, 3, 1, 2]
  return %r : tensor<1x4x8x6xf32>
}

// A transposed image that something else reads is there anyway, and so is an output.
// CHECK-LABEL: func.func @shared
// CHECK: %[[T:.*]] = linalg.transpose
// CHECK: "winograd.input_transform"(%[[T]])
// CHECK: %[[Y:.*]] = "winograd.output_transform"
// CHECK: %[[R:.*]] = linalg.transpose ins(%[[Y]]
// CHECK: return %[[T]], %[[Y]], %[[R]]
// REMARK-DAG: linalg.transpose left as it is: something else reads the transposed image, too
// REMARK-DAG: linalg.transpose left as it is: something else reads the convolution's output, too
func.func @shared(%x: tensor<1x8x10x8xf32>, %u: tensor<16x8x4xf32>) -> (tensor<1x10x8x8xf32>, tensor<1x8x6x4xf32>, tensor<1x4x8x6xf32>) {
  %zeros = arith.constant dense<0.0> : tensor<16x12x4xf32>
  %e = tensor.empty() : tensor<1x10x8x8xf32>
  %t = linalg.transpose ins(%x : tensor<1x8x10x8xf32>) outs(%e : tensor<1x10x8x8xf32>) permutation = [0, 2, 3, 1]
  %v = "winograd.input_transform"(%t) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x10x8x8xf32>) -> tensor<16x12x8xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<16x12x8xf32>, tensor<16x8x4xf32>) outs(%zeros : tensor<16x12x4xf32>) -> tensor<16x12x4xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x12x4xf32>) -> tensor<1x8x6x4xf32>
  %f = tensor.empty() : tensor<1x4x8x6xf32>
  %r = linalg.transpose ins(%y : tensor<1x8x6x4xf32>) outs(%f : tensor<1x4x8x6xf32>) permutation = [0, 3, 1, 2]
  return %t, %y, %r : tensor<1x10x8x8xf32>, tensor<1x8x6x4xf32>, tensor<1x4x8x6xf32>
}

// What the kernels can't read stays transposed; other transpositions are nothing to take in.
// CHECK-LABEL: func.func @direct
// CHECK: %[[T:.*]] = linalg.transpose
// CHECK: "winograd.input_transform"(%[[T]])
// CHECK: %[[Y:.*]] = "winograd.output_transform"
// CHECK: linalg.transpose ins(%[[Y]] {{.*}} permutation = [0, 2, 1, 3]
// REMARK-DAG: linalg.transpose left as it is: {{.*}} the direct kernel reads channels-last images only
func.func @direct(%x: tensor<1x12x7x8xf32>, %u: tensor<1x12x8xf32>) -> tensor<1x8x7x8xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x56x8xf32>
  %e = tensor.empty() : tensor<1x7x8x12xf32>
  %t = linalg.transpose ins(%x : tensor<1x12x7x8xf32>) outs(%e : tensor<1x7x8x12xf32>) permutation = [0, 2, 3, 1]
  %v = "winograd.input_transform"(%t) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x7x8x12xf32>) -> tensor<1x56x12xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<1x56x12xf32>, tensor<1x12x8xf32>) outs(%zeros : tensor<1x56x8xf32>) -> tensor<1x56x8xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x56x8xf32>) -> tensor<1x7x8x8xf32>
  %f = tensor.empty() : tensor<1x8x7x8xf32>
  %r = linalg.transpose ins(%y : tensor<1x7x8x8xf32>) outs(%f : tensor<1x8x7x8xf32>) permutation = [0, 2, 1, 3]
  return %r : tensor<1x8x7x8xf32>
}

// A few channels are interleaved as they are copied between zeros, by a direct kernel of any stride.
// CHECK-LABEL: func.func @stem
// CHECK-SAME: (%[[X:.*]]: tensor<1x3x20x20xf32>
// CHECK-NOT: linalg.transpose
// CHECK: "winograd.input_transform"(%[[X]]) {channels_first
func.func @stem(%x: tensor<1x3x20x20xf32>, %u: tensor<1x27x32xf32>) -> tensor<1x10x10x32xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x100x32xf32>
  %e = tensor.empty() : tensor<1x20x20x3xf32>
  %t = linalg.transpose ins(%x : tensor<1x3x20x20xf32>) outs(%e : tensor<1x20x20x3xf32>) permutation = [0, 2, 3, 1]
  %v = "winograd.input_transform"(%t) {decomposition = #strided, groups = 1 : i64, padding_low = array<i64: 1, 1>, padding_high = array<i64: 1, 1>} : (tensor<1x20x20x3xf32>) -> tensor<1x100x27xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<1x100x27xf32>, tensor<1x27x32xf32>) outs(%zeros : tensor<1x100x32xf32>) -> tensor<1x100x32xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #strided, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x100x32xf32>) -> tensor<1x10x10x32xf32>
  return %y : tensor<1x10x10x32xf32>
}

// So are filters: transposed, and reversed as for the gradient of an image.
// CHECK-LABEL: func.func @gradient_filter
// CHECK-SAME: (%{{.*}}: tensor<1x8x10x8xf32>, %[[W:.*]]: tensor<8x4x3x3xf32>)
// CHECK-NOT: tensor.extract
// CHECK: "winograd.filter_transform"(%[[W]]) {{.*}}flipped{{.*}}permutation = array<i64: 2, 3, 0, 1>} : (tensor<8x4x3x3xf32>) -> tensor<16x8x4xf32>
func.func @gradient_filter(%x: tensor<1x8x10x8xf32>, %w: tensor<8x4x3x3xf32>) -> tensor<1x6x8x4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<16x12x4xf32>
  %e = tensor.empty() : tensor<4x8x3x3xf32>
  %c2 = arith.constant 2 : index
  %flipped = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<4x8x3x3xf32>) {
  ^bb0(%out: f32):
    %0 = linalg.index 0 : index
    %1 = linalg.index 1 : index
    %2 = linalg.index 2 : index
    %3 = linalg.index 3 : index
    %4 = arith.subi %c2, %2 : index
    %5 = arith.subi %c2, %3 : index
    %6 = tensor.extract %w[%1, %0, %4, %5] : tensor<8x4x3x3xf32>
    linalg.yield %6 : f32
  } -> tensor<4x8x3x3xf32>
  %f = tensor.empty() : tensor<3x3x8x4xf32>
  %t = linalg.transpose ins(%flipped : tensor<4x8x3x3xf32>) outs(%f : tensor<3x3x8x4xf32>) permutation = [2, 3, 1, 0]
  %u = "winograd.filter_transform"(%t) {decomposition = #f2, groups = 1 : i64} : (tensor<3x3x8x4xf32>) -> tensor<16x8x4xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x8x10x8xf32>) -> tensor<16x12x8xf32>
  %m = linalg.batch_matmul ins(%v, %u : tensor<16x12x8xf32>, tensor<16x8x4xf32>) outs(%zeros : tensor<16x12x4xf32>) -> tensor<16x12x4xf32>
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f2, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16x12x4xf32>) -> tensor<1x6x8x4xf32>
  return %y : tensor<1x6x8x4xf32>
}
