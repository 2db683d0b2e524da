// RUN: winograd-opt --winograd-lower-group-norm --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#whole = affine_map<(n, g, c, p) -> (n, g, c, p)>
#group = affine_map<(n, g, c, p) -> (n, g, 0, 0)>
#channels = affine_map<(n, h, w, c) -> (n, c)>

// Means, deviations, and what follows them, where a workgroup's threads hold some groups in registers.
// CHECK-LABEL: func.func @one_kernel
// CHECK: %[[Y:.*]] = "winograd.output_transform"
// CHECK-DAG: %[[WEIGHT:.*]] = tensor.collapse_shape %arg1 {{.*}} into tensor<64xf32>
// CHECK-DAG: %[[BIAS:.*]] = tensor.collapse_shape %arg2 {{.*}} into tensor<64xf32>
// CHECK: %[[Z:.*]] = flow.dispatch @winograd_group_norm_1x256x8x8::@winograd_group_norm_1x256x8x8(%[[Y]], %[[WEIGHT]], %[[BIAS]]) {{.*}} -> tensor<1x16x16x64xf32>
// CHECK: %[[RESULT:.*]] = tensor.collapse_shape %[[Z]]
// CHECK: return %[[RESULT]]
func.func @one_kernel(%m: tensor<1x256x64xf32>, %weight: tensor<1x8x8x1xf32>, %bias: tensor<1x8x8x1xf32>) -> tensor<1x256x64xf32> {
  %zero = arith.constant 0.0 : f32
  %length = arith.constant 2.048e3 : f32
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x256x64xf32>) -> tensor<1x16x16x64xf32>
  %c = tensor.collapse_shape %y [[0], [1, 2], [3]] : tensor<1x16x16x64xf32> into tensor<1x256x64xf32>
  %i = tensor.empty() : tensor<1x64x256xf32>
  %t = linalg.transpose ins(%c : tensor<1x256x64xf32>) outs(%i : tensor<1x64x256xf32>) permutation = [0, 2, 1]
  %x = tensor.expand_shape %t [[0], [1, 2], [3]] output_shape [1, 8, 8, 256] : tensor<1x64x256xf32> into tensor<1x8x8x256xf32>
  %e = tensor.empty() : tensor<1x8x8x256xf32>
  %er = tensor.empty() : tensor<1x8x1x1xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%er : tensor<1x8x1x1xf32>) -> tensor<1x8x1x1xf32>
  %sum = linalg.generic {indexing_maps = [#whole, #group], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x : tensor<1x8x8x256xf32>) outs(%zeros : tensor<1x8x1x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<1x8x1x1xf32>
  %mean = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%sum : tensor<1x8x1x1xf32>) outs(%er : tensor<1x8x1x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.divf %in, %length : f32
    linalg.yield %r : f32
  } -> tensor<1x8x1x1xf32>
  %d = linalg.generic {indexing_maps = [#whole, #group, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %mean : tensor<1x8x8x256xf32>, tensor<1x8x1x1xf32>) outs(%e : tensor<1x8x8x256xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.subf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<1x8x8x256xf32>
  %q = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%d, %d : tensor<1x8x8x256xf32>, tensor<1x8x8x256xf32>) outs(%e : tensor<1x8x8x256xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.mulf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<1x8x8x256xf32>
  %squares = linalg.generic {indexing_maps = [#whole, #group], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%q : tensor<1x8x8x256xf32>) outs(%zeros : tensor<1x8x1x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<1x8x1x1xf32>
  %variance = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%squares : tensor<1x8x1x1xf32>) outs(%er : tensor<1x8x1x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.divf %in, %length : f32
    linalg.yield %r : f32
  } -> tensor<1x8x1x1xf32>
  %root = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%variance : tensor<1x8x1x1xf32>) outs(%er : tensor<1x8x1x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.rsqrt %in : f32
    linalg.yield %r : f32
  } -> tensor<1x8x1x1xf32>
  %ec = tensor.empty() : tensor<1x8x8x1xf32>
  %f = linalg.generic {indexing_maps = [#group, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%root, %weight : tensor<1x8x1x1xf32>, tensor<1x8x8x1xf32>) outs(%ec : tensor<1x8x8x1xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %r = arith.mulf %in, %by : f32
    linalg.yield %r : f32
  } -> tensor<1x8x8x1xf32>
  %negative = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%mean : tensor<1x8x1x1xf32>) outs(%er : tensor<1x8x1x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.negf %in : f32
    linalg.yield %r : f32
  } -> tensor<1x8x1x1xf32>
  %p = linalg.generic {indexing_maps = [#group, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%negative, %f : tensor<1x8x1x1xf32>, tensor<1x8x8x1xf32>) outs(%ec : tensor<1x8x8x1xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %r = arith.mulf %in, %by : f32
    linalg.yield %r : f32
  } -> tensor<1x8x8x1xf32>
  %a = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%p, %bias : tensor<1x8x8x1xf32>, tensor<1x8x8x1xf32>) outs(%ec : tensor<1x8x8x1xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %r = arith.addf %in, %by : f32
    linalg.yield %r : f32
  } -> tensor<1x8x8x1xf32>
  %fc = tensor.collapse_shape %f [[0], [1, 2, 3]] : tensor<1x8x8x1xf32> into tensor<1x64xf32>
  %ac = tensor.collapse_shape %a [[0], [1, 2, 3]] : tensor<1x8x8x1xf32> into tensor<1x64xf32>
  %ey = tensor.empty() : tensor<1x16x16x64xf32>
  %scaled = linalg.generic {indexing_maps = [#whole, #channels, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%y, %fc : tensor<1x16x16x64xf32>, tensor<1x64xf32>) outs(%ey : tensor<1x16x16x64xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %r = arith.mulf %in, %by : f32
    linalg.yield %r : f32
  } -> tensor<1x16x16x64xf32>
  %shifted = linalg.generic {indexing_maps = [#whole, #channels, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%scaled, %ac : tensor<1x16x16x64xf32>, tensor<1x64xf32>) outs(%ey : tensor<1x16x16x64xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %r = arith.addf %in, %by : f32
    linalg.yield %r : f32
  } -> tensor<1x16x16x64xf32>
  %activated = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%shifted : tensor<1x16x16x64xf32>) outs(%ey : tensor<1x16x16x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %zero_element = arith.constant 0.0 : f32
    %r = arith.maximumf %in, %zero_element : f32
    linalg.yield %r : f32
  } -> tensor<1x16x16x64xf32>
  %result = tensor.collapse_shape %activated [[0], [1, 2], [3]] : tensor<1x16x16x64xf32> into tensor<1x256x64xf32>
  return %result : tensor<1x256x64xf32>
}

// -----

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#whole = affine_map<(n, g, c, p) -> (n, g, c, p)>
#group = affine_map<(n, g, c, p) -> (n, g, 0, 0)>
#channels = affine_map<(n, h, w, c) -> (n, c)>

// Larger groups stay: `winograd-lower-sums` has many workgroups sum parts of them.
// CHECK-LABEL: func.func @parts
// CHECK-NOT: flow.dispatch
// CHECK: linalg.generic {{.*}}"reduction"
// CHECK: return
func.func @parts(%m: tensor<1x4096x64xf32>, %weight: tensor<1x8x8x1xf32>, %bias: tensor<1x8x8x1xf32>) -> tensor<1x4096x64xf32> {
  %zero = arith.constant 0.0 : f32
  %length = arith.constant 3.2768e4 : f32
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x4096x64xf32>) -> tensor<1x64x64x64xf32>
  %c = tensor.collapse_shape %y [[0], [1, 2], [3]] : tensor<1x64x64x64xf32> into tensor<1x4096x64xf32>
  %i = tensor.empty() : tensor<1x64x4096xf32>
  %t = linalg.transpose ins(%c : tensor<1x4096x64xf32>) outs(%i : tensor<1x64x4096xf32>) permutation = [0, 2, 1]
  %x = tensor.expand_shape %t [[0], [1, 2], [3]] output_shape [1, 8, 8, 4096] : tensor<1x64x4096xf32> into tensor<1x8x8x4096xf32>
  %e = tensor.empty() : tensor<1x8x8x4096xf32>
  %er = tensor.empty() : tensor<1x8x1x1xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%er : tensor<1x8x1x1xf32>) -> tensor<1x8x1x1xf32>
  %sum = linalg.generic {indexing_maps = [#whole, #group], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x : tensor<1x8x8x4096xf32>) outs(%zeros : tensor<1x8x1x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<1x8x1x1xf32>
  %mean = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%sum : tensor<1x8x1x1xf32>) outs(%er : tensor<1x8x1x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.divf %in, %length : f32
    linalg.yield %r : f32
  } -> tensor<1x8x1x1xf32>
  %d = linalg.generic {indexing_maps = [#whole, #group, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %mean : tensor<1x8x8x4096xf32>, tensor<1x8x1x1xf32>) outs(%e : tensor<1x8x8x4096xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.subf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<1x8x8x4096xf32>
  %q = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%d, %d : tensor<1x8x8x4096xf32>, tensor<1x8x8x4096xf32>) outs(%e : tensor<1x8x8x4096xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %r = arith.mulf %in, %of : f32
    linalg.yield %r : f32
  } -> tensor<1x8x8x4096xf32>
  %squares = linalg.generic {indexing_maps = [#whole, #group], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%q : tensor<1x8x8x4096xf32>) outs(%zeros : tensor<1x8x1x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<1x8x1x1xf32>
  %variance = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%squares : tensor<1x8x1x1xf32>) outs(%er : tensor<1x8x1x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.divf %in, %length : f32
    linalg.yield %r : f32
  } -> tensor<1x8x1x1xf32>
  %root = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%variance : tensor<1x8x1x1xf32>) outs(%er : tensor<1x8x1x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = math.rsqrt %in : f32
    linalg.yield %r : f32
  } -> tensor<1x8x1x1xf32>
  %ec = tensor.empty() : tensor<1x8x8x1xf32>
  %f = linalg.generic {indexing_maps = [#group, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%root, %weight : tensor<1x8x1x1xf32>, tensor<1x8x8x1xf32>) outs(%ec : tensor<1x8x8x1xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %r = arith.mulf %in, %by : f32
    linalg.yield %r : f32
  } -> tensor<1x8x8x1xf32>
  %negative = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%mean : tensor<1x8x1x1xf32>) outs(%er : tensor<1x8x1x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.negf %in : f32
    linalg.yield %r : f32
  } -> tensor<1x8x1x1xf32>
  %p = linalg.generic {indexing_maps = [#group, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%negative, %f : tensor<1x8x1x1xf32>, tensor<1x8x8x1xf32>) outs(%ec : tensor<1x8x8x1xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %r = arith.mulf %in, %by : f32
    linalg.yield %r : f32
  } -> tensor<1x8x8x1xf32>
  %a = linalg.generic {indexing_maps = [#whole, #whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%p, %bias : tensor<1x8x8x1xf32>, tensor<1x8x8x1xf32>) outs(%ec : tensor<1x8x8x1xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %r = arith.addf %in, %by : f32
    linalg.yield %r : f32
  } -> tensor<1x8x8x1xf32>
  %fc = tensor.collapse_shape %f [[0], [1, 2, 3]] : tensor<1x8x8x1xf32> into tensor<1x64xf32>
  %ac = tensor.collapse_shape %a [[0], [1, 2, 3]] : tensor<1x8x8x1xf32> into tensor<1x64xf32>
  %ey = tensor.empty() : tensor<1x64x64x64xf32>
  %scaled = linalg.generic {indexing_maps = [#whole, #channels, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%y, %fc : tensor<1x64x64x64xf32>, tensor<1x64xf32>) outs(%ey : tensor<1x64x64x64xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %r = arith.mulf %in, %by : f32
    linalg.yield %r : f32
  } -> tensor<1x64x64x64xf32>
  %shifted = linalg.generic {indexing_maps = [#whole, #channels, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%scaled, %ac : tensor<1x64x64x64xf32>, tensor<1x64xf32>) outs(%ey : tensor<1x64x64x64xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %r = arith.addf %in, %by : f32
    linalg.yield %r : f32
  } -> tensor<1x64x64x64xf32>
  %activated = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%shifted : tensor<1x64x64x64xf32>) outs(%ey : tensor<1x64x64x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %zero_element = arith.constant 0.0 : f32
    %r = arith.maximumf %in, %zero_element : f32
    linalg.yield %r : f32
  } -> tensor<1x64x64x64xf32>
  %result = tensor.collapse_shape %activated [[0], [1, 2], [3]] : tensor<1x64x64x64xf32> into tensor<1x4096x64xf32>
  return %result : tensor<1x4096x64xf32>
}
