// RUN: winograd-opt --winograd-lower-channel-softmax %s | filecheck %s

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
