// RUN: winograd-opt %s --winograd-lower-to-dispatch | filecheck %s

util.global private @device = #hal.device.target<"cuda", [
  #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_80", features = "+ptx76",
    wgp = <compute = fp32|int32, storage = b32, subgroup = none, subgroup_size_choices = [32],
      max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 166912,
      max_workgroup_counts = [2147483647, 65535, 65535]>>}>
]> : !hal.device

#f2 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 2, 2>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#images = affine_map<(a, r, k, t) -> (a, t, r)>
#gradients = affine_map<(a, r, k, t) -> (a, t, k)>
#products = affine_map<(a, r, k, t) -> (a, r, k)>

// 40 tiles are three blocks of 16, each summed by workgroups of its own.
// CHECK-LABEL: func.func @in_blocks
// CHECK-SAME: (%[[X:.*]]: tensor<2x8x10x32xf32>, %[[Y:.*]]: tensor<2x8x10x64xf32>)
// CHECK: %[[V:.*]] = flow.dispatch @[[IMAGES:winograd_images_.*]]::@[[IMAGES]](%[[X]]) : (tensor<2x8x10x32xf32>) -> tensor<3x16x16x32xf32>
// CHECK: %[[Z:.*]] = flow.dispatch @winograd_gradients_{{.*}}(%[[Y]]) : (tensor<2x8x10x64xf32>) -> tensor<3x16x16x64xf32>
// CHECK: %[[M:.*]] = flow.dispatch @winograd_products_{{.*}}(%[[V]], %[[Z]]) : {{.*}} -> tensor<3x16x32x64xf32>
// CHECK: %[[S:.*]] = flow.dispatch @winograd_total_{{.*}}(%[[M]]) : {{.*}} -> tensor<1x16x32x64xf32>
// CHECK: %[[W:.*]] = flow.dispatch @winograd_weights_{{.*}}(%[[S]]) : (tensor<1x16x32x64xf32>) -> tensor<3x3x32x64xf32>
// CHECK: return %[[W]]
func.func @in_blocks(%x: tensor<2x8x10x32xf32>, %y: tensor<2x8x10x64xf32>) -> tensor<3x3x32x64xf32> {
  %zeros = arith.constant dense<0.0> : tensor<16x32x64xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #f2, groups = 1 : i64, padding_low = array<i64: 1, 1>, padding_high = array<i64: 1, 1>} : (tensor<2x8x10x32xf32>) -> tensor<16x40x32xf32>
  %z = "winograd.gradient_transform"(%y) {decomposition = #f2, groups = 1 : i64} : (tensor<2x8x10x64xf32>) -> tensor<16x40x64xf32>
  %m = linalg.batch_matmul indexing_maps = [#images, #gradients, #products]
    {winograd.schedule = {kind = "multiply-add-weight-gradient", block_rows = 32 : i64, block_columns = 32 : i64, block_reduction = 16 : i64,
      tile_block = 16 : i64, thread_rows = 4 : i64, thread_columns = 4 : i64}}
    ins(%v, %z : tensor<16x40x32xf32>, tensor<16x40x64xf32>) outs(%zeros : tensor<16x32x64xf32>) -> tensor<16x32x64xf32>
  %w = "winograd.filter_gradient"(%m) {decomposition = #f2, groups = 1 : i64} : (tensor<16x32x64xf32>) -> tensor<3x3x32x64xf32>
  return %w : tensor<3x3x32x64xf32>
}

// Where whole blocks are what there is, the operands of a pointwise convolution's gradient are multiplied as they are.
// CHECK-LABEL: func.func @in_place
// CHECK-SAME: (%[[X:.*]]: tensor<2x8x4x32xf32>, %[[Y:.*]]: tensor<2x8x4x64xf32>)
// CHECK-NEXT: %[[M:.*]] = flow.dispatch @winograd_products_{{.*}}(%[[X]], %[[Y]]) : {{.*}} -> tensor<1x1x32x64xf32>
// CHECK-NEXT: flow.dispatch @winograd_weights_{{.*}}(%[[M]]) : {{.*}} -> tensor<1x1x32x64xf32>
func.func @in_place(%x: tensor<2x8x4x32xf32>, %y: tensor<2x8x4x64xf32>) -> tensor<1x1x32x64xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x32x64xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<2x8x4x32xf32>) -> tensor<1x64x32xf32>
  %z = "winograd.gradient_transform"(%y) {decomposition = #direct, groups = 1 : i64} : (tensor<2x8x4x64xf32>) -> tensor<1x64x64xf32>
  %m = linalg.batch_matmul indexing_maps = [#images, #gradients, #products]
    {winograd.schedule = {kind = "multiply-add-weight-gradient", block_rows = 32 : i64, block_columns = 32 : i64, block_reduction = 16 : i64,
      tile_block = 64 : i64, thread_rows = 4 : i64, thread_columns = 4 : i64}}
    ins(%v, %z : tensor<1x64x32xf32>, tensor<1x64x64xf32>) outs(%zeros : tensor<1x32x64xf32>) -> tensor<1x32x64xf32>
  %w = "winograd.filter_gradient"(%m) {decomposition = #direct, groups = 1 : i64} : (tensor<1x32x64xf32>) -> tensor<1x1x32x64xf32>
  return %w : tensor<1x1x32x64xf32>
}
