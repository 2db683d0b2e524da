// RUN: winograd-opt %s --winograd-lower-to-dispatch | filecheck %s

#hopper = #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_90a", features = "+ptx80", wgp = <compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 232448, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
util.global private @device = #hal.device.target<"cuda", [#hopper]> : !hal.device
#f1 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// Each product has a kernel, the first one another before it. What they pass to each other are blocks of 128 rows, with
// a scale of each behind them: 64 + 1 and 96 + 1 numbers of 4 bytes for each pixel.
// CHECK-LABEL: @pair
// CHECK-SAME: %[[X:.*]]: tensor<1x16x16x64xf32>
// CHECK: %[[SPLIT:.*]] = flow.dispatch @winograd_input{{.*}}(%[[X]]) : (tensor<1x16x16x64xf32>) -> tensor<2x8320xf32>
// CHECK: %[[BOUND:.*]] = arith.constant dense_resource<winograd_bound_of_result> : tensor<2xf32>
// CHECK: %[[Y:.*]] = flow.dispatch @winograd_direct{{.*}}(%[[SPLIT]], %{{.*}}, %[[BOUND]]) : (tensor<2x8320xf32>, {{.*}}, tensor<2xf32>) -> tensor<2x12416xf32>
// CHECK-NOT: winograd_input
// CHECK: %[[R:.*]] = flow.dispatch @winograd_direct{{.*}}(%[[Y]], %{{.*}}) : (tensor<2x12416xf32>, {{.*}}) -> tensor<1x16x16x64xf32>
// CHECK-NOT: unrealized_conversion_cast
// CHECK: return %[[R]]
func.func @pair(%x: tensor<1x16x16x64xf32>) -> tensor<1x16x16x64xf32> {
  %w1 = arith.constant dense<0.25> : tensor<1x64x96xf32>
  %w2 = arith.constant dense<0.25> : tensor<1x96x64xf32>
  %z1 = arith.constant dense<0.0> : tensor<1x256x96xf32>
  %z2 = arith.constant dense<0.0> : tensor<1x256x64xf32>
  %v1 = "winograd.input_transform"(%x) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x64xf32>) -> tensor<1x256x64xf32>
  %m1 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 128 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v1, %w1 : tensor<1x256x64xf32>, tensor<1x64x96xf32>) outs(%z1 : tensor<1x256x96xf32>) -> tensor<1x256x96xf32>
  %y1 = "winograd.output_transform"(%m1) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>, winograd.split_result = {block_rows = 128 : i64, factor = 16.0625 : f64, addend = 0.0 : f64}} : (tensor<1x256x96xf32>) -> tensor<1x16x16x96xf32>
  %c = tensor.collapse_shape %y1 [[0, 1, 2], [3]] : tensor<1x16x16x96xf32> into tensor<256x96xf32>
  %e = tensor.expand_shape %c [[0, 1, 2], [3]] output_shape [1, 16, 16, 96] : tensor<256x96xf32> into tensor<1x16x16x96xf32>
  %v2 = "winograd.input_transform"(%e) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x96xf32>) -> tensor<1x256x96xf32>
  %m2 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 128 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v2, %w2 : tensor<1x256x96xf32>, tensor<1x96x64xf32>) outs(%z2 : tensor<1x256x64xf32>) -> tensor<1x256x64xf32>
  %y2 = "winograd.output_transform"(%m2) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x64xf32>) -> tensor<1x16x16x64xf32>
  return %y2 : tensor<1x16x16x64xf32>
}
