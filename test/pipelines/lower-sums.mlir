// RUN: winograd-opt --winograd-lower-sums --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#whole = affine_map<(n, g, c, p) -> (n, g, c, p)>
#group = affine_map<(n, g, c, p) -> (n, g, 0, 0)>

// The mean and the variance of groups, of channels-last images that are transposed for it.
// CHECK-LABEL: func.func @groups
// CHECK: %[[Y:.*]] = "winograd.output_transform"
// CHECK: %[[P:.*]] = flow.dispatch @winograd_moments_1x4096x8x8::@winograd_moments_1x4096x8x8(%[[Y]]) : (tensor<1x64x64x64xf32>) -> tensor<2x1x32x8xf32>
// CHECK: %[[M:.*]] = flow.dispatch @winograd_combine_mean_1x32x8::@winograd_combine_mean_1x32x8(%[[P]])
// CHECK: %[[MEAN:.*]] = tensor.expand_shape
// CHECK: flow.dispatch @winograd_combine_deviations_1x32x8::@winograd_combine_deviations_1x32x8(%[[P]])
// CHECK: %[[VARIANCE:.*]] = tensor.expand_shape
// CHECK-NOT: reduction
// CHECK: return %[[MEAN]], %[[VARIANCE]]
func.func @groups(%m: tensor<1x4096x64xf32>) -> (tensor<1x8x1x1xf32>, tensor<1x8x1x1xf32>) {
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
  return %mean, %variance : tensor<1x8x1x1xf32>, tensor<1x8x1x1xf32>
}

// -----

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#whole = affine_map<(n, g, c, p) -> (n, g, c, p)>
#group = affine_map<(n, g, c, p) -> (n, g, 0, 0)>

// What group normalization makes of both for each channel is a kernel's, too.
// CHECK-LABEL: func.func @factors
// CHECK-DAG: %[[WEIGHT:.*]] = tensor.collapse_shape %arg1 {{.*}} into tensor<64xf32>
// CHECK-DAG: %[[BIAS:.*]] = tensor.collapse_shape %arg2 {{.*}} into tensor<64xf32>
// CHECK: %[[P:.*]] = flow.dispatch @winograd_moments_1x4096x8x8::
// CHECK: %[[BOTH:.*]] = flow.dispatch @winograd_combine_factors_1x32x8::@winograd_combine_factors_1x32x8(%[[P]], %[[WEIGHT]], %[[BIAS]]) {{.*}} -> tensor<2x1x8x8xf32>
// CHECK-DAG: tensor.extract_slice %[[BOTH]][0, 0, 0, 0] [1, 1, 8, 8]
// CHECK-DAG: tensor.extract_slice %[[BOTH]][1, 0, 0, 0] [1, 1, 8, 8]
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @factors(%m: tensor<1x4096x64xf32>, %weight: tensor<1x8x8x1xf32>, %bias: tensor<1x8x8x1xf32>) -> (tensor<1x8x8x1xf32>, tensor<1x8x8x1xf32>) {
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
  return %f, %a : tensor<1x8x8x1xf32>, tensor<1x8x8x1xf32>
}

