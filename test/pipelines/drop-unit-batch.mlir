// RUN: winograd-opt --winograd-drop-unit-batch --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"cuda", [
  #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_80", features = "", wgp = <
    compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024],
    max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 166912, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
]> : !hal.device

// CHECK-LABEL: func.func @scores
// CHECK-SAME: (%[[Q:.*]]: tensor<1x1024x512xf32>, %[[K:.*]]: tensor<1x512x512xf32>)
// CHECK-DAG: %[[L:.*]] = tensor.collapse_shape %[[Q]] {{\[\[}}0, 1], [2]] : tensor<1x1024x512xf32> into tensor<1024x512xf32>
// CHECK-DAG: %[[R:.*]] = tensor.collapse_shape %[[K]] {{\[\[}}0, 1], [2]] : tensor<1x512x512xf32> into tensor<512x512xf32>
// CHECK: %[[P:.*]] = linalg.matmul ins(%[[L]], %[[R]] : tensor<1024x512xf32>, tensor<512x512xf32>)
// CHECK: %[[S:.*]] = tensor.expand_shape %[[P]]
// CHECK: return %[[S]]
func.func @scores(%q: tensor<1x1024x512xf32>, %k: tensor<1x512x512xf32>) -> tensor<1x1024x512xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x1024x512xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<1x1024x512xf32>) -> tensor<1x1024x512xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<1x1024x512xf32>, tensor<1x512x512xf32>) outs(%zeros : tensor<1x1024x512xf32>) -> tensor<1x1024x512xf32>
  return %s : tensor<1x1024x512xf32>
}

// Left are small products, and those of several matrices.
// CHECK-LABEL: func.func @left
// CHECK-COUNT-2: linalg.batch_matmul
func.func @left(%q: tensor<1x512x512xf32>, %k: tensor<1x512x512xf32>, %l: tensor<8x1024x512xf32>, %r: tensor<8x512x512xf32>) -> (tensor<1x512x512xf32>, tensor<8x1024x512xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x512x512xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<1x512x512xf32>) -> tensor<1x512x512xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<1x512x512xf32>, tensor<1x512x512xf32>) outs(%zeros : tensor<1x512x512xf32>) -> tensor<1x512x512xf32>
  %e8 = tensor.empty() : tensor<8x1024x512xf32>
  %zeros8 = linalg.fill ins(%zero : f32) outs(%e8 : tensor<8x1024x512xf32>) -> tensor<8x1024x512xf32>
  %s8 = linalg.batch_matmul ins(%l, %r : tensor<8x1024x512xf32>, tensor<8x512x512xf32>) outs(%zeros8 : tensor<8x1024x512xf32>) -> tensor<8x1024x512xf32>
  return %s, %s8 : tensor<1x512x512xf32>, tensor<8x1024x512xf32>
}

// -----

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

// Without matrix units IREE's code is as fast.
// CHECK-LABEL: func.func @scores
// CHECK: linalg.batch_matmul
func.func @scores(%q: tensor<1x1024x512xf32>, %k: tensor<1x512x512xf32>) -> tensor<1x1024x512xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x1024x512xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<1x1024x512xf32>) -> tensor<1x1024x512xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<1x1024x512xf32>, tensor<1x512x512xf32>) outs(%zeros : tensor<1x1024x512xf32>) -> tensor<1x1024x512xf32>
  return %s : tensor<1x1024x512xf32>
}
