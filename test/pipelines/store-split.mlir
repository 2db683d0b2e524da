// RUN: winograd-opt %s --winograd-store-split --split-input-file | filecheck %s

#hopper = #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_90a", features = "+ptx80", wgp = <compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 232448, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
util.global private @device = #hal.device.target<"cuda", [#hopper]> : !hal.device
#f1 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#id = affine_map<(n, h, w, k) -> (n, h, w, k)>
#k = affine_map<(n, h, w, k) -> (k)>

// Sums of 64 products by 0.25 are at most 16 times the largest number, with a bias of 3 behind that. Pixels are
// rows of the second product's operand.
// CHECK-LABEL: @bias_and_silu
// CHECK: "winograd.output_transform"
// CHECK: math.exp
// CHECK: winograd.split_result = {addend = 3.01171875 : f64, block_rows = 128 : i64, factor = 1.606250e+01 : f64}
// CHECK: "winograd.output_transform"
// CHECK-NOT: winograd.split_result
// CHECK: return
func.func @bias_and_silu(%x: tensor<1x16x16x64xf32>) -> tensor<1x16x16x64xf32> {
  %b = arith.constant dense<-3.0> : tensor<96xf32>
  %w1 = arith.constant dense<0.25> : tensor<1x64x96xf32>
  %z1 = arith.constant dense<0.0> : tensor<1x256x96xf32>
  %v1 = "winograd.input_transform"(%x) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x64xf32>) -> tensor<1x256x64xf32>
  %m1 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v1, %w1 : tensor<1x256x64xf32>, tensor<1x64x96xf32>) outs(%z1 : tensor<1x256x96xf32>) -> tensor<1x256x96xf32>
  %y1 = "winograd.output_transform"(%m1, %b) ({
  ^bb0(%a: f32, %c: f32):
    %one = arith.constant 1.0 : f32
    %s = arith.addf %a, %c : f32
    %n = arith.negf %s : f32
    %e = math.exp %n : f32
    %d = arith.addf %e, %one : f32
    %g = arith.divf %one, %d : f32
    %r = arith.mulf %s, %g : f32
    vector.yield %r : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [#k], operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x96xf32>, tensor<96xf32>) -> tensor<1x16x16x96xf32>
  %w2 = arith.constant dense<0.25> : tensor<1x96x64xf32>
  %z2 = arith.constant dense<0.0> : tensor<1x256x64xf32>
  %v2 = "winograd.input_transform"(%y1) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x96xf32>) -> tensor<1x256x96xf32>
  %m2 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 128 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v2, %w2 : tensor<1x256x96xf32>, tensor<1x96x64xf32>) outs(%z2 : tensor<1x256x64xf32>) -> tensor<1x256x64xf32>
  %y2 = "winograd.output_transform"(%m2) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x64xf32>) -> tensor<1x16x16x64xf32>
  return %y2 : tensor<1x16x16x64xf32>
}

// -----

#hopper = #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_90a", features = "+ptx80", wgp = <compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 232448, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
util.global private @device = #hal.device.target<"cuda", [#hopper]> : !hal.device
#f1 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#id = affine_map<(n, h, w, k) -> (n, h, w, k)>
#k = affine_map<(n, h, w, k) -> (k)>

