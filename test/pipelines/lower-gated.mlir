// RUN: winograd-opt --winograd-assign-schedule --winograd-lower-gated --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"cuda", [
  #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_80", features = "", wgp = <
    compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024],
    max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 166912, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
]> : !hal.device

#direct = {dilation = array<i64: 1>, kernel_size = array<i64: 1>, output_tile = array<i64: 1>, part_size = array<i64: 1>, spacing = array<i64: 1>, step = array<i64: 1>, views = [array<i64: 0>]}
#tokens = affine_map<(n, t, c) -> (n, t, c)>

// The kernel of the product, whose filters and bias are in another order, gives half as many channels.
// CHECK-LABEL: func.func @gated
// CHECK-SAME: (%[[X:.*]]: tensor<1x64x16xf32>)
// CHECK-NOT: linalg.generic
// CHECK: %[[Z:.*]] = flow.dispatch @winograd_gated_{{.*}}(%[[X]], %{{.*}}, %{{.*}}) : (tensor<1x64x16xf32>, {{.*}}, tensor<48xf32>) -> tensor<1x64x24xf32>
// CHECK-NOT: linalg.generic
// CHECK: tensor.collapse_shape %[[Z]]
func.func @gated(%x: tensor<1x64x16xf32>) -> tensor<64x24xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x64x48xf32>
  %f = arith.constant dense<1.0> : tensor<1x16x48xf32>
  %bias = arith.constant dense<2.0> : tensor<48xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0>, padding_high = array<i64: 0>} : (tensor<1x64x16xf32>) -> tensor<1x64x16xf32>
  %m = linalg.batch_matmul ins(%v, %f : tensor<1x64x16xf32>, tensor<1x16x48xf32>) outs(%zeros : tensor<1x64x48xf32>) -> tensor<1x64x48xf32>
  %p = "winograd.output_transform"(%m, %bias) ({
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    vector.yield %s : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [affine_map<(n, t, k) -> (k)>], operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x64x48xf32>, tensor<48xf32>) -> tensor<1x64x48xf32>
  %y = tensor.extract_slice %p[0, 0, 0] [1, 64, 24] [1, 1, 1] : tensor<1x64x48xf32> to tensor<1x64x24xf32>
  %g = tensor.extract_slice %p[0, 0, 24] [1, 64, 24] [1, 1, 1] : tensor<1x64x48xf32> to tensor<1x64x24xf32>
  %e = tensor.empty() : tensor<1x64x24xf32>
  %t = linalg.generic {indexing_maps = [#tokens, #tokens], iterator_types = ["parallel", "parallel", "parallel"]} ins(%g : tensor<1x64x24xf32>) outs(%e : tensor<1x64x24xf32>) {
  ^bb0(%a: f32, %out: f32):
    %h = math.tanh %a : f32
    linalg.yield %h : f32
  } -> tensor<1x64x24xf32>
  %z = linalg.generic {indexing_maps = [#tokens, #tokens, #tokens], iterator_types = ["parallel", "parallel", "parallel"]} ins(%y, %t : tensor<1x64x24xf32>, tensor<1x64x24xf32>) outs(%e : tensor<1x64x24xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<1x64x24xf32>
  %r = tensor.collapse_shape %z [[0, 1], [2]] : tensor<1x64x24xf32> into tensor<64x24xf32>
  return %r : tensor<64x24xf32>
}

// Left are products that something else reads, too.
// CHECK-LABEL: func.func @left
// CHECK: "winograd.output_transform"
// CHECK: linalg.generic
func.func @left(%x: tensor<1x64x16xf32>) -> (tensor<64x24xf32>, tensor<1x64x48xf32>) {
  %zeros = arith.constant dense<0.0> : tensor<1x64x48xf32>
  %f = arith.constant dense<1.0> : tensor<1x16x48xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0>, padding_high = array<i64: 0>} : (tensor<1x64x16xf32>) -> tensor<1x64x16xf32>
  %m = linalg.batch_matmul ins(%v, %f : tensor<1x64x16xf32>, tensor<1x16x48xf32>) outs(%zeros : tensor<1x64x48xf32>) -> tensor<1x64x48xf32>
  %p = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x64x48xf32>) -> tensor<1x64x48xf32>
  %y = tensor.extract_slice %p[0, 0, 0] [1, 64, 24] [1, 1, 1] : tensor<1x64x48xf32> to tensor<1x64x24xf32>
  %g = tensor.extract_slice %p[0, 0, 24] [1, 64, 24] [1, 1, 1] : tensor<1x64x48xf32> to tensor<1x64x24xf32>
  %e = tensor.empty() : tensor<1x64x24xf32>
  %z = linalg.generic {indexing_maps = [#tokens, #tokens, #tokens], iterator_types = ["parallel", "parallel", "parallel"]} ins(%y, %g : tensor<1x64x24xf32>, tensor<1x64x24xf32>) outs(%e : tensor<1x64x24xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<1x64x24xf32>
  %c = tensor.collapse_shape %z [[0, 1], [2]] : tensor<1x64x24xf32> into tensor<64x24xf32>
  return %c, %p : tensor<64x24xf32>, tensor<1x64x48xf32>
}
