// RUN: winograd-opt --winograd-sum-repeated-taps --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"vulkan", [
  #hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb", {iree_codegen.target_info = #iree_gpu.target<
    arch = "", features = "spirv:v1.3,cap:Shader", wgp = <
      compute = fp32|int32, storage = b32, subgroup = none, subgroup_size_choices = [64],
      max_workgroup_sizes = [128, 128, 64], max_thread_count_per_workgroup = 128,
      max_workgroup_memory_bytes = 16384, max_workgroup_counts = [65535, 65535, 65535]>>}>
]> : !hal.device

#identity = affine_map<(n, c, h, w) -> (n, c, h, w)>

// Columns are there twice: each is met by two of three taps, or by one and its neighbour by two.
// CHECK-LABEL: func.func @enlarged
// CHECK-SAME: (%[[X:.*]]: tensor<1x1024x32x32xf32>)
// CHECK: %[[ZEROS:.*]] = linalg.fill {{.*}} -> tensor<1x1024x32x67xf32>
// CHECK: %[[Z:.*]] = tensor.insert_slice %[[X]] into %[[ZEROS]][0, 0, 0, 2] [1, 1024, 32, 32] [1, 1, 1, 2]
// CHECK: %[[W:.*]] = arith.constant dense_resource<summed_filter> : tensor<1024x1024x1x4xf32>
// CHECK: %[[Y:.*]] = linalg.generic {{.*}} ins(%[[Z]], %[[W]] :
// CHECK: return %[[Y]] : tensor<1x1024x32x64xf32>
func.func @enlarged(%x: tensor<1x1024x32x32xf32>) -> tensor<1x1024x32x64xf32> {
  %f = arith.constant dense<1.5> : tensor<1024x1024x1x3xf32>
  %zero = arith.constant 0.0 : f32
  %two = arith.constant 2 : index
  %e = tensor.empty() : tensor<1x1024x32x64xf32>
  %r = linalg.generic {indexing_maps = [#identity], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<1x1024x32x64xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %h = linalg.index 2 : index
    %w = linalg.index 3 : index
    %column = arith.floordivsi %w, %two : index
    %p = tensor.extract %x[%n, %c, %h, %column] : tensor<1x1024x32x32xf32>
    linalg.yield %p : f32
  } -> tensor<1x1024x32x64xf32>
  %a = tensor.pad %r low[0, 0, 0, 1] high[0, 0, 0, 1] {
  ^bb0(%n: index, %c: index, %h: index, %w: index):
    tensor.yield %zero : f32
  } : tensor<1x1024x32x64xf32> to tensor<1x1024x32x66xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x1024x32x64xf32>) -> tensor<1x1024x32x64xf32>
  %y = linalg.conv_2d_nchw_fchw ins(%a, %f : tensor<1x1024x32x66xf32>, tensor<1024x1024x1x3xf32>) outs(%z : tensor<1x1024x32x64xf32>) -> tensor<1x1024x32x64xf32>
  return %y : tensor<1x1024x32x64xf32>
}