// Between products of rows and pixels.
// CHECK-LABEL: @reshaped
// CHECK: winograd.split_result
// CHECK: return
func.func @reshaped(%x: tensor<1x16x16x64xf32>) -> tensor<1x16x16x64xf32> {
  %w1 = arith.constant dense<0.25> : tensor<1x64x96xf32>
  %z1 = arith.constant dense<0.0> : tensor<1x256x96xf32>
  %v1 = "winograd.input_transform"(%x) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x64xf32>) -> tensor<1x256x64xf32>
  %m1 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v1, %w1 : tensor<1x256x64xf32>, tensor<1x64x96xf32>) outs(%z1 : tensor<1x256x96xf32>) -> tensor<1x256x96xf32>
  %y1 = "winograd.output_transform"(%m1) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x96xf32>) -> tensor<1x16x16x96xf32>
  %c = tensor.collapse_shape %y1 [[0, 1, 2], [3]] : tensor<1x16x16x96xf32> into tensor<256x96xf32>
  %r = tensor.expand_shape %c [[0, 1, 2], [3]] output_shape [1, 16, 16, 96] : tensor<256x96xf32> into tensor<1x16x16x96xf32>
  %w2 = arith.constant dense<0.25> : tensor<1x96x64xf32>
  %z2 = arith.constant dense<0.0> : tensor<1x256x64xf32>
  %v2 = "winograd.input_transform"(%r) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x96xf32>) -> tensor<1x256x96xf32>
  %m2 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v2, %w2 : tensor<1x256x96xf32>, tensor<1x96x64xf32>) outs(%z2 : tensor<1x256x64xf32>) -> tensor<1x256x64xf32>
  %y2 = "winograd.output_transform"(%m2) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x64xf32>) -> tensor<1x16x16x64xf32>
  return %y2 : tensor<1x16x16x64xf32>
}

// -----

#hopper = #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_90a", features = "+ptx80", wgp = <compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 232448, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
util.global private @device = #hal.device.target<"cuda", [#hopper]> : !hal.device
#f1 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#id = affine_map<(n, h, w, k) -> (n, h, w, k)>
#k = affine_map<(n, h, w, k) -> (k)>

// An image that is added has no bound.
// CHECK-LABEL: @added_image
// CHECK-NOT: winograd.split_result
// CHECK: return
func.func @added_image(%x: tensor<1x16x16x64xf32>, %b: tensor<1x16x16x96xf32>) -> tensor<1x16x16x64xf32> {
  %w1 = arith.constant dense<0.25> : tensor<1x64x96xf32>
  %z1 = arith.constant dense<0.0> : tensor<1x256x96xf32>
  %v1 = "winograd.input_transform"(%x) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x64xf32>) -> tensor<1x256x64xf32>
  %m1 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v1, %w1 : tensor<1x256x64xf32>, tensor<1x64x96xf32>) outs(%z1 : tensor<1x256x96xf32>) -> tensor<1x256x96xf32>
  %y1 = "winograd.output_transform"(%m1, %b) ({
  ^bb0(%a: f32, %c: f32):
    %s = arith.addf %a, %c : f32
    vector.yield %s : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [#id], operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x96xf32>, tensor<1x16x16x96xf32>) -> tensor<1x16x16x96xf32>
  %w2 = arith.constant dense<0.25> : tensor<1x96x64xf32>
  %z2 = arith.constant dense<0.0> : tensor<1x256x64xf32>
  %v2 = "winograd.input_transform"(%y1) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x96xf32>) -> tensor<1x256x96xf32>
  %m2 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v2, %w2 : tensor<1x256x96xf32>, tensor<1x96x64xf32>) outs(%z2 : tensor<1x256x64xf32>) -> tensor<1x256x64xf32>
  %y2 = "winograd.output_transform"(%m2) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x64xf32>) -> tensor<1x16x16x64xf32>
  return %y2 : tensor<1x16x16x64xf32>
}

// -----

#hopper = #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_90a", features = "+ptx80", wgp = <compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 232448, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
util.global private @device = #hal.device.target<"cuda", [#hopper]> : !hal.device
#f1 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#id = affine_map<(n, h, w, k) -> (n, h, w, k)>
#k = affine_map<(n, h, w, k) -> (k)>