// -----

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// A mean of means is one sum. Sums of few elements, and maxima, stay.
// CHECK-LABEL: func.func @means
// CHECK: %[[Y:.*]] = "winograd.output_transform"
// CHECK: %[[P:.*]] = flow.dispatch @winograd_sum_1x4096x64x1::@winograd_sum_1x4096x64x1(%[[Y]]) : (tensor<1x64x64x64xf32>) -> tensor<1x16x64xf32>
// CHECK: flow.dispatch @winograd_combine_sum_1x16x64::@winograd_combine_sum_1x16x64(%[[P]]) : (tensor<1x16x64xf32>) -> tensor<64xf32>
// CHECK: %[[MEAN:.*]] = tensor.expand_shape {{.*}} into tensor<1x64xf32>
// CHECK: %[[ROW:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[Y]]
// CHECK: %[[FEW:.*]] = linalg.generic {{.*}}"reduction"{{.*}} ins(%[[MEAN]]
// CHECK: return %[[MEAN]], %[[ROW]], %[[FEW]]
func.func @means(%m: tensor<1x4096x64xf32>) -> (tensor<1x64xf32>, tensor<1x64x64xf32>, tensor<1xf32>) {
  %zero = arith.constant 0.0 : f32
  %length = arith.constant 6.4e1 : f32
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x4096x64xf32>) -> tensor<1x64x64x64xf32>
  %er = tensor.empty() : tensor<1x64x64xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%er : tensor<1x64x64xf32>) -> tensor<1x64x64xf32>
  %rows = linalg.generic {indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (n, h, c)>], iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%y : tensor<1x64x64x64xf32>) outs(%zeros : tensor<1x64x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<1x64x64xf32>
  %row_means = linalg.generic {indexing_maps = [affine_map<(n, h, c) -> (n, h, c)>, affine_map<(n, h, c) -> (n, h, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%rows : tensor<1x64x64xf32>) outs(%er : tensor<1x64x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.divf %in, %length : f32
    linalg.yield %r : f32
  } -> tensor<1x64x64xf32>
  %em = tensor.empty() : tensor<1x64xf32>
  %zero_means = linalg.fill ins(%zero : f32) outs(%em : tensor<1x64xf32>) -> tensor<1x64xf32>
  %sums = linalg.generic {indexing_maps = [affine_map<(n, h, c) -> (n, h, c)>, affine_map<(n, h, c) -> (n, c)>], iterator_types = ["parallel", "reduction", "parallel"]} ins(%row_means : tensor<1x64x64xf32>) outs(%zero_means : tensor<1x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<1x64xf32>
  %means = linalg.generic {indexing_maps = [affine_map<(n, c) -> (n, c)>, affine_map<(n, c) -> (n, c)>], iterator_types = ["parallel", "parallel"]} ins(%sums : tensor<1x64xf32>) outs(%em : tensor<1x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.divf %in, %length : f32
    linalg.yield %r : f32
  } -> tensor<1x64xf32>
  %maxima = linalg.generic {indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (n, h, c)>], iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%y : tensor<1x64x64x64xf32>) outs(%zeros : tensor<1x64x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.maximumf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<1x64x64xf32>
  %e1 = tensor.empty() : tensor<1xf32>
  %zero_sum = linalg.fill ins(%zero : f32) outs(%e1 : tensor<1xf32>) -> tensor<1xf32>
  %few = linalg.generic {indexing_maps = [affine_map<(n, c) -> (n, c)>, affine_map<(n, c) -> (n)>], iterator_types = ["parallel", "reduction"]} ins(%means : tensor<1x64xf32>) outs(%zero_sum : tensor<1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %r = arith.addf %in, %out : f32
    linalg.yield %r : f32
  } -> tensor<1xf32>
  return %means, %maxima, %few : tensor<1x64xf32>, tensor<1x64x64xf32>, tensor<1xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// On CPUs rows of images of unknown size, beside a convolution; those of known size are IREE's.
// CHECK-LABEL: func.func @rows
// CHECK: %[[SUMS:.*]] = flow.dispatch @winograd_row_sums_anyxanyx8::@winograd_row_sums_anyxanyx8[%{{.*}}](%{{.*}}) {{.*}} -> tensor<1x?x8xf32>
// CHECK: linalg.generic {{.*}} ins(%[[SUMS]] : tensor<1x?x8xf32>) outs(%{{.*}} : tensor<1x8x?xf32>)
// CHECK: linalg.generic {{.*}}"reduction"
func.func @rows(%x: tensor<1x?x?x8xf32>, %y: tensor<1x4x4x8xf32>, %m: tensor<1x49x4xf32>) -> (tensor<1x8x?xf32>, tensor<1x8x4xf32>, tensor<1x7x7x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %c1 = arith.constant 1 : index
  %h = tensor.dim %x, %c1 : tensor<1x?x?x8xf32>
  %e = tensor.empty(%h) : tensor<1x8x?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x8x?xf32>) -> tensor<1x8x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, h, w, c)>, affine_map<(n, c, h, w) -> (n, c, h)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x : tensor<1x?x?x8xf32>) outs(%z : tensor<1x8x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %a = arith.addf %in, %out : f32
    linalg.yield %a : f32
  } -> tensor<1x8x?xf32>
  %f = tensor.empty() : tensor<1x8x4xf32>
  %g = linalg.fill ins(%zero : f32) outs(%f : tensor<1x8x4xf32>) -> tensor<1x8x4xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, h, w, c)>, affine_map<(n, c, h, w) -> (n, c, h)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%y : tensor<1x4x4x8xf32>) outs(%g : tensor<1x8x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %a = arith.addf %in, %out : f32
    linalg.yield %a : f32
  } -> tensor<1x8x4xf32>
  %c = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  return %r, %s, %c : tensor<1x8x?xf32>, tensor<1x8x4xf32>, tensor<1x7x7x4xf32>
}

