// RUN: winograd-opt %s --winograd-assign-schedule --winograd-lower-to-dispatch | filecheck %s

util.global private @device = #hal.device.target<"cuda", [
  #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_80", features = "+ptx76",
    wgp = <compute = fp32|int32, storage = b32, subgroup = none, subgroup_size_choices = [32],
      max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 166912,
      max_workgroup_counts = [2147483647, 65535, 65535]>>}>
]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// The outputs of a phase are written between those of the others.
// CHECK-LABEL: func.func @phase
// CHECK-SAME: (%[[X:.*]]: tensor<1x7x7x16xf32>, %[[Y:.*]]: tensor<1x14x14x4xf32>)
// CHECK: %[[Z:.*]] = flow.dispatch @{{.*}}(%[[X]], %{{.*}}, %[[Y]]) : (tensor<1x7x7x16xf32>, {{.*}}, tensor<1x14x14x4xf32>) -> %[[Y]]
// CHECK-NOT: tensor.insert_slice
// CHECK: return %[[Z]]
func.func @phase(%x: tensor<1x7x7x16xf32>, %y: tensor<1x14x14x4xf32>) -> tensor<1x14x14x4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x49x4xf32>
  %f = arith.constant dense<1.0> : tensor<1x16x4xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x7x7x16xf32>) -> tensor<1x49x16xf32>
  %m = linalg.batch_matmul ins(%v, %f : tensor<1x49x16xf32>, tensor<1x16x4xf32>) outs(%zeros : tensor<1x49x4xf32>) -> tensor<1x49x4xf32>
  %z = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  %d = tensor.insert_slice %z into %y[0, 1, 0, 0] [1, 7, 7, 4] [1, 2, 2, 1] : tensor<1x7x7x4xf32> into tensor<1x14x14x4xf32>
  return %d : tensor<1x14x14x4xf32>
}

// They are not where the convolution reads the tensor: workgroups would find the outputs of others.
// CHECK-LABEL: func.func @read
// CHECK: flow.dispatch
// CHECK: tensor.insert_slice
func.func @read(%y: tensor<1x14x14x4xf32>, %x: tensor<1x7x7x16xf32>) -> tensor<1x14x14x4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x49x4xf32>
  %f = arith.constant dense<1.0> : tensor<1x16x4xf32>
  %p = tensor.extract_slice %y[0, 0, 0, 0] [1, 7, 7, 4] [1, 2, 2, 1] : tensor<1x14x14x4xf32> to tensor<1x7x7x4xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x7x7x16xf32>) -> tensor<1x49x16xf32>
  %m = linalg.batch_matmul ins(%v, %f : tensor<1x49x16xf32>, tensor<1x16x4xf32>) outs(%zeros : tensor<1x49x4xf32>) -> tensor<1x49x4xf32>
  %z = "winograd.output_transform"(%m, %p) ({
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    vector.yield %s : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>], operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>, tensor<1x7x7x4xf32>) -> tensor<1x7x7x4xf32>
  %d = tensor.insert_slice %z into %y[0, 1, 0, 0] [1, 7, 7, 4] [1, 2, 2, 1] : tensor<1x7x7x4xf32> into tensor<1x14x14x4xf32>
  return %d : tensor<1x14x14x4xf32>
}