// Nor has an exponential.
// CHECK-LABEL: @exponential
// CHECK-NOT: winograd.split_result
// CHECK: return
func.func @exponential(%x: tensor<1x16x16x64xf32>) -> tensor<1x16x16x64xf32> {
  %w1 = arith.constant dense<0.25> : tensor<1x64x96xf32>
  %z1 = arith.constant dense<0.0> : tensor<1x256x96xf32>
  %v1 = "winograd.input_transform"(%x) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x64xf32>) -> tensor<1x256x64xf32>
  %m1 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v1, %w1 : tensor<1x256x64xf32>, tensor<1x64x96xf32>) outs(%z1 : tensor<1x256x96xf32>) -> tensor<1x256x96xf32>
  %y1 = "winograd.output_transform"(%m1) ({
  ^bb0(%a: f32):
    %r = math.exp %a : f32
    vector.yield %r : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x96xf32>) -> tensor<1x16x16x96xf32>
  %w2 = arith.constant dense<0.25> : tensor<1x96x64xf32>
  %z2 = arith.constant dense<0.0> : tensor<1x256x64xf32>
  %v2 = "winograd.input_transform"(%y1) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x96xf32>) -> tensor<1x256x96xf32>
  %m2 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v2, %w2 : tensor<1x256x96xf32>, tensor<1x96x64xf32>) outs(%z2 : tensor<1x256x64xf32>) -> tensor<1x256x64xf32>
  %y2 = "winograd.output_transform"(%m2) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x64xf32>) -> tensor<1x16x16x64xf32>
  return %y2 : tensor<1x16x16x64xf32>
}

// -----

#hopper = #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_90a", features = "+ptx80", wgp = <compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 232448, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
util.global private @device = #hal.device.target<"cuda", [#hopper]> : !hal.device
#f1 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#id = affine_map<(n, h, w, k) -> (n, h, w, k)>
#k = affine_map<(n, h, w, k) -> (k)>

// What something else reads has to be there as it is.
// CHECK-LABEL: @read_twice
// CHECK-NOT: winograd.split_result
// CHECK: return
func.func @read_twice(%x: tensor<1x16x16x64xf32>) -> tensor<1x16x16x96xf32> {
  %w1 = arith.constant dense<0.25> : tensor<1x64x96xf32>
  %z1 = arith.constant dense<0.0> : tensor<1x256x96xf32>
  %v1 = "winograd.input_transform"(%x) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x64xf32>) -> tensor<1x256x64xf32>
  %m1 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v1, %w1 : tensor<1x256x64xf32>, tensor<1x64x96xf32>) outs(%z1 : tensor<1x256x96xf32>) -> tensor<1x256x96xf32>
  %y1 = "winograd.output_transform"(%m1) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x96xf32>) -> tensor<1x16x16x96xf32>
  %w2 = arith.constant dense<0.25> : tensor<1x96x96xf32>
  %z2 = arith.constant dense<0.0> : tensor<1x256x96xf32>
  %v2 = "winograd.input_transform"(%y1) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x96xf32>) -> tensor<1x256x96xf32>
  %m2 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v2, %w2 : tensor<1x256x96xf32>, tensor<1x96x96xf32>) outs(%z2 : tensor<1x256x96xf32>) -> tensor<1x256x96xf32>
  %y2 = "winograd.output_transform"(%m2, %y1) ({
  ^bb0(%a: f32, %c: f32):
    %s = arith.addf %a, %c : f32
    vector.yield %s : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [#id], operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x96xf32>, tensor<1x16x16x96xf32>) -> tensor<1x16x16x96xf32>
  return %y2 : tensor<1x16x16x96xf32>
}

// -----

#hopper = #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_90a", features = "+ptx80", wgp = <compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 232448, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
util.global private @device = #hal.device.target<"cuda", [#hopper]> : !hal.device
#f1 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#id = affine_map<(n, h, w, k) -> (n, h, w, k)>
#k = affine_map<(n, h, w, k) -> (k)>

// 96 channels are whole stages of 32, 80 are none.
// CHECK-LABEL: @half_stage
// CHECK-NOT: winograd.split_result
// CHECK: return
func.func @half_stage(%x: tensor<1x16x16x64xf32>) -> tensor<1x16x16x64xf32> {
  %w1 = arith.constant dense<0.25> : tensor<1x64x80xf32>
  %z1 = arith.constant dense<0.0> : tensor<1x256x80xf32>
  %v1 = "winograd.input_transform"(%x) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x64xf32>) -> tensor<1x256x64xf32>
  %m1 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v1, %w1 : tensor<1x256x64xf32>, tensor<1x64x80xf32>) outs(%z1 : tensor<1x256x80xf32>) -> tensor<1x256x80xf32>
  %y1 = "winograd.output_transform"(%m1) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x80xf32>) -> tensor<1x16x16x80xf32>
  %w2 = arith.constant dense<0.25> : tensor<1x80x64xf32>
  %z2 = arith.constant dense<0.0> : tensor<1x256x64xf32>
  %v2 = "winograd.input_transform"(%y1) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x80xf32>) -> tensor<1x256x80xf32>
  %m2 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v2, %w2 : tensor<1x256x80xf32>, tensor<1x80x64xf32>) outs(%z2 : tensor<1x256x64xf32>) -> tensor<1x256x64xf32>
  %y2 = "winograd.output_transform"(%m2) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x64xf32>) -> tensor<1x16x16x64xf32>
  return %y2 : tensor<1x16x16x64xf32>
}

