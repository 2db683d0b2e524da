// RUN: winograd-opt --winograd-copy-rearranged --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// Patches of an image that was channels first in between.
// CHECK-LABEL: func.func @patches
// CHECK: %[[X:.*]] = "winograd.output_transform"
// CHECK-NOT: linalg.transpose
// CHECK: %[[D:.*]] = flow.dispatch @winograd_rearranged_2x4x16x16::@winograd_rearranged_2x4x16x16(%[[X]]) : (tensor<2x8x8x16xf32>) -> tensor<2x4x16x16xf32>
// CHECK: return %[[D]]
func.func @patches(%m: tensor<1x128x16xf32>) -> tensor<2x4x16x16xf32> {
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x128x16xf32>) -> tensor<2x8x8x16xf32>
  %i = tensor.empty() : tensor<2x16x8x8xf32>
  %j = tensor.empty() : tensor<2x16x4x4x2x2xf32>
  %k = tensor.empty() : tensor<2x4x16x16xf32>
  %a = linalg.transpose ins(%x : tensor<2x8x8x16xf32>) outs(%i : tensor<2x16x8x8xf32>) permutation = [0, 3, 1, 2]
  %e = tensor.expand_shape %a [[0], [1], [2, 3], [4, 5]] output_shape [2, 16, 4, 2, 4, 2] : tensor<2x16x8x8xf32> into tensor<2x16x4x2x4x2xf32>
  %b = linalg.transpose ins(%e : tensor<2x16x4x2x4x2xf32>) outs(%j : tensor<2x16x4x4x2x2xf32>) permutation = [0, 1, 2, 4, 3, 5]
  %c = tensor.collapse_shape %b [[0], [1], [2, 3], [4, 5]] : tensor<2x16x4x4x2x2xf32> into tensor<2x16x16x4xf32>
  %d = linalg.transpose ins(%c : tensor<2x16x16x4xf32>) outs(%k : tensor<2x4x16x16xf32>) permutation = [0, 3, 2, 1]
  return %d : tensor<2x4x16x16xf32>
}

// -----

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// A rotation that something else reads, too, and windows of it.
// CHECK-LABEL: func.func @rotated
// CHECK: %[[X:.*]] = "winograd.output_transform"
// CHECK: %[[R:.*]] = flow.dispatch @winograd_rearranged_2x8x8x16::@winograd_rearranged_2x8x8x16(%[[X]])
// CHECK: %[[E:.*]] = tensor.expand_shape %[[R]]
// CHECK: %[[T:.*]] = linalg.transpose ins(%[[E]]
// CHECK: return %[[R]], %[[T]]
func.func @rotated(%m: tensor<1x128x16xf32>) -> (tensor<2x8x8x16xf32>, tensor<2x4x4x2x2x16xf32>) {
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x128x16xf32>) -> tensor<2x8x8x16xf32>
  %a = tensor.extract_slice %x[0, 3, 0, 0] [2, 5, 8, 16] [1, 1, 1, 1] : tensor<2x8x8x16xf32> to tensor<2x5x8x16xf32>
  %b = tensor.extract_slice %x[0, 0, 0, 0] [2, 3, 8, 16] [1, 1, 1, 1] : tensor<2x8x8x16xf32> to tensor<2x3x8x16xf32>
  %r = tensor.concat dim(1) %a, %b : (tensor<2x5x8x16xf32>, tensor<2x3x8x16xf32>) -> tensor<2x8x8x16xf32>
  %e = tensor.expand_shape %r [[0], [1, 2], [3, 4], [5]] output_shape [2, 4, 2, 4, 2, 16] : tensor<2x8x8x16xf32> into tensor<2x4x2x4x2x16xf32>
  %i = tensor.empty() : tensor<2x4x4x2x2x16xf32>
  %t = linalg.transpose ins(%e : tensor<2x4x2x4x2x16xf32>) outs(%i : tensor<2x4x4x2x2x16xf32>) permutation = [0, 1, 3, 2, 4, 5]
  return %r, %t : tensor<2x8x8x16xf32>, tensor<2x4x4x2x2x16xf32>
}

// -----

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#all = affine_map<(n, h, w, c) -> (n, h, w, c)>

