// RUN: winograd-opt --winograd-lower-channel-softmax --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#read = affine_map<(n, c, h, w) -> (n, h, w, c)>
#kept = affine_map<(n, c, h, w) -> (n, 0, h, w)>
#whole = affine_map<(a, b, c, d) -> (a, b, c, d)>
#spread = affine_map<(a, b, c, d) -> (a, 0, b, c)>

// Channels that are last are rows, also where loops have the order of an image whose channels were first.
// CHECK-LABEL: func.func @channels_last
// CHECK-SAME: (%[[X:.*]]: tensor<1x4x8x20xf32>)
// CHECK-NOT: math.exp
// CHECK: %[[Y:.*]] = flow.dispatch @winograd_softmax_32x20::@winograd_softmax_32x20(%[[X]])
// CHECK-NOT: linalg.generic
// CHECK: return %[[Y]]
func.func @channels_last(%x: tensor<1x4x8x20xf32>) -> tensor<1x4x8x20xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<1x4x8x20xf32>
  %er = tensor.empty() : tensor<1x1x4x8xf32>
  %mi = linalg.fill ins(%lowest : f32) outs(%er : tensor<1x1x4x8xf32>) -> tensor<1x1x4x8xf32>
  %si = linalg.fill ins(%zero : f32) outs(%er : tensor<1x1x4x8xf32>) -> tensor<1x1x4x8xf32>
  %m = linalg.generic {indexing_maps = [#read, #kept], iterator_types = ["parallel", "reduction", "parallel", "parallel"]} ins(%x : tensor<1x4x8x20xf32>) outs(%mi : tensor<1x1x4x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.maximumf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<1x1x4x8xf32>
  %d = linalg.generic {indexing_maps = [#whole, #spread, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %m : tensor<1x4x8x20xf32>, tensor<1x1x4x8xf32>) outs(%e : tensor<1x4x8x20xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.subf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<1x4x8x20xf32>
  %p = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%d : tensor<1x4x8x20xf32>) outs(%e : tensor<1x4x8x20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<1x4x8x20xf32>
  %s = linalg.generic {indexing_maps = [#read, #kept], iterator_types = ["parallel", "reduction", "parallel", "parallel"]} ins(%p : tensor<1x4x8x20xf32>) outs(%si : tensor<1x1x4x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<1x1x4x8xf32>
  %y = linalg.generic {indexing_maps = [#whole, #spread, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%p, %s : tensor<1x4x8x20xf32>, tensor<1x1x4x8xf32>) outs(%e : tensor<1x4x8x20xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<1x4x8x20xf32>
  return %y : tensor<1x4x8x20xf32>
}

// -----

#hopper = #hal.executable.target<"cuda", "cuda-nvptx-fb", {iree_codegen.target_info = #iree_gpu.target<arch = "sm_90a", features = "+ptx80", wgp = <compute = fp32, storage = b32, subgroup = none, subgroup_size_choices = [32], max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, max_workgroup_memory_bytes = 232448, max_workgroup_counts = [2147483647, 65535, 65535]>>}>
util.global private @device = #hal.device.target<"cuda", [#hopper]> : !hal.device

#read = affine_map<(n, c, h, w) -> (n, h, w, c)>
#kept = affine_map<(n, c, h, w) -> (n, 0, h, w)>
#whole = affine_map<(a, b, c, d) -> (a, b, c, d)>
#spread = affine_map<(a, b, c, d) -> (a, 0, b, c)>

// On CUDA rows of half precision are read and stored so.
// CHECK-LABEL: func.func @half
// CHECK-SAME: (%[[X:.*]]: tensor<1x4x8x20xf16>)
// CHECK-NOT: math.exp
// CHECK: %[[Y:.*]] = flow.dispatch @winograd_softmax_32x20::@winograd_softmax_32x20(%[[X]]) : (tensor<1x4x8x20xf16>) -> tensor<1x4x8x20xf16>
// CHECK-NOT: linalg.generic
// CHECK: return %[[Y]]
func.func @half(%half: tensor<1x4x8x20xf16>) -> tensor<1x4x8x20xf16> {
  %we = tensor.empty() : tensor<1x4x8x20xf32>
  %x = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%half : tensor<1x4x8x20xf16>) outs(%we : tensor<1x4x8x20xf32>) {
  ^bb0(%a: f16, %o: f32):
    %r = arith.extf %a : f16 to f32
    linalg.yield %r : f32
  } -> tensor<1x4x8x20xf32>
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<1x4x8x20xf32>
  %er = tensor.empty() : tensor<1x1x4x8xf32>
  %mi = linalg.fill ins(%lowest : f32) outs(%er : tensor<1x1x4x8xf32>) -> tensor<1x1x4x8xf32>
  %si = linalg.fill ins(%zero : f32) outs(%er : tensor<1x1x4x8xf32>) -> tensor<1x1x4x8xf32>
  %m = linalg.generic {indexing_maps = [#read, #kept], iterator_types = ["parallel", "reduction", "parallel", "parallel"]} ins(%x : tensor<1x4x8x20xf32>) outs(%mi : tensor<1x1x4x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.maximumf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<1x1x4x8xf32>
  %d = linalg.generic {indexing_maps = [#whole, #spread, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %m : tensor<1x4x8x20xf32>, tensor<1x1x4x8xf32>) outs(%e : tensor<1x4x8x20xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.subf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<1x4x8x20xf32>
  %p = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%d : tensor<1x4x8x20xf32>) outs(%e : tensor<1x4x8x20xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<1x4x8x20xf32>
  %s = linalg.generic {indexing_maps = [#read, #kept], iterator_types = ["parallel", "reduction", "parallel", "parallel"]} ins(%p : tensor<1x4x8x20xf32>) outs(%si : tensor<1x1x4x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<1x1x4x8xf32>
  %y = linalg.generic {indexing_maps = [#whole, #spread, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%p, %s : tensor<1x4x8x20xf32>, tensor<1x1x4x8xf32>) outs(%e : tensor<1x4x8x20xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<1x4x8x20xf32>
  %he = tensor.empty() : tensor<1x4x8x20xf16>
  %h = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%y : tensor<1x4x8x20xf32>) outs(%he : tensor<1x4x8x20xf16>) {
  ^bb0(%a: f32, %o: f16):
    %r = arith.truncf %a : f32 to f16
    linalg.yield %r : f16
  } -> tensor<1x4x8x20xf16>
  return %h : tensor<1x4x8x20xf16>
}
