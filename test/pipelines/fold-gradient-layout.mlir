// RUN: winograd-opt %s --winograd-fold-gradient-layout --split-input-file 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix=REMARK --input-file=%t

util.global private @device = #hal.device.target<"cuda", [
  #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_80", features = "+ptx76",
    wgp = <compute = fp32|int32, storage = b32, subgroup = none, subgroup_size_choices = [32],
      max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 166912,
      max_workgroup_counts = [2147483647, 65535, 65535]>>}>
]> : !hal.device

#f2 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 2, 2>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#images = affine_map<(a, r, k, t) -> (a, t, r)>
#gradients = affine_map<(a, r, k, t) -> (a, t, k)>
#products = affine_map<(a, r, k, t) -> (a, r, k)>

// Kernels read both operands as they are, and write the filter as the program has it.
// CHECK-LABEL: func.func @all
// CHECK-SAME: (%[[X:.*]]: tensor<2x32x8x10xf32>, %[[Y:.*]]: tensor<2x64x8x10xf32>)
// CHECK-NOT: linalg.transpose
// CHECK: %[[V:.*]] = "winograd.input_transform"(%[[X]]) {channels_first
// CHECK: %[[Z:.*]] = "winograd.gradient_transform"(%[[Y]]) {channels_first
// CHECK: %[[M:.*]] = linalg.batch_matmul {{.*}} ins(%[[V]], %[[Z]]
// CHECK: %[[W:.*]] = "winograd.filter_gradient"(%[[M]]) {{.*}}permutation = array<i64: 2, 3, 1, 0>
// CHECK-SAME: (tensor<16x32x64xf32>) -> tensor<64x32x3x3xf32>
// CHECK: return %[[W]]
func.func @all(%x: tensor<2x32x8x10xf32>, %y: tensor<2x64x8x10xf32>) -> tensor<64x32x3x3xf32> {
  %zeros = arith.constant dense<0.0> : tensor<16x32x64xf32>
  %e = tensor.empty() : tensor<2x8x10x32xf32>
  %t = linalg.transpose ins(%x : tensor<2x32x8x10xf32>) outs(%e : tensor<2x8x10x32xf32>) permutation = [0, 2, 3, 1]
  %f = tensor.empty() : tensor<2x8x10x64xf32>
  %d = linalg.transpose ins(%y : tensor<2x64x8x10xf32>) outs(%f : tensor<2x8x10x64xf32>) permutation = [0, 2, 3, 1]
  %v = "winograd.input_transform"(%t) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 1, 1>, padding_high = array<i64: 1, 1>} : (tensor<2x8x10x32xf32>) -> tensor<16x40x32xf32>
  %z = "winograd.gradient_transform"(%d) {decomposition = #f2, groups = 1 : i64} : (tensor<2x8x10x64xf32>) -> tensor<16x40x64xf32>
  %m = linalg.batch_matmul indexing_maps = [#images, #gradients, #products]
    {winograd.schedule = {kind = "multiply-add-weight-gradient", block_rows = 32 : i64, block_columns = 32 : i64, block_reduction = 16 : i64,
      tile_block = 16 : i64, thread_rows = 4 : i64, thread_columns = 4 : i64}}
    ins(%v, %z : tensor<16x40x32xf32>, tensor<16x40x64xf32>) outs(%zeros : tensor<16x32x64xf32>) -> tensor<16x32x64xf32>
  %w = "winograd.filter_gradient"(%m) {decomposition = #f2, groups = 1 : i64} : (tensor<16x32x64xf32>) -> tensor<3x3x32x64xf32>
  %h = tensor.empty() : tensor<64x32x3x3xf32>
  %g = linalg.transpose ins(%w : tensor<3x3x32x64xf32>) outs(%h : tensor<64x32x3x3xf32>) permutation = [3, 2, 0, 1]
  return %g : tensor<64x32x3x3xf32>
}

// A transposed image that something else reads is there anyway. A filter that is transposed twice is written at once.
// CHECK-LABEL: func.func @shared
// CHECK: %[[T:.*]] = linalg.transpose
// CHECK: "winograd.input_transform"(%[[T]])
// CHECK: %[[W:.*]] = "winograd.filter_gradient"{{.*}}permutation = array<i64: 1, 2, 3, 0>
// CHECK-NOT: linalg.transpose
// CHECK: return %[[T]], %[[W]]
func.func @shared(%x: tensor<2x32x8x10xf32>, %y: tensor<2x8x10x64xf32>) -> (tensor<2x8x10x32xf32>, tensor<64x3x3x32xf32>) {
  %zeros = arith.constant dense<0.0> : tensor<16x32x64xf32>
  %e = tensor.empty() : tensor<2x8x10x32xf32>
  %t = linalg.transpose ins(%x : tensor<2x32x8x10xf32>) outs(%e : tensor<2x8x10x32xf32>) permutation = [0, 2, 3, 1]
  %v = "winograd.input_transform"(%t) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 1, 1>, padding_high = array<i64: 1, 1>} : (tensor<2x8x10x32xf32>) -> tensor<16x40x32xf32>
  %z = "winograd.gradient_transform"(%y) {decomposition = #f2, groups = 1 : i64} : (tensor<2x8x10x64xf32>) -> tensor<16x40x64xf32>
  %m = linalg.batch_matmul indexing_maps = [#images, #gradients, #products]
    {winograd.schedule = {kind = "multiply-add-weight-gradient", block_rows = 32 : i64, block_columns = 32 : i64, block_reduction = 16 : i64,
      tile_block = 16 : i64, thread_rows = 4 : i64, thread_columns = 4 : i64}}
    ins(%v, %z : tensor<16x40x32xf32>, tensor<16x40x64xf32>) outs(%zeros : tensor<16x32x64xf32>) -> tensor<16x32x64xf32>
  %w = "winograd.filter_gradient"(%m) {decomposition = #f2, groups = 1 : i64} : (tensor<16x32x64xf32>) -> tensor<3x3x32x64xf32>
  %f = tensor.empty() : tensor<64x32x3x3xf32>
  %g = linalg.transpose ins(%w : tensor<3x3x32x64xf32>) outs(%f : tensor<64x32x3x3xf32>) permutation = [3, 2, 0, 1]
  %h = tensor.empty() : tensor<64x3x3x32xf32>
  %k = linalg.transpose ins(%g : tensor<64x32x3x3xf32>) outs(%h : tensor<64x3x3x32xf32>) permutation = [0, 2, 3, 1]
  return %t, %k : tensor<2x8x10x32xf32>, tensor<64x3x3x32xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#f2 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 2, 2>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#images = affine_map<(a, r, k, t) -> (a, t, r)>
#gradients = affine_map<(a, r, k, t) -> (a, t, k)>
#products = affine_map<(a, r, k, t) -> (a, r, k)>

// CHECK-LABEL: func.func @cpu
// CHECK: linalg.transpose
// CHECK: "winograd.filter_gradient"
// REMARK: linalg.transpose left as it is: {{.*}} the kernel of weight gradients reads channels-last images only
func.func @cpu(%x: tensor<2x32x8x10xf32>, %y: tensor<2x8x10x64xf32>) -> tensor<3x3x32x64xf32> {
  %zeros = arith.constant dense<0.0> : tensor<16x32x64xf32>
  %e = tensor.empty() : tensor<2x8x10x32xf32>
  %t = linalg.transpose ins(%x : tensor<2x32x8x10xf32>) outs(%e : tensor<2x8x10x32xf32>) permutation = [0, 2, 3, 1]
  %v = "winograd.input_transform"(%t) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 1, 1>, padding_high = array<i64: 1, 1>} : (tensor<2x8x10x32xf32>) -> tensor<16x40x32xf32>
  %z = "winograd.gradient_transform"(%y) {decomposition = #f2, groups = 1 : i64} : (tensor<2x8x10x64xf32>) -> tensor<16x40x64xf32>
  %m = linalg.batch_matmul indexing_maps = [#images, #gradients, #products]
    {winograd.schedule = {kind = "weight-gradient", vector_width = 8 : i64, tile_block = 16 : i64, row_block = 16 : i64, channel_block = 16 : i64, register_rows = 4 : i64, register_vectors = 2 : i64, gradient_prefetch = 8 : i64}}
    ins(%v, %z : tensor<16x40x32xf32>, tensor<16x40x64xf32>) outs(%zeros : tensor<16x32x64xf32>) -> tensor<16x32x64xf32>
  %w = "winograd.filter_gradient"(%m) {decomposition = #f2, groups = 1 : i64} : (tensor<16x32x64xf32>) -> tensor<3x3x32x64xf32>
  return %w : tensor<3x3x32x64xf32>
}