// -----

#hopper = #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_90a", features = "+ptx80", wgp = <compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 232448, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
util.global private @device = #hal.device.target<"cuda", [#hopper]> : !hal.device
#f1 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#id = affine_map<(n, h, w, k) -> (n, h, w, k)>
#k = affine_map<(n, h, w, k) -> (k)>

// Sums of parts of the reduction are added by another kernel.
// CHECK-LABEL: @parts
// CHECK-NOT: winograd.split_result
// CHECK: return
func.func @parts(%x: tensor<1x16x16x64xf32>) -> tensor<1x16x16x64xf32> {
  %w1 = arith.constant dense<0.25> : tensor<1x64x96xf32>
  %z1 = arith.constant dense<0.0> : tensor<1x256x96xf32>
  %v1 = "winograd.input_transform"(%x) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x64xf32>) -> tensor<1x256x64xf32>
  %m1 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, reduction_parts = 2 : i64}} ins(%v1, %w1 : tensor<1x256x64xf32>, tensor<1x64x96xf32>) outs(%z1 : tensor<1x256x96xf32>) -> tensor<1x256x96xf32>
  %y1 = "winograd.output_transform"(%m1) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x96xf32>) -> tensor<1x16x16x96xf32>
  %w2 = arith.constant dense<0.25> : tensor<1x96x64xf32>
  %z2 = arith.constant dense<0.0> : tensor<1x256x64xf32>
  %v2 = "winograd.input_transform"(%y1) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x96xf32>) -> tensor<1x256x96xf32>
  %m2 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v2, %w2 : tensor<1x256x96xf32>, tensor<1x96x64xf32>) outs(%z2 : tensor<1x256x64xf32>) -> tensor<1x256x64xf32>
  %y2 = "winograd.output_transform"(%m2) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x64xf32>) -> tensor<1x16x16x64xf32>
  return %y2 : tensor<1x16x16x64xf32>
}

// -----

#hopper = #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_90a", features = "+ptx80", wgp = <compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 232448, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
util.global private @device = #hal.device.target<"cuda", [#hopper]> : !hal.device
#f1 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#id = affine_map<(n, h, w, k) -> (n, h, w, k)>
#k = affine_map<(n, h, w, k) -> (k)>

