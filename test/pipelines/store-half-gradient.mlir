// RUN: winograd-opt %s --winograd-store-half-gradient --split-input-file | filecheck %s

util.global private @device = #hal.device.target<"cuda", [
  #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_80", features = "+ptx76",
    wgp = <compute = fp32|int32, storage = b32, subgroup = none, subgroup_size_choices = [32],
      max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 166912,
      max_workgroup_counts = [2147483647, 65535, 65535]>>}>
]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#id = affine_map<(n, h, w, c) -> (n, h, w, c)>
#images = affine_map<(a, r, k, t) -> (a, t, r)>
#gradients = affine_map<(a, r, k, t) -> (a, t, k)>
#products = affine_map<(a, r, k, t) -> (a, r, k)>

// Both operands are read, and the filter is written, as the program has them, wherever they were moved.
// CHECK-LABEL: func.func @all
// CHECK-SAME: (%[[X:.*]]: tensor<2x8x8x32xf16>, %[[Y:.*]]: tensor<2x8x8x64xf16>)
// CHECK-NOT: arith.extf
// CHECK: %[[V:.*]] = "winograd.input_transform"(%[[X]]) {{.*}} : (tensor<2x8x8x32xf16>) -> tensor<1x128x32xf32>
// CHECK: %[[Z:.*]] = "winograd.gradient_transform"(%[[Y]]) {{.*}} : (tensor<2x8x8x64xf16>) -> tensor<1x128x64xf32>
// CHECK: %[[M:.*]] = linalg.batch_matmul {{.*}} ins(%[[V]], %[[Z]]
// CHECK: %[[W:.*]] = "winograd.filter_gradient"(%[[M]]) {{.*}} -> tensor<1x1x32x64xf16>
// CHECK: %[[G:.*]] = linalg.transpose ins(%[[W]]
// CHECK-NOT: arith.truncf
// CHECK: return %[[G]]
func.func @all(%x: tensor<2x8x8x32xf16>, %y: tensor<2x8x8x64xf16>) -> tensor<64x32x1x1xf16> {
  %zeros = arith.constant dense<0.0> : tensor<1x32x64xf32>
  %e = tensor.empty() : tensor<2x8x8x32xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x : tensor<2x8x8x32xf16>) outs(%e : tensor<2x8x8x32xf32>) {
  ^bb0(%in: f16, %out: f32):
    %1 = arith.extf %in : f16 to f32
    linalg.yield %1 : f32
  } -> tensor<2x8x8x32xf32>
  %f = tensor.empty() : tensor<2x8x8x64xf32>
  %d = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%y : tensor<2x8x8x64xf16>) outs(%f : tensor<2x8x8x64xf32>) {
  ^bb0(%in: f16, %out: f32):
    %1 = arith.extf %in : f16 to f32
    linalg.yield %1 : f32
  } -> tensor<2x8x8x64xf32>
  %v = "winograd.input_transform"(%w) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<2x8x8x32xf32>) -> tensor<1x128x32xf32>
  %z = "winograd.gradient_transform"(%d) {decomposition = #direct, groups = 1 : i64} : (tensor<2x8x8x64xf32>) -> tensor<1x128x64xf32>
  %m = linalg.batch_matmul indexing_maps = [#images, #gradients, #products]
    {winograd.schedule = {kind = "half-weight-gradient", block_rows = 64 : i64, block_columns = 64 : i64, tile_block = 32 : i64,
      warp_rows = 32 : i64, warp_columns = 32 : i64, stages = 3 : i64, resident_workgroups = 2 : i64, multiplied_type = "f16"}}
    ins(%v, %z : tensor<1x128x32xf32>, tensor<1x128x64xf32>) outs(%zeros : tensor<1x32x64xf32>) -> tensor<1x32x64xf32>
  %g = "winograd.filter_gradient"(%m) {decomposition = #direct, groups = 1 : i64} : (tensor<1x32x64xf32>) -> tensor<1x1x32x64xf32>
  %h = tensor.empty() : tensor<64x32x1x1xf32>
  %t = linalg.transpose ins(%g : tensor<1x1x32x64xf32>) outs(%h : tensor<64x32x1x1xf32>) permutation = [3, 2, 0, 1]
  %r = tensor.empty() : tensor<64x32x1x1xf16>
  %rounded = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%t : tensor<64x32x1x1xf32>) outs(%r : tensor<64x32x1x1xf16>) {
  ^bb0(%in: f32, %out: f16):
    %1 = arith.truncf %in : f32 to f16
    linalg.yield %1 : f16
  } -> tensor<64x32x1x1xf16>
  return %rounded : tensor<64x32x1x1xf16>
}

// -----

util.global private @device = #hal.device.target<"cuda", [
  #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_80", features = "+ptx76",
    wgp = <compute = fp32|int32, storage = b32, subgroup = none, subgroup_size_choices = [32],
      max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 166912,
      max_workgroup_counts = [2147483647, 65535, 65535]>>}>
]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#id = affine_map<(n, h, w, c) -> (n, h, w, c)>
#images = affine_map<(a, r, k, t) -> (a, t, r)>
#gradients = affine_map<(a, r, k, t) -> (a, t, k)>
#products = affine_map<(a, r, k, t) -> (a, r, k)>

// Kernels that multiply f32 where it is have it widened before.
// CHECK-LABEL: func.func @left
// CHECK: arith.extf
// CHECK: "winograd.input_transform"{{.*}} : (tensor<2x8x8x32xf32>)
func.func @left(%x: tensor<2x8x8x32xf16>, %y: tensor<2x8x8x64xf32>) -> tensor<1x1x32x64xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x32x64xf32>
  %e = tensor.empty() : tensor<2x8x8x32xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%x : tensor<2x8x8x32xf16>) outs(%e : tensor<2x8x8x32xf32>) {
  ^bb0(%in: f16, %out: f32):
    %1 = arith.extf %in : f16 to f32
    linalg.yield %1 : f32
  } -> tensor<2x8x8x32xf32>
  %v = "winograd.input_transform"(%w) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<2x8x8x32xf32>) -> tensor<1x128x32xf32>
  %z = "winograd.gradient_transform"(%y) {decomposition = #direct, groups = 1 : i64} : (tensor<2x8x8x64xf32>) -> tensor<1x128x64xf32>
  %m = linalg.batch_matmul indexing_maps = [#images, #gradients, #products]
    {winograd.schedule = {kind = "multiply-add-weight-gradient", block_rows = 32 : i64, block_columns = 32 : i64, block_reduction = 16 : i64,
      tile_block = 16 : i64, thread_rows = 4 : i64, thread_columns = 4 : i64}}
    ins(%v, %z : tensor<1x128x32xf32>, tensor<1x128x64xf32>) outs(%zeros : tensor<1x32x64xf32>) -> tensor<1x32x64xf32>
  %g = "winograd.filter_gradient"(%m) {decomposition = #direct, groups = 1 : i64} : (tensor<1x32x64xf32>) -> tensor<1x1x32x64xf32>
  return %g : tensor<1x1x32x64xf32>
}