// Left are what is read elementwise, with all that it is made of, a concatenation of the beginning and the end,
// and quads that aren't kept together.
// CHECK-LABEL: func.func @left
// CHECK-NOT: flow.dispatch
func.func @left(%m: tensor<1x128x16xf32>) -> (tensor<2x8x8x16xf32>, tensor<2x8x8x16xf32>, tensor<2x2x8x8x8xf32>) {
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x128x16xf32>) -> tensor<2x8x8x16xf32>
  %a = tensor.extract_slice %x[0, 3, 0, 0] [2, 5, 8, 16] [1, 1, 1, 1] : tensor<2x8x8x16xf32> to tensor<2x5x8x16xf32>
  %b = tensor.extract_slice %x[0, 0, 0, 0] [2, 3, 8, 16] [1, 1, 1, 1] : tensor<2x8x8x16xf32> to tensor<2x3x8x16xf32>
  %r = tensor.concat dim(1) %a, %b : (tensor<2x5x8x16xf32>, tensor<2x3x8x16xf32>) -> tensor<2x8x8x16xf32>
  %c = tensor.extract_slice %r[0, 0, 3, 0] [2, 8, 5, 16] [1, 1, 1, 1] : tensor<2x8x8x16xf32> to tensor<2x8x5x16xf32>
  %d = tensor.extract_slice %r[0, 0, 0, 0] [2, 8, 3, 16] [1, 1, 1, 1] : tensor<2x8x8x16xf32> to tensor<2x8x3x16xf32>
  %s = tensor.concat dim(2) %c, %d : (tensor<2x8x5x16xf32>, tensor<2x8x3x16xf32>) -> tensor<2x8x8x16xf32>
  %i = tensor.empty() : tensor<2x8x8x16xf32>
  %y = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s : tensor<2x8x8x16xf32>) outs(%i : tensor<2x8x8x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %n = arith.negf %in : f32
    linalg.yield %n : f32
  } -> tensor<2x8x8x16xf32>
  %p = tensor.concat dim(1) %b, %a : (tensor<2x3x8x16xf32>, tensor<2x5x8x16xf32>) -> tensor<2x8x8x16xf32>
  %e = tensor.expand_shape %x [[0], [1], [2], [3, 4]] output_shape [2, 8, 8, 8, 2] : tensor<2x8x8x16xf32> into tensor<2x8x8x8x2xf32>
  %j = tensor.empty() : tensor<2x8x8x2x8xf32>
  %k = tensor.empty() : tensor<2x2x8x8x8xf32>
  %t = linalg.transpose ins(%e : tensor<2x8x8x8x2xf32>) outs(%j : tensor<2x8x8x2x8xf32>) permutation = [0, 1, 2, 4, 3]
  %u = linalg.transpose ins(%t : tensor<2x8x8x2x8xf32>) outs(%k : tensor<2x2x8x8x8xf32>) permutation = [0, 3, 1, 2, 4]
  return %y, %p, %u : tensor<2x8x8x16xf32>, tensor<2x8x8x16xf32>, tensor<2x2x8x8x8xf32>
}

// -----

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// Pixels that are repeated for a convolution, not those that something else may be computed of meanwhile.
// CHECK-LABEL: func.func @repeated
// CHECK: %[[X:.*]] = "winograd.output_transform"
// CHECK: %[[D:.*]] = flow.dispatch @winograd_rearranged_2x64x2x64x2x16::@winograd_rearranged_2x64x2x64x2x16(%[[X]])
// CHECK: %[[C:.*]] = tensor.collapse_shape %[[D]]
// CHECK: "winograd.input_transform"(%[[C]])
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[X]]
// CHECK: return %{{.*}}, %[[S]]
func.func @repeated(%m: tensor<1x8192x16xf32>) -> (tensor<1x32768x16xf32>, tensor<2x64x2x64x2x16xf32>) {
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x8192x16xf32>) -> tensor<2x64x64x16xf32>
  %e = tensor.empty() : tensor<2x64x2x64x2x16xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, h, i, w, j, c) -> (n, h, w, c)>, affine_map<(n, h, i, w, j, c) -> (n, h, i, w, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x64x64x16xf32>) outs(%e : tensor<2x64x2x64x2x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x64x2x64x2x16xf32>
  %c = tensor.collapse_shape %r [[0], [1, 2], [3, 4], [5]] : tensor<2x64x2x64x2x16xf32> into tensor<2x128x128x16xf32>
  %v = "winograd.input_transform"(%c) {decomposition = #direct, groups = 1 : i64, padding_high = array<i64: 0, 0>, padding_low = array<i64: 0, 0>} : (tensor<2x128x128x16xf32>) -> tensor<1x32768x16xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(n, h, i, w, j, c) -> (n, h, w, c)>, affine_map<(n, h, i, w, j, c) -> (n, h, i, w, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x64x64x16xf32>) outs(%e : tensor<2x64x2x64x2x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x64x2x64x2x16xf32>
  return %v, %s : tensor<1x32768x16xf32>, tensor<2x64x2x64x2x16xf32>
}

// -----

#hopper = #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_90a", features = "+ptx80", wgp = <compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 232448, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
util.global private @device = #hal.device.target<"cuda", [#hopper]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// On CUDA what was rounded is copied in half precision.
// CHECK-LABEL: func.func @half
// CHECK: %[[X:.*]] = "winograd.output_transform"
// CHECK: %[[N:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<2x64x64x16xf32>) outs(%{{.*}} : tensor<2x64x64x16xf16>)
// CHECK: %[[D:.*]] = flow.dispatch @winograd_rearranged_2x64x2x64x2x16::{{.*}}(%[[N]]) : (tensor<2x64x64x16xf16>) -> tensor<2x64x2x64x2x16xf16>
// CHECK: linalg.generic {{.*}} ins(%[[D]]
// CHECK: arith.extf
func.func @half(%m: tensor<1x8192x16xf32>) -> tensor<1x32768x16xf32> {
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    %h = arith.truncf %a : f32 to f16
    %w = arith.extf %h : f16 to f32
    vector.yield %w : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x8192x16xf32>) -> tensor<2x64x64x16xf32>
  %e = tensor.empty() : tensor<2x64x2x64x2x16xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, h, i, w, j, c) -> (n, h, w, c)>, affine_map<(n, h, i, w, j, c) -> (n, h, i, w, j, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<2x64x64x16xf32>) outs(%e : tensor<2x64x2x64x2x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x64x2x64x2x16xf32>
  %c = tensor.collapse_shape %r [[0], [1, 2], [3, 4], [5]] : tensor<2x64x2x64x2x16xf32> into tensor<2x128x128x16xf32>
  %v = "winograd.input_transform"(%c) {decomposition = #direct, groups = 1 : i64, padding_high = array<i64: 0, 0>, padding_low = array<i64: 0, 0>} : (tensor<2x128x128x16xf32>) -> tensor<1x32768x16xf32>
  return %v : tensor<1x32768x16xf32>
}