// A product of numbers that are rounded multiplies one of each.
// CHECK-LABEL: @rounded
// CHECK-NOT: winograd.split_result
// CHECK: return
func.func @rounded(%x: tensor<1x16x16x64xf32>) -> tensor<1x16x16x64xf32> {
  %w1 = arith.constant dense<0.25> : tensor<1x64x96xf32>
  %z1 = arith.constant dense<0.0> : tensor<1x256x96xf32>
  %v1 = "winograd.input_transform"(%x) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x64xf32>) -> tensor<1x256x64xf32>
  %m1 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v1, %w1 : tensor<1x256x64xf32>, tensor<1x64x96xf32>) outs(%z1 : tensor<1x256x96xf32>) -> tensor<1x256x96xf32>
  %y1 = "winograd.output_transform"(%m1) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x96xf32>) -> tensor<1x16x16x96xf32>
  %w2 = arith.constant dense<0.25> : tensor<1x96x64xf32>
  %z2 = arith.constant dense<0.0> : tensor<1x256x64xf32>
  %v2 = "winograd.input_transform"(%y1) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x96xf32>) -> tensor<1x256x96xf32>
  %m2 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, products = 1 : i64}} ins(%v2, %w2 : tensor<1x256x96xf32>, tensor<1x96x64xf32>) outs(%z2 : tensor<1x256x64xf32>) -> tensor<1x256x64xf32>
  %y2 = "winograd.output_transform"(%m2) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x64xf32>) -> tensor<1x16x16x64xf32>
  return %y2 : tensor<1x16x16x64xf32>
}

// -----

#hopper = #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_90a", features = "+ptx80", wgp = <compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 232448, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
util.global private @device = #hal.device.target<"cuda", [#hopper]> : !hal.device
#f1 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#id = affine_map<(n, h, w, k) -> (n, h, w, k)>
#k = affine_map<(n, h, w, k) -> (k)>

// Filters that are known only at run time have no bound.
// CHECK-LABEL: @argument
// CHECK-NOT: winograd.split_result
// CHECK: return
func.func @argument(%x: tensor<1x16x16x64xf32>, %w: tensor<1x64x96xf32>) -> tensor<1x16x16x64xf32> {
  %z1 = arith.constant dense<0.0> : tensor<1x256x96xf32>
  %v1 = "winograd.input_transform"(%x) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x64xf32>) -> tensor<1x256x64xf32>
  %m1 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v1, %w : tensor<1x256x64xf32>, tensor<1x64x96xf32>) outs(%z1 : tensor<1x256x96xf32>) -> tensor<1x256x96xf32>
  %y1 = "winograd.output_transform"(%m1) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x96xf32>) -> tensor<1x16x16x96xf32>
  %w2 = arith.constant dense<0.25> : tensor<1x96x64xf32>
  %z2 = arith.constant dense<0.0> : tensor<1x256x64xf32>
  %v2 = "winograd.input_transform"(%y1) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x96xf32>) -> tensor<1x256x96xf32>
  %m2 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v2, %w2 : tensor<1x256x96xf32>, tensor<1x96x64xf32>) outs(%z2 : tensor<1x256x64xf32>) -> tensor<1x256x64xf32>
  %y2 = "winograd.output_transform"(%m2) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x64xf32>) -> tensor<1x16x16x64xf32>
  return %y2 : tensor<1x16x16x64xf32>
}

// -----

#hopper = #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_90a", features = "+ptx80", wgp = <compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 232448, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
util.global private @device = #hal.device.target<"cuda", [#hopper]> : !hal.device
#f1 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#id = affine_map<(n, h, w, k) -> (n, h, w, k)>
#k = affine_map<(n, h, w, k) -> (k)>

