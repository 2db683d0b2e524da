// RUN: winograd-opt --winograd-split-sums --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#image = affine_map<(n, h, w, k) -> (n, h, w, k)>
#channel = affine_map<(n, h, w, k) -> (n, k)>

// The variance of each channel of an image: the squares of differences are computed with the sums of rows.
// CHECK-DAG: #[[IMAGE:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
// CHECK-DAG: #[[MEAN:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3)>
// CHECK-DAG: #[[ROWS:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// CHECK-LABEL: func.func @pixels
// CHECK-SAME: , %[[M:.*]]: tensor<1x64xf32>)
// CHECK: %[[Y:.*]] = "winograd.output_transform"
// CHECK: %[[ROW_SUMS:.*]] = linalg.generic {indexing_maps = [#[[IMAGE]], #[[MEAN]], #[[ROWS]]], iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%[[Y]], %[[M]]
// CHECK: %[[D:.*]] = arith.subf
// CHECK: %[[Q:.*]] = arith.mulf %[[D]], %[[D]]
// CHECK: arith.addf %[[Q]]
// CHECK: -> tensor<1x112x64xf32>
// CHECK: %[[S:.*]] = linalg.generic {{.*}}, iterator_types = ["parallel", "reduction", "parallel"]} ins(%[[ROW_SUMS]]
// CHECK: arith.addf
// CHECK: return %[[S]]
func.func @pixels(%m: tensor<1x12544x64xf32>, %mean: tensor<1x64xf32>) -> tensor<1x64xf32> {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x12544x64xf32>) -> tensor<1x112x112x64xf32>
  %e = tensor.empty() : tensor<1x112x112x64xf32>
  %d = linalg.generic {indexing_maps = [#image, #channel, #image], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%y, %mean : tensor<1x112x112x64xf32>, tensor<1x64xf32>) outs(%e : tensor<1x112x112x64xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %0 = arith.subf %in, %of : f32
    linalg.yield %0 : f32
  } -> tensor<1x112x112x64xf32>
  %q = linalg.generic {indexing_maps = [#image, #image, #image], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%d, %d : tensor<1x112x112x64xf32>, tensor<1x112x112x64xf32>) outs(%e : tensor<1x112x112x64xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<1x112x112x64xf32>
  %zero = arith.constant 0.0 : f32
  %i = tensor.empty() : tensor<1x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%i : tensor<1x64xf32>) -> tensor<1x64xf32>
  %s = linalg.generic {indexing_maps = [#image, #channel], iterator_types = ["parallel", "reduction", "reduction", "parallel"]} ins(%q : tensor<1x112x112x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %out : f32
    linalg.yield %0 : f32
  } -> tensor<1x64xf32>
  return %s : tensor<1x64xf32>
}

// The squares of a norm are computed with the sums of rows, as its body has them.
// CHECK-LABEL: func.func @norm
// CHECK: %[[ROW_SUMS:.*]] = linalg.generic {{.*}}, iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%{{.*}} : tensor<1x112x112x64xf32>)
// CHECK: %[[A:.*]] = math.absf
// CHECK: %[[P:.*]] = math.powf %[[A]]
// CHECK: arith.addf %[[P]]
// CHECK: -> tensor<1x112x64xf32>
// CHECK: %[[S:.*]] = linalg.generic {{.*}}, iterator_types = ["parallel", "reduction", "parallel"]} ins(%[[ROW_SUMS]]
// CHECK-NOT: math
// CHECK: return %[[S]]
func.func @norm(%m: tensor<1x12544x64xf32>) -> tensor<1x64xf32> {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x12544x64xf32>) -> tensor<1x112x112x64xf32>
  %zero = arith.constant 0.0 : f32
  %two = arith.constant 2.0 : f32
  %i = tensor.empty() : tensor<1x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%i : tensor<1x64xf32>) -> tensor<1x64xf32>
  %s = linalg.generic {indexing_maps = [#image, #channel], iterator_types = ["parallel", "reduction", "reduction", "parallel"]} ins(%y : tensor<1x112x112x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.absf %in : f32
    %1 = math.powf %0, %two : f32
    %2 = arith.addf %1, %out : f32
    linalg.yield %2 : f32
  } -> tensor<1x64xf32>
  return %s : tensor<1x64xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// The sum of a group's channels, all pixels of each in one dimension. Of the 8 * 12544 elements 256 are added
// first, and then 49 * 8 sums.
// CHECK-LABEL: func.func @groups
// CHECK: %[[PARTS:.*]] = tensor.expand_shape %{{.*}} {{\[}}[0], [1], [2], [3, 4]] output_shape [1, 8, 8, 49, 256]
// CHECK: %[[SUMS:.*]] = linalg.generic {{.*}}, iterator_types = ["parallel", "parallel", "parallel", "reduction", "parallel"]} ins(%[[PARTS]]
// CHECK: -> tensor<1x8x8x49xf32>
// CHECK: linalg.generic {{.*}}, iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%[[SUMS]]
func.func @groups(%m: tensor<1x12544x64xf32>) -> tensor<1x8x1x1xf32> {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x12544x64xf32>) -> tensor<1x112x112x64xf32>
  %flat = tensor.collapse_shape %y [[0], [1, 2], [3]] : tensor<1x112x112x64xf32> into tensor<1x12544x64xf32>
  %e = tensor.empty() : tensor<1x64x12544xf32>
  %t = linalg.transpose ins(%flat : tensor<1x12544x64xf32>) outs(%e : tensor<1x64x12544xf32>) permutation = [0, 2, 1]
  %g = tensor.expand_shape %t [[0], [1, 2], [3]] output_shape [1, 8, 8, 12544] : tensor<1x64x12544xf32> into tensor<1x8x8x12544xf32>
  %zero = arith.constant 0.0 : f32
  %i = tensor.empty() : tensor<1x8x1x1xf32>
  %f = linalg.fill ins(%zero : f32) outs(%i : tensor<1x8x1x1xf32>) -> tensor<1x8x1x1xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(n, g, c, p) -> (n, g, c, p)>, affine_map<(n, g, c, p) -> (n, g, 0, 0)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%g : tensor<1x8x8x12544xf32>) outs(%f : tensor<1x8x1x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %out : f32
    linalg.yield %0 : f32
  } -> tensor<1x8x1x1xf32>
  return %s : tensor<1x8x1x1xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#image = affine_map<(n, h, w, k) -> (n, h, w, k)>
#channel = affine_map<(n, h, w, k) -> (n, k)>

// Of rows, elements that lie apart are added first, so that neighbours fill vectors. The number of rows may be
// known only at run time.
// CHECK-LABEL: func.func @rows
// CHECK: %[[PARTS:.*]] = tensor.expand_shape %{{.*}} {{\[}}[0], [1, 2]] {{.*}} into tensor<?x112x112xf32>
// CHECK: linalg.generic {indexing_maps = [#[[APART:.*]], #[[NEIGHBOURS:.*]]], iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[PARTS]]
// CHECK: -> tensor<?x112xf32>
// CHECK: linalg.generic {{.*}}, iterator_types = ["parallel", "reduction"]}

// A short sum, a prime number of elements, a maximum, and a sum that doesn't begin with zero. That of a number of
// elements that isn't known is in f64.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-4: linalg.generic
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x64xf64>)
// CHECK: linalg.generic
// CHECK: arith.truncf
// CHECK-NOT: linalg.generic
func.func @rows(%rows: tensor<?x12544xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %rows, %c0 : tensor<?x12544xf32>
  %zero = arith.constant 0.0 : f32
  %j = tensor.empty(%n) : tensor<?xf32>
  %g = linalg.fill ins(%zero : f32) outs(%j : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(k, p) -> (k, p)>, affine_map<(k, p) -> (k)>], iterator_types = ["parallel", "reduction"]} ins(%rows : tensor<?x12544xf32>) outs(%g : tensor<?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %out : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32>
  return %s : tensor<?xf32>
}

