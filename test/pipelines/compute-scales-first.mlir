// RUN: winograd-opt --winograd-compute-scales-first --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// The scales of 8 groups of 4 channels are read by every pixel, as are weights, which are known before; the
// last vector isn't.
// CHECK-LABEL: func.func @group_normalization
// CHECK-SAME: , %[[SCALES:.*]]: tensor<1x8x4xf32>
// CHECK: %[[Y:.*]] = "winograd.output_transform"
// CHECK: %[[MERGED:.*]] = tensor.collapse_shape %[[SCALES]]
// CHECK: %[[READ:.*]] = util.optimization_barrier {winograd.computed_first} %[[MERGED]] : tensor<1x32xf32>
// CHECK: %[[SPREAD:.*]] = tensor.expand_shape %[[READ]]
// CHECK: linalg.generic {{.*}} ins(%[[Y]], %[[SPREAD]]
// CHECK-NOT: util.optimization_barrier
// CHECK: %[[FLAT:.*]] = tensor.collapse_shape %[[SCALES]]
// CHECK-NOT: util.optimization_barrier
// CHECK: linalg.elementwise <tanh> ins(%[[FLAT]]
func.func @group_normalization(%m: tensor<1x81x32xf32>, %scales: tensor<1x8x4xf32>) -> (tensor<1x9x9x32xf32>, tensor<32xf32>) {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x81x32xf32>) -> tensor<1x9x9x32xf32>
  %merged = tensor.collapse_shape %scales [[0], [1, 2]] : tensor<1x8x4xf32> into tensor<1x32xf32>
  %spread = tensor.expand_shape %merged [[0, 1, 2], [3]] output_shape [1, 1, 1, 32] : tensor<1x32xf32> into tensor<1x1x1x32xf32>
  %e = tensor.empty() : tensor<1x9x9x32xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, 0, 0, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%y, %spread : tensor<1x9x9x32xf32>, tensor<1x1x1x32xf32>) outs(%e : tensor<1x9x9x32xf32>) {
  ^bb0(%in: f32, %scale: f32, %out: f32):
    %s = arith.mulf %in, %scale : f32
    linalg.yield %s : f32
  } -> tensor<1x9x9x32xf32>
  %weights = arith.constant dense<2.0> : tensor<1x8x4xf32>
  %known = tensor.collapse_shape %weights [[0], [1, 2]] : tensor<1x8x4xf32> into tensor<1x32xf32>
  %q = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r, %known : tensor<1x9x9x32xf32>, tensor<1x32xf32>) outs(%e : tensor<1x9x9x32xf32>) {
  ^bb0(%in: f32, %scale: f32, %out: f32):
    %s = arith.mulf %in, %scale : f32
    linalg.yield %s : f32
  } -> tensor<1x9x9x32xf32>
  %flat = tensor.collapse_shape %scales [[0, 1, 2]] : tensor<1x8x4xf32> into tensor<32xf32>
  %f = tensor.empty() : tensor<32xf32>
  %t = linalg.elementwise <tanh> ins(%flat : tensor<32xf32>) outs(%f : tensor<32xf32>) -> tensor<32xf32>
  return %q, %t : tensor<1x9x9x32xf32>, tensor<32xf32>
}