// 15, 5 and 15 bits: bounds may exceed sums that are surely there by 26. The fourth result has a scale of its own,
// and the fourth product's is 5 bits more than its operand's.
// CHECK-LABEL: @bounds_of_bounds
// CHECK: %[[M1:.*]] = linalg.batch_matmul
// CHECK: "winograd.output_transform"(%[[M1]])
// CHECK: winograd.split_result
// CHECK: %[[M2:.*]] = linalg.batch_matmul
// CHECK: "winograd.output_transform"(%[[M2]])
// CHECK: winograd.split_result
// CHECK: %[[M3:.*]] = linalg.batch_matmul
// CHECK-NOT: winograd.split_result
// CHECK: %[[M4:.*]] = linalg.batch_matmul
// CHECK: "winograd.output_transform"(%[[M4]])
// CHECK: winograd.split_result
// CHECK: return
func.func @bounds_of_bounds(%x: tensor<1x16x16x32768xf32>) -> tensor<1x16x16x64xf32> {
  %w1 = arith.constant dense<0.25> : tensor<1x32768x32xf32>
  %z1 = arith.constant dense<0.0> : tensor<1x256x32xf32>
  %v1 = "winograd.input_transform"(%x) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x32768xf32>) -> tensor<1x256x32768xf32>
  %m1 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v1, %w1 : tensor<1x256x32768xf32>, tensor<1x32768x32xf32>) outs(%z1 : tensor<1x256x32xf32>) -> tensor<1x256x32xf32>
  %y1 = "winograd.output_transform"(%m1) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x32xf32>) -> tensor<1x16x16x32xf32>
  %w2 = arith.constant dense<0.25> : tensor<1x32x32768xf32>
  %z2 = arith.constant dense<0.0> : tensor<1x256x32768xf32>
  %v2 = "winograd.input_transform"(%y1) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x32xf32>) -> tensor<1x256x32xf32>
  %m2 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v2, %w2 : tensor<1x256x32xf32>, tensor<1x32x32768xf32>) outs(%z2 : tensor<1x256x32768xf32>) -> tensor<1x256x32768xf32>
  %y2 = "winograd.output_transform"(%m2) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x32768xf32>) -> tensor<1x16x16x32768xf32>
  %w3 = arith.constant dense<0.25> : tensor<1x32768x32xf32>
  %z3 = arith.constant dense<0.0> : tensor<1x256x32xf32>
  %v3 = "winograd.input_transform"(%y2) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x32768xf32>) -> tensor<1x256x32768xf32>
  %m3 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v3, %w3 : tensor<1x256x32768xf32>, tensor<1x32768x32xf32>) outs(%z3 : tensor<1x256x32xf32>) -> tensor<1x256x32xf32>
  %y3 = "winograd.output_transform"(%m3) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x32xf32>) -> tensor<1x16x16x32xf32>
  %w4 = arith.constant dense<0.25> : tensor<1x32x64xf32>
  %z4 = arith.constant dense<0.0> : tensor<1x256x64xf32>
  %v4 = "winograd.input_transform"(%y3) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x32xf32>) -> tensor<1x256x32xf32>
  %m4 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v4, %w4 : tensor<1x256x32xf32>, tensor<1x32x64xf32>) outs(%z4 : tensor<1x256x64xf32>) -> tensor<1x256x64xf32>
  %y4 = "winograd.output_transform"(%m4) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x64xf32>) -> tensor<1x16x16x64xf32>
  %w5 = arith.constant dense<0.25> : tensor<1x64x64xf32>
  %z5 = arith.constant dense<0.0> : tensor<1x256x64xf32>
  %v5 = "winograd.input_transform"(%y4) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x16x16x64xf32>) -> tensor<1x256x64xf32>
  %m5 = linalg.batch_matmul {winograd.schedule = {kind = "warpgroup", block_rows = 64 : i64, block_columns = 64 : i64, stages = 4 : i64, walking_workgroups = 132 : i64}} ins(%v5, %w5 : tensor<1x256x64xf32>, tensor<1x64x64xf32>) outs(%z5 : tensor<1x256x64xf32>) -> tensor<1x256x64xf32>
  %y5 = "winograd.output_transform"(%m5) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x64xf32>) -> tensor<1x16x16x64xf32>
  return %y5 : tensor<1x16x16x64xf32>
}