func.func @others(%m: tensor<1x1024x64xf32>, %prime: tensor<1031x64xf32>, %large: tensor<1x64x64x64xf32>, %of: tensor<1x64xf32>, %unknown: tensor<1x?x64x64xf32>) -> (tensor<1x64xf32>, tensor<64xf32>, tensor<1x64xf32>, tensor<1x64xf32>, tensor<1x64xf32>) {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x1024x64xf32>) -> tensor<1x32x32x64xf32>
  %zero = arith.constant 0.0 : f32
  %i = tensor.empty() : tensor<1x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%i : tensor<1x64xf32>) -> tensor<1x64xf32>
  %j = tensor.empty() : tensor<64xf32>
  %g = linalg.fill ins(%zero : f32) outs(%j : tensor<64xf32>) -> tensor<64xf32>
  %0 = linalg.generic {indexing_maps = [#image, #channel], iterator_types = ["parallel", "reduction", "reduction", "parallel"]} ins(%y : tensor<1x32x32x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(p, k) -> (p, k)>, affine_map<(p, k) -> (k)>], iterator_types = ["reduction", "parallel"]} ins(%prime : tensor<1031x64xf32>) outs(%g : tensor<64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<64xf32>
  %2 = linalg.generic {indexing_maps = [#image, #channel], iterator_types = ["parallel", "reduction", "reduction", "parallel"]} ins(%large : tensor<1x64x64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.maximumf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %3 = linalg.generic {indexing_maps = [#image, #channel], iterator_types = ["parallel", "reduction", "reduction", "parallel"]} ins(%large : tensor<1x64x64x64xf32>) outs(%of : tensor<1x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  %4 = linalg.generic {indexing_maps = [#image, #channel], iterator_types = ["parallel", "reduction", "reduction", "parallel"]} ins(%unknown : tensor<1x?x64x64xf32>) outs(%f : tensor<1x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  return %0, %1, %2, %3, %4 : tensor<1x64xf32>, tensor<64xf32>, tensor<1x64xf32>, tensor<1x64xf32>, tensor<1x64xf32>
}

// -----

util.global private @device = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// On GPUs threads add a few pixels each, and then a few of these sums, until few are left of each group.
// Neighbours of a row of channels are last: neighbouring threads take them.
// CHECK-LABEL: func.func @gpu
// CHECK: linalg.generic {{.*}}, iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
// CHECK: -> tensor<1x1792x8x8xf32>
// CHECK: linalg.generic {{.*}}, iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
// CHECK: -> tensor<1x64x8x8xf32>
// CHECK: linalg.generic {{.*}}, iterator_types = ["parallel", "reduction", "parallel", "reduction"]}
// CHECK-NOT: linalg.generic
// CHECK: return

// There are enough sums, or they are short.
// CHECK-LABEL: func.func @parallel
// CHECK-COUNT-2: linalg.generic
// CHECK-NOT: linalg.generic
func.func @gpu(%m: tensor<1x50176x64xf32>) -> tensor<1x8xf32> {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x50176x64xf32>) -> tensor<1x224x224x64xf32>
  %g = tensor.expand_shape %y [[0], [1], [2], [3, 4]] output_shape [1, 224, 224, 8, 8] : tensor<1x224x224x64xf32> into tensor<1x224x224x8x8xf32>
  %f = tensor.collapse_shape %g [[0], [1, 2], [3], [4]] : tensor<1x224x224x8x8xf32> into tensor<1x50176x8x8xf32>
  %zero = arith.constant 0.0 : f32
  %i = tensor.empty() : tensor<1x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%i : tensor<1x8xf32>) -> tensor<1x8xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(n, p, g, c) -> (n, p, g, c)>, affine_map<(n, p, g, c) -> (n, g)>], iterator_types = ["parallel", "reduction", "parallel", "reduction"]} ins(%f : tensor<1x50176x8x8xf32>) outs(%z : tensor<1x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %out : f32
    linalg.yield %0 : f32
  } -> tensor<1x8xf32>
  return %s : tensor<1x8xf32>
}