// A mean of means is one of all pixels: their sums are divided twice.
// CHECK-LABEL: func.func @means
// CHECK: %[[ROWS:.*]] = flow.dispatch @winograd_row_sums_anyxanyx8::@winograd_row_sums_anyxanyx8[%{{.*}}](%{{.*}}) {{.*}} -> tensor<1x?x8xf32>
// CHECK: %[[SUMS:.*]] = flow.dispatch @winograd_row_sums_anyx8::@winograd_row_sums_anyx8[%{{.*}}](%[[ROWS]], {{.*}} -> tensor<1x8xf32>
// CHECK: linalg.generic {{.*}} ins(%[[SUMS]] : tensor<1x8xf32>)
// CHECK: arith.divf %{{.*}}, %arg1
// CHECK-NOT: "reduction"
func.func @means(%x: tensor<1x?x?x8xf32>, %height: f32, %m: tensor<1x49x4xf32>) -> (tensor<1x8x1x1xf32>, tensor<1x7x7x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %c2 = arith.constant 2 : index
  %w = tensor.dim %x, %c2 : tensor<1x?x?x8xf32>
  %e = tensor.empty(%w) : tensor<1x8x1x?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x8x1x?xf32>) -> tensor<1x8x1x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, h, w, c)>, affine_map<(n, c, h, w) -> (n, c, 0, w)>], iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%x : tensor<1x?x?x8xf32>) outs(%z : tensor<1x8x1x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %a = arith.addf %in, %out : f32
    linalg.yield %a : f32
  } -> tensor<1x8x1x?xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r : tensor<1x8x1x?xf32>) outs(%e : tensor<1x8x1x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %a = arith.divf %in, %height : f32
    linalg.yield %a : f32
  } -> tensor<1x8x1x?xf32>
  %f = tensor.empty() : tensor<1x8x1x1xf32>
  %g = linalg.fill ins(%zero : f32) outs(%f : tensor<1x8x1x1xf32>) -> tensor<1x8x1x1xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c, h, 0)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%d : tensor<1x8x1x?xf32>) outs(%g : tensor<1x8x1x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %a = arith.addf %in, %out : f32
    linalg.yield %a : f32
  } -> tensor<1x8x1x1xf32>
  %c = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  return %s, %c : tensor<1x8x1x1xf32>, tensor<1x7x7x4xf32>
}

// -----

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#whole = affine_map<(n, h, w, c) -> (n, h, w, c)>
#row = affine_map<(n, h, w, c) -> (n, h, 0, c)>
#image = affine_map<(n, h, w, c) -> (n, 0, w, c)>

// A mean of means that are rounded to half precision is one sum, which is rounded at the end.
// CHECK-LABEL: func.func @rounded
// CHECK: %[[Y:.*]] = "winograd.output_transform"
// CHECK: %[[M:.*]] = flow.dispatch @winograd_sum_1x4096x64x1::@winograd_sum_1x4096x64x1(%[[Y]])
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @rounded(%m: tensor<1x4096x64xf32>) -> tensor<1x1x1x64xf16> {
  %zero = arith.constant 0.0 : f32
  %length = arith.constant 64.0 : f32
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x4096x64xf32>) -> tensor<1x64x64x64xf32>
  %er = tensor.empty() : tensor<1x64x1x64xf32>
  %zr = linalg.fill ins(%zero : f32) outs(%er : tensor<1x64x1x64xf32>) -> tensor<1x64x1x64xf32>
  %r = linalg.generic {indexing_maps = [#whole, #row], iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%y : tensor<1x64x64x64xf32>) outs(%zr : tensor<1x64x1x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<1x64x1x64xf32>
  %h = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r : tensor<1x64x1x64xf32>) outs(%er : tensor<1x64x1x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %n = arith.truncf %in : f32 to f16
    %w = arith.extf %n : f16 to f32
    linalg.yield %w : f32
  } -> tensor<1x64x1x64xf32>
  %d = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%h : tensor<1x64x1x64xf32>) outs(%er : tensor<1x64x1x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %q = arith.divf %in, %length : f32
    %n = arith.truncf %q : f32 to f16
    %w = arith.extf %n : f16 to f32
    linalg.yield %w : f32
  } -> tensor<1x64x1x64xf32>
  %ei = tensor.empty() : tensor<1x1x1x64xf32>
  %zi = linalg.fill ins(%zero : f32) outs(%ei : tensor<1x1x1x64xf32>) -> tensor<1x1x1x64xf32>
  %i = linalg.generic {indexing_maps = [#whole, #image], iterator_types = ["parallel", "reduction", "parallel", "parallel"]} ins(%d : tensor<1x64x1x64xf32>) outs(%zi : tensor<1x1x1x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<1x1x1x64xf32>
  %eh = tensor.empty() : tensor<1x1x1x64xf16>
  %o = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%i : tensor<1x1x1x64xf32>) outs(%eh : tensor<1x1x1x64xf16>) {
  ^bb0(%in: f32, %out: f16):
    %q = arith.divf %in, %length : f32
    %n = arith.truncf %q : f32 to f16
    linalg.yield %n : f16
  } -> tensor<1x1x1x64xf16>
  return %o : tensor<1x1x1x64xf16>
}

