// RUN: winograd-opt --winograd-admit-shorts --split-input-file %s | filecheck %s

// CHECK: #executable_target_vulkan
// CHECK-SAME: compute = fp32|fp16|int32|int16, storage = b32|b16,
// CHECK: @half
util.global private @device = #hal.device.target<"vulkan", [
  #hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "vp_android_baseline_2022",
    features = "spirv:v1.3,cap:Shader", wgp = <compute = fp32|int32, storage = b32, subgroup = none, subgroup_size_choices = [64],
    max_workgroup_sizes = [128, 128, 64], max_thread_count_per_workgroup = 128, max_workgroup_memory_bytes = 16384,
    max_workgroup_counts = [65535, 65535, 65535]>>}>
]> : !hal.device
func.func @half(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  return %x : tensor<4xbf16>
}

// -----

// Others need none of it.
// CHECK: #executable_target_vulkan
// CHECK-SAME: compute = fp32|int32, storage = b32,
// CHECK: @single
util.global private @device = #hal.device.target<"vulkan", [
  #hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "vp_android_baseline_2022",
    features = "spirv:v1.3,cap:Shader", wgp = <compute = fp32|int32, storage = b32, subgroup = none, subgroup_size_choices = [64],
    max_workgroup_sizes = [128, 128, 64], max_thread_count_per_workgroup = 128, max_workgroup_memory_bytes = 16384,
    max_workgroup_counts = [65535, 65535, 65535]>>}>
]> : !hal.device
func.func @single(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