func.func @parallel(%rows: tensor<1024x8192xf32>, %short: tensor<64x4096xf32>) -> (tensor<1024xf32>, tensor<64xf32>) {
  %zero = arith.constant 0.0 : f32
  %i = tensor.empty() : tensor<1024xf32>
  %f = linalg.fill ins(%zero : f32) outs(%i : tensor<1024xf32>) -> tensor<1024xf32>
  %j = tensor.empty() : tensor<64xf32>
  %g = linalg.fill ins(%zero : f32) outs(%j : tensor<64xf32>) -> tensor<64xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (r)>], iterator_types = ["parallel", "reduction"]} ins(%rows : tensor<1024x8192xf32>) outs(%f : tensor<1024xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<1024xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (r)>], iterator_types = ["parallel", "reduction"]} ins(%short : tensor<64x4096xf32>) outs(%g : tensor<64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<64xf32>
  return %0, %1 : tensor<1024xf32>, tensor<64xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// The mean of as many elements as come is that of a sum in f64, and so is a sum that nothing divides.
// CHECK-LABEL: func.func @unknown
// CHECK: %[[W:.*]] = linalg.generic {{.*}}, iterator_types = ["parallel", "reduction"]} ins(%{{.*}} : tensor<4x?xf32>) outs(%{{.*}} : tensor<4xf64>)
// CHECK: %[[E:.*]] = arith.extf %{{.*}} : f32 to f64
// CHECK: arith.addf %[[E]], %{{.*}} : f64
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[W]] : tensor<4xf64>)
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: linalg.generic {{.*}} ins(%[[S]] : tensor<4xf32>)
// CHECK: arith.divf
// CHECK: linalg.generic {{.*}}, iterator_types = ["parallel", "reduction"]} ins(%{{.*}} : tensor<4x?xf32>) outs(%{{.*}} : tensor<4xf64>)
// CHECK: arith.truncf
func.func @unknown(%m: tensor<1x49x64xf32>, %x: tensor<4x?xf32>, %count: f32) -> (tensor<1x7x7x64xf32>, tensor<4xf32>, tensor<4xf32>) {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x64xf32>) -> tensor<1x7x7x64xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(c, t) -> (c, t)>, affine_map<(c, t) -> (c)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x?xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %out : f32
    linalg.yield %0 : f32
  } -> tensor<4xf32>
  %mean = linalg.generic {indexing_maps = [affine_map<(c) -> (c)>, affine_map<(c) -> (c)>], iterator_types = ["parallel"]} ins(%s : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.divf %in, %count : f32
    linalg.yield %0 : f32
  } -> tensor<4xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(c, t) -> (c, t)>, affine_map<(c, t) -> (c)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x?xf32>) outs(%f : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %out : f32
    linalg.yield %0 : f32
  } -> tensor<4xf32>
  return %y, %mean, %t : tensor<1x7x7x64xf32>, tensor<4xf32>, tensor<4xf32>
}