// -----

util.global private @device = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#first = affine_map<(n, c, h, w) -> (n, h, w, c)>
#whole = affine_map<(n, c, h, w) -> (n, c, h, w)>
#column = affine_map<(n, c, h, w) -> (n, c, 0, w)>
#row = affine_map<(n, c, h, w) -> (n, c, h, 0)>

// On CUDA so are those of images of half precision and of unknown sizes, which kernels widen and round.
// CHECK-LABEL: func.func @rounded_of_any_size
// CHECK: %[[Y:.*]] = "winograd.output_transform"
// CHECK: %[[P:.*]] = flow.dispatch @winograd_pixel_sums_anyxanyx64{{.*}}%[[Y]]{{.*}} -> tensor<1x64xf16>
// CHECK: %[[R:.*]] = flow.dispatch @winograd_row_sums_anyxanyx64{{.*}}%[[Y]]{{.*}} -> tensor<1x?x64xf32>
// CHECK: flow.dispatch @winograd_row_sums_anyx64{{.*}}%[[R]]{{.*}}%[[P]]
// CHECK-NOT: reduction
// CHECK: return
func.func @rounded_of_any_size(%m: tensor<1x?x64xf32>, %h: index, %w: index, %like: tensor<1x?x?x64xf16>) -> tensor<1x64x1x1xf16> {
  %zero = arith.constant 0.0 : f32
  %y = "winograd.output_transform"(%m, %like) ({
  ^bb0(%a: f32, %b: f16):
    %n = arith.truncf %a : f32 to f16
    vector.yield %n : f16
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>], operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x?x64xf32>, tensor<1x?x?x64xf16>) -> tensor<1x?x?x64xf16>
  %e = tensor.empty(%h, %w) : tensor<1x?x?x64xf32>
  %x = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%y : tensor<1x?x?x64xf16>) outs(%e : tensor<1x?x?x64xf32>) {
  ^bb0(%in: f16, %out: f32):
    %s = arith.extf %in : f16 to f32
    linalg.yield %s : f32
  } -> tensor<1x?x?x64xf32>
  %ec = tensor.empty(%w) : tensor<1x64x1x?xf32>
  %zc = linalg.fill ins(%zero : f32) outs(%ec : tensor<1x64x1x?xf32>) -> tensor<1x64x1x?xf32>
  %c = linalg.generic {indexing_maps = [#first, #column], iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%x : tensor<1x?x?x64xf32>) outs(%zc : tensor<1x64x1x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<1x64x1x?xf32>
  %rows = arith.index_cast %h : index to i64
  %d = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%c : tensor<1x64x1x?xf32>) outs(%ec : tensor<1x64x1x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %k = arith.sitofp %rows : i64 to f32
    %q = arith.divf %in, %k : f32
    %n = arith.truncf %q : f32 to f16
    %v = arith.extf %n : f16 to f32
    linalg.yield %v : f32
  } -> tensor<1x64x1x?xf32>
  %er = tensor.empty() : tensor<1x64x1x1xf32>
  %zr = linalg.fill ins(%zero : f32) outs(%er : tensor<1x64x1x1xf32>) -> tensor<1x64x1x1xf32>
  %r = linalg.generic {indexing_maps = [#whole, #row], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%d : tensor<1x64x1x?xf32>) outs(%zr : tensor<1x64x1x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<1x64x1x1xf32>
  %columns = arith.index_cast %w : index to i64
  %eh = tensor.empty() : tensor<1x64x1x1xf16>
  %o = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r : tensor<1x64x1x1xf32>) outs(%eh : tensor<1x64x1x1xf16>) {
  ^bb0(%in: f32, %out: f16):
    %k = arith.sitofp %columns : i64 to f32
    %q = arith.divf %in, %k : f32
    %n = arith.truncf %q : f32 to f16
    linalg.yield %n : f16
  } -> tensor<1x64x1x1xf16>
  return %o : tensor<1x64x1x1xf16>
}

// -----

util.global private @device = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {target_triple = "x86_64-unknown-unknown-eabi-elf", cpu_features = "+avx2,+fma"}>]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#first = affine_map<(n, c, h, w) -> (n, h, w, c)>
#whole = affine_map<(n, c, h, w) -> (n, c, h, w)>
#column = affine_map<(n, c, h, w) -> (n, c, 0, w)>
#row = affine_map<(n, c, h, w) -> (n, c, h, 0)>

