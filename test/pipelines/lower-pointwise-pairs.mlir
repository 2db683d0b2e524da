// RUN: winograd-opt --winograd-lower-pointwise-pairs --split-input-file %s | filecheck %s

#hopper = #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_90a", features = "+ptx80", wgp = <compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 232448, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
util.global private @device = #hal.device.target<"cuda", [#hopper]> : !hal.device
#f1 = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#warpgroup = {kind = "warpgroup", block_rows = 128 : i64, block_columns = 96 : i64, products = 1 : i64, multiplied_type = "f16", stages = 4 : i64, walking_workgroups = 132 : i64, box_rows = 128 : i64}
#id = affine_map<(n, h, w, k) -> (n, h, w, k)>
#k = affine_map<(n, h, w, k) -> (k)>

// A bias and an activation are between the layers, a bias and a residual behind them.
// CHECK-LABEL: func.func @pair
// CHECK-SAME: (%[[X:.*]]: tensor<32x56x56x96xf16>)
// CHECK-NOT: winograd.
// CHECK: %[[Y:.*]] = flow.dispatch @winograd_pair_{{.*}}(%[[X]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[X]]) : (tensor<32x56x56x96xf16>, {{.*}}, tensor<384xf32>, tensor<96xf32>, tensor<32x56x56x96xf16>) -> tensor<32x56x56x96xf16>
// CHECK-NEXT: return %[[Y]]
func.func @pair(%x: tensor<32x56x56x96xf16>) -> tensor<32x56x56x96xf16> {
  %w1 = arith.constant dense<0.25> : tensor<1x96x384xf32>
  %w2 = arith.constant dense<0.25> : tensor<1x384x96xf32>
  %b1 = arith.constant dense<0.5> : tensor<384xf32>
  %b2 = arith.constant dense<0.5> : tensor<96xf32>
  %z1 = arith.constant dense<0.0> : tensor<1x100352x384xf32>
  %z2 = arith.constant dense<0.0> : tensor<1x100352x96xf32>
  %v1 = "winograd.input_transform"(%x) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<32x56x56x96xf16>) -> tensor<1x100352x96xf32>
  %m1 = linalg.batch_matmul {winograd.schedule = #warpgroup} ins(%v1, %w1 : tensor<1x100352x96xf32>, tensor<1x96x384xf32>) outs(%z1 : tensor<1x100352x384xf32>) -> tensor<1x100352x384xf32>
  %y1 = "winograd.output_transform"(%m1, %b1) ({
  ^bb0(%a: f32, %b: f32):
    %zero = arith.constant 0.0 : f32
    %s = arith.addf %a, %b : f32
    %r = arith.maximumf %s, %zero : f32
    %h = arith.truncf %r : f32 to f16
    vector.yield %h : f16
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [#k], operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x100352x384xf32>, tensor<384xf32>) -> tensor<32x56x56x384xf16>
  %v2 = "winograd.input_transform"(%y1) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<32x56x56x384xf16>) -> tensor<1x100352x384xf32>
  %m2 = linalg.batch_matmul {winograd.schedule = #warpgroup} ins(%v2, %w2 : tensor<1x100352x384xf32>, tensor<1x384x96xf32>) outs(%z2 : tensor<1x100352x96xf32>) -> tensor<1x100352x96xf32>
  %y2 = "winograd.output_transform"(%m2, %b2, %x) ({
  ^bb0(%a: f32, %b: f32, %c: f16):
    %s = arith.addf %a, %b : f32
    %w = arith.extf %c : f16 to f32
    %t = arith.addf %s, %w : f32
    %h = arith.truncf %t : f32 to f16
    vector.yield %h : f16
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [#k, #id], operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0>} : (tensor<1x100352x96xf32>, tensor<96xf32>, tensor<32x56x56x96xf16>) -> tensor<32x56x56x96xf16>
  return %y2 : tensor<32x56x56x96xf16>
}

// What is between the layers is a result, too.
// CHECK-LABEL: func.func @read_twice
// CHECK: "winograd.output_transform"
// CHECK: "winograd.output_transform"
func.func @read_twice(%x: tensor<32x56x56x96xf16>) -> (tensor<32x56x56x384xf16>, tensor<32x56x56x96xf16>) {
  %w1 = arith.constant dense<0.25> : tensor<1x96x384xf32>
  %w2 = arith.constant dense<0.25> : tensor<1x384x96xf32>
  %z1 = arith.constant dense<0.0> : tensor<1x100352x384xf32>
  %z2 = arith.constant dense<0.0> : tensor<1x100352x96xf32>
  %v1 = "winograd.input_transform"(%x) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<32x56x56x96xf16>) -> tensor<1x100352x96xf32>
  %m1 = linalg.batch_matmul {winograd.schedule = #warpgroup} ins(%v1, %w1 : tensor<1x100352x96xf32>, tensor<1x96x384xf32>) outs(%z1 : tensor<1x100352x384xf32>) -> tensor<1x100352x384xf32>
  %y1 = "winograd.output_transform"(%m1) ({
  ^bb0(%a: f32):
    %h = arith.truncf %a : f32 to f16
    vector.yield %h : f16
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x100352x384xf32>) -> tensor<32x56x56x384xf16>
  %v2 = "winograd.input_transform"(%y1) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<32x56x56x384xf16>) -> tensor<1x100352x384xf32>
  %m2 = linalg.batch_matmul {winograd.schedule = #warpgroup} ins(%v2, %w2 : tensor<1x100352x384xf32>, tensor<1x384x96xf32>) outs(%z2 : tensor<1x100352x96xf32>) -> tensor<1x100352x96xf32>
  %y2 = "winograd.output_transform"(%m2) ({
  ^bb0(%a: f32):
    %h = arith.truncf %a : f32 to f16
    vector.yield %h : f16
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x100352x96xf32>) -> tensor<32x56x56x96xf16>
  return %y1, %y2 : tensor<32x56x56x384xf16>, tensor<32x56x56x96xf16>
}

// An image that is added between the layers is as large as what is stored there.
// CHECK-LABEL: func.func @image_between
// CHECK: "winograd.output_transform"
// CHECK: "winograd.output_transform"
func.func @image_between(%x: tensor<32x56x56x96xf16>, %r: tensor<32x56x56x384xf16>) -> tensor<32x56x56x96xf16> {
  %w1 = arith.constant dense<0.25> : tensor<1x96x384xf32>
  %w2 = arith.constant dense<0.25> : tensor<1x384x96xf32>
  %z1 = arith.constant dense<0.0> : tensor<1x100352x384xf32>
  %z2 = arith.constant dense<0.0> : tensor<1x100352x96xf32>
  %v1 = "winograd.input_transform"(%x) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<32x56x56x96xf16>) -> tensor<1x100352x96xf32>
  %m1 = linalg.batch_matmul {winograd.schedule = #warpgroup} ins(%v1, %w1 : tensor<1x100352x96xf32>, tensor<1x96x384xf32>) outs(%z1 : tensor<1x100352x384xf32>) -> tensor<1x100352x384xf32>
  %y1 = "winograd.output_transform"(%m1, %r) ({
  ^bb0(%a: f32, %b: f16):
    %w = arith.extf %b : f16 to f32
    %s = arith.addf %a, %w : f32
    %h = arith.truncf %s : f32 to f16
    vector.yield %h : f16
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [#id], operandSegmentSizes = array<i32: 1, 0, 1, 0, 0, 0, 0, 0, 0>} : (tensor<1x100352x384xf32>, tensor<32x56x56x384xf16>) -> tensor<32x56x56x384xf16>
  %v2 = "winograd.input_transform"(%y1) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<32x56x56x384xf16>) -> tensor<1x100352x384xf32>
  %m2 = linalg.batch_matmul {winograd.schedule = #warpgroup} ins(%v2, %w2 : tensor<1x100352x384xf32>, tensor<1x384x96xf32>) outs(%z2 : tensor<1x100352x96xf32>) -> tensor<1x100352x96xf32>
  %y2 = "winograd.output_transform"(%m2) ({
  ^bb0(%a: f32):
    %h = arith.truncf %a : f32 to f16
    vector.yield %h : f16
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x100352x96xf32>) -> tensor<32x56x56x96xf16>
  return %y2 : tensor<32x56x56x96xf16>
}

// Threads have no registers for sums of so many outputs.
// CHECK-LABEL: func.func @many_outputs
// CHECK: "winograd.output_transform"
// CHECK: "winograd.output_transform"
func.func @many_outputs(%x: tensor<1x14x14x96xf16>) -> tensor<1x14x14x320xf16> {
  %w1 = arith.constant dense<0.25> : tensor<1x96x384xf32>
  %w2 = arith.constant dense<0.25> : tensor<1x384x320xf32>
  %z1 = arith.constant dense<0.0> : tensor<1x196x384xf32>
  %z2 = arith.constant dense<0.0> : tensor<1x196x320xf32>
  %v1 = "winograd.input_transform"(%x) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x14x14x96xf16>) -> tensor<1x196x96xf32>
  %m1 = linalg.batch_matmul {winograd.schedule = #warpgroup} ins(%v1, %w1 : tensor<1x196x96xf32>, tensor<1x96x384xf32>) outs(%z1 : tensor<1x196x384xf32>) -> tensor<1x196x384xf32>
  %y1 = "winograd.output_transform"(%m1) ({
  ^bb0(%a: f32):
    %h = arith.truncf %a : f32 to f16
    vector.yield %h : f16
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x196x384xf32>) -> tensor<1x14x14x384xf16>
  %v2 = "winograd.input_transform"(%y1) {decomposition = #f1, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x14x14x384xf16>) -> tensor<1x196x384xf32>
  %m2 = linalg.batch_matmul {winograd.schedule = #warpgroup} ins(%v2, %w2 : tensor<1x196x384xf32>, tensor<1x384x320xf32>) outs(%z2 : tensor<1x196x320xf32>) -> tensor<1x196x320xf32>
  %y2 = "winograd.output_transform"(%m2) ({
  ^bb0(%a: f32):
    %h = arith.truncf %a : f32 to f16
    vector.yield %h : f16
  }) {decomposition = #f1, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x196x320xf32>) -> tensor<1x14x14x320xf16>
  return %y2 : tensor<1x14x14x320xf16>
}