// Sums over the sides of an image of any size, or over its pixels in one dimension, are sums of sums of rows. Those of
// one side stay.
// CHECK-LABEL: func.func @norms
// CHECK: %[[ROWS:.*]] = linalg.generic {{.*}}, iterator_types = ["parallel", "reduction", "parallel", "parallel"]} ins(%[[X:.*]] : tensor<1x?x?x16xf32>)
// CHECK: arith.mulf
// CHECK: -> tensor<1x?x16xf32>
// CHECK: %[[S:.*]] = linalg.generic {{.*}}, iterator_types = ["parallel", "reduction", "parallel"]} ins(%[[ROWS]]
// CHECK-NOT: arith.mulf
// CHECK: -> tensor<1x16xf32>
// CHECK: linalg.generic {{.*}}, iterator_types = ["parallel", "reduction", "parallel", "parallel"]} ins(%[[X]] : tensor<1x?x?x16xf32>)
// CHECK: linalg.generic {{.*}}, iterator_types = ["parallel", "reduction", "parallel"]}
// CHECK: linalg.generic {{.*}}, iterator_types = ["parallel", "reduction"]} ins(%{{.*}} : tensor<1x16xf32>)
// CHECK: linalg.generic {{.*}}, iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%[[X]] : tensor<1x?x?x16xf32>)
// CHECK: return
func.func @norms(%m: tensor<1x49x64xf32>, %x: tensor<1x?x?x16xf32>) -> (tensor<1x7x7x64xf32>, tensor<1x16xf32>, tensor<1xf32>, tensor<1x?x16xf32>) {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x64xf32>) -> tensor<1x7x7x64xf32>
  %zero = arith.constant 0.0 : f32
  %c1 = arith.constant 1 : index
  %h = tensor.dim %x, %c1 : tensor<1x?x?x16xf32>
  %pixels = tensor.collapse_shape %x [[0], [1, 2], [3]] : tensor<1x?x?x16xf32> into tensor<1x?x16xf32>
  %e = tensor.empty() : tensor<1x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x16xf32>) -> tensor<1x16xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(n, p, c) -> (n, p, c)>, affine_map<(n, p, c) -> (n, c)>], iterator_types = ["parallel", "reduction", "parallel"]} ins(%pixels : tensor<1x?x16xf32>) outs(%f : tensor<1x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %square = arith.mulf %in, %in : f32
    %sum = arith.addf %square, %out : f32
    linalg.yield %sum : f32
  } -> tensor<1x16xf32>
  %ea = tensor.empty() : tensor<1xf32>
  %fa = linalg.fill ins(%zero : f32) outs(%ea : tensor<1xf32>) -> tensor<1xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (n)>], iterator_types = ["parallel", "reduction", "reduction", "reduction"]} ins(%x : tensor<1x?x?x16xf32>) outs(%fa : tensor<1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %square = arith.mulf %in, %in : f32
    %sum = arith.addf %square, %out : f32
    linalg.yield %sum : f32
  } -> tensor<1xf32>
  %er = tensor.empty(%h) : tensor<1x?x16xf32>
  %fr = linalg.fill ins(%zero : f32) outs(%er : tensor<1x?x16xf32>) -> tensor<1x?x16xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (n, h, c)>], iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%x : tensor<1x?x?x16xf32>) outs(%fr : tensor<1x?x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %square = arith.mulf %in, %in : f32
    %sum = arith.addf %square, %out : f32
    linalg.yield %sum : f32
  } -> tensor<1x?x16xf32>
  return %y, %0, %1, %2 : tensor<1x7x7x64xf32>, tensor<1x16xf32>, tensor<1xf32>, tensor<1x?x16xf32>
}