// On CPUs what reads the sums divides them, without rounding between.
// CHECK-LABEL: func.func @rounded_on_cpus
// CHECK: flow.dispatch @winograd_row_sums_anyxanyx64
// CHECK: %[[SUMS:.*]] = flow.dispatch @winograd_row_sums_anyx64
// CHECK: linalg.generic {{.*}} ins(%[[SUMS]]
// CHECK: arith.divf
// CHECK-NOT: arith.divf
// CHECK: linalg.yield %{{.*}} : f32
func.func @rounded_on_cpus(%m: tensor<1x?x64xf32>, %h: index, %w: index, %like: tensor<1x?x?x64xf16>) -> tensor<1x64x1x1xf16> {
  %zero = arith.constant 0.0 : f32
  %y = "winograd.output_transform"(%m, %like) ({
  ^bb0(%a: f32, %b: f16):
    %n = arith.truncf %a : f32 to f16
    vector.yield %n : f16
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>], operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x?x64xf32>, tensor<1x?x?x64xf16>) -> tensor<1x?x?x64xf16>
  %e = tensor.empty(%h, %w) : tensor<1x?x?x64xf32>
  %x = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%y : tensor<1x?x?x64xf16>) outs(%e : tensor<1x?x?x64xf32>) {
  ^bb0(%in: f16, %out: f32):
    %s = arith.extf %in : f16 to f32
    linalg.yield %s : f32
  } -> tensor<1x?x?x64xf32>
  %ec = tensor.empty(%w) : tensor<1x64x1x?xf32>
  %zc = linalg.fill ins(%zero : f32) outs(%ec : tensor<1x64x1x?xf32>) -> tensor<1x64x1x?xf32>
  %c = linalg.generic {indexing_maps = [#first, #column], iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%x : tensor<1x?x?x64xf32>) outs(%zc : tensor<1x64x1x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<1x64x1x?xf32>
  %rows = arith.index_cast %h : index to i64
  %d = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%c : tensor<1x64x1x?xf32>) outs(%ec : tensor<1x64x1x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %k = arith.sitofp %rows : i64 to f32
    %q = arith.divf %in, %k : f32
    %n = arith.truncf %q : f32 to f16
    %v = arith.extf %n : f16 to f32
    linalg.yield %v : f32
  } -> tensor<1x64x1x?xf32>
  %er = tensor.empty() : tensor<1x64x1x1xf32>
  %zr = linalg.fill ins(%zero : f32) outs(%er : tensor<1x64x1x1xf32>) -> tensor<1x64x1x1xf32>
  %r = linalg.generic {indexing_maps = [#whole, #row], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%d : tensor<1x64x1x?xf32>) outs(%zr : tensor<1x64x1x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<1x64x1x1xf32>
  %columns = arith.index_cast %w : index to i64
  %eh = tensor.empty() : tensor<1x64x1x1xf16>
  %o = linalg.generic {indexing_maps = [#whole, #whole], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r : tensor<1x64x1x1xf32>) outs(%eh : tensor<1x64x1x1xf16>) {
  ^bb0(%in: f32, %out: f16):
    %k = arith.sitofp %columns : i64 to f32
    %q = arith.divf %in, %k : f32
    %n = arith.truncf %q : f32 to f16
    linalg.yield %n : f16
  } -> tensor<1x64x1x1xf16>
  return %o : tensor<1x64x1x1xf16>
}