// Of groups the sums of channels, then those of these, rounded at the end.
// CHECK-LABEL: func.func @groups
// CHECK: %[[W:.*]] = linalg.generic {{.*}}, iterator_types = ["parallel", "parallel", "reduction"]} ins(%{{.*}} : tensor<2x4x?xf32>) outs(%{{.*}} : tensor<2x4xf64>)
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: %[[G:.*]] = linalg.generic {{.*}}, iterator_types = ["parallel", "reduction"]} ins(%[[W]] : tensor<2x4xf64>) outs(%{{.*}} : tensor<2xf64>)
// CHECK: %[[S:.*]] = linalg.generic {{.*}} ins(%[[G]] : tensor<2xf64>)
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: linalg.generic {{.*}} ins(%[[S]] : tensor<2xf32>)
func.func @groups(%m: tensor<1x49x64xf32>, %x: tensor<2x4x?xf32>, %count: f32) -> (tensor<1x7x7x64xf32>, tensor<2xf32>) {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x64xf32>) -> tensor<1x7x7x64xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(g, c, t) -> (g, c, t)>, affine_map<(g, c, t) -> (g)>], iterator_types = ["parallel", "reduction", "reduction"]} ins(%x : tensor<2x4x?xf32>) outs(%f : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %out : f32
    linalg.yield %0 : f32
  } -> tensor<2xf32>
  %mean = linalg.generic {indexing_maps = [affine_map<(c) -> (c)>, affine_map<(c) -> (c)>], iterator_types = ["parallel"]} ins(%s : tensor<2xf32>) outs(%e : tensor<2xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.divf %in, %count : f32
    linalg.yield %0 : f32
  } -> tensor<2xf32>
  return %y, %mean : tensor<1x7x7x64xf32>, tensor<2xf32>
}
