// RUN: winograd-opt --winograd-separate-reductions --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// What lies between a reduction and the operation that reads it many times changes nothing.
// CHECK-LABEL: func.func @columns
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}}"reduction"
// CHECK: %[[READ:.*]] = util.optimization_barrier {winograd.computed_first} %[[SUM]] : tensor<1x8x64xf32>
// CHECK: linalg.generic {{.*}} ins(%[[READ]] : tensor<1x8x64xf32>)
func.func @columns(%m: tensor<1x512x64xf32>, %e: tensor<1x8x64x64xf32>, %i: tensor<1x8x64xf32>) -> tensor<1x8x64x64xf32> {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x512x64xf32>) -> tensor<1x8x64x64xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, k)>], iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%y : tensor<1x8x64x64xf32>) outs(%i : tensor<1x8x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<1x8x64xf32>
  %mean = linalg.generic {indexing_maps = [affine_map<(n, h, k) -> (n, h, k)>, affine_map<(n, h, k) -> (n, h, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%sum : tensor<1x8x64xf32>) outs(%i : tensor<1x8x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = math.sqrt %in : f32
    linalg.yield %s : f32
  } -> tensor<1x8x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%y, %mean : tensor<1x8x64x64xf32>, tensor<1x8x64xf32>) outs(%e : tensor<1x8x64x64xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %s = arith.divf %in, %of : f32
    linalg.yield %s : f32
  } -> tensor<1x8x64x64xf32>
  return %r : tensor<1x8x64x64xf32>
}

// Subgroups reduce rows, but not those of a transposed image; and nothing reads the last sum many times.
// CHECK-LABEL: func.func @rows
// CHECK-NOT: util.optimization_barrier
// CHECK: linalg.transpose
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}}"reduction"
// CHECK: util.optimization_barrier {winograd.computed_first} %[[SUM]] : tensor<1x8x64xf32>
// CHECK: %[[LAST:.*]] = linalg.generic {{.*}}"reduction"
// CHECK-NOT: util.optimization_barrier
// CHECK: return
func.func @rows(%x: tensor<1x8x64x64xf32>, %e: tensor<1x8x64x64xf32>, %i: tensor<1x8x64xf32>) -> (tensor<1x8x64x64xf32>, tensor<1x8x64x64xf32>, tensor<1x8x64xf32>) {
  %sum = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%x : tensor<1x8x64x64xf32>) outs(%i : tensor<1x8x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<1x8x64xf32>
  %r = linalg.broadcast ins(%sum : tensor<1x8x64xf32>) outs(%e : tensor<1x8x64x64xf32>) dimensions = [3]
  %t = linalg.transpose ins(%x : tensor<1x8x64x64xf32>) outs(%e : tensor<1x8x64x64xf32>) permutation = [0, 1, 3, 2]
  %sum2 = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%t : tensor<1x8x64x64xf32>) outs(%i : tensor<1x8x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<1x8x64xf32>
  %r2 = linalg.broadcast ins(%sum2 : tensor<1x8x64xf32>) outs(%e : tensor<1x8x64x64xf32>) dimensions = [3]
  %last = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, k)>], iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%x : tensor<1x8x64x64xf32>) outs(%i : tensor<1x8x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<1x8x64xf32>
  return %r, %r2, %last : tensor<1x8x64x64xf32>, tensor<1x8x64x64xf32>, tensor<1x8x64xf32>
}

// Rows of an image of a batch of one that an elementwise operation transposes: the index of its image is a constant.
// CHECK-LABEL: func.func @rows_of_one_image
// CHECK: linalg.generic {{.*}}"reduction"
// CHECK: util.optimization_barrier
func.func @rows_of_one_image(%m: tensor<1x4096x64xf32>, %e: tensor<1x64x64x64xf32>, %i: tensor<1x64x64xf32>) -> tensor<1x64x64x64xf32> {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x4096x64xf32>) -> tensor<1x64x64x64xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(n, k, h, w) -> (0, h, w, k)>, affine_map<(n, k, h, w) -> (n, k, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%y : tensor<1x64x64x64xf32>) outs(%e : tensor<1x64x64x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = math.sqrt %in : f32
    linalg.yield %s : f32
  } -> tensor<1x64x64x64xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(n, k, h, w) -> (n, k, h, w)>, affine_map<(n, k, h, w) -> (n, k, h)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%t : tensor<1x64x64x64xf32>) outs(%i : tensor<1x64x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<1x64x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, k, h, w) -> (n, k, h, w)>, affine_map<(n, k, h, w) -> (n, k, h)>, affine_map<(n, k, h, w) -> (n, k, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%t, %sum : tensor<1x64x64x64xf32>, tensor<1x64x64xf32>) outs(%e : tensor<1x64x64x64xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %s = arith.divf %in, %of : f32
    linalg.yield %s : f32
  } -> tensor<1x64x64x64xf32>
  return %r : tensor<1x64x64x64xf32>
}

// -----

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// Torch keeps reduced dimensions, of one element.
// CHECK-LABEL: func.func @kept
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}}"reduction"
// CHECK: util.optimization_barrier {winograd.computed_first} %[[SUM]] : tensor<1x8x1x64xf32>
func.func @kept(%m: tensor<1x512x64xf32>, %e: tensor<1x8x64x64xf32>, %i: tensor<1x8x1x64xf32>) -> tensor<1x8x64x64xf32> {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x512x64xf32>) -> tensor<1x8x64x64xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, 0, k)>], iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%y : tensor<1x8x64x64xf32>) outs(%i : tensor<1x8x1x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<1x8x1x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, h, 0, k)>, affine_map<(n, h, w, k) -> (n, h, w, k)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%y, %sum : tensor<1x8x64x64xf32>, tensor<1x8x1x64xf32>) outs(%e : tensor<1x8x64x64xf32>) {
  ^bb0(%in: f32, %of: f32, %out: f32):
    %s = arith.divf %in, %of : f32
    linalg.yield %s : f32
  } -> tensor<1x8x64x64xf32>
  return %r : tensor<1x8x64x64xf32>
}

// -----

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// IREE finds no sizes across the barrier that are known only at run time.
// CHECK-LABEL: func.func @open
// CHECK-SAME: %[[W:[^:]*]]: index)
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}}"reduction"
// CHECK: %[[READ:.*]] = util.optimization_barrier {winograd.computed_first} %[[SUM]] : tensor<1x?x64xf32>
// CHECK: %[[KNOWN:.*]] = flow.tensor.tie_shape %[[READ]] : tensor<1x?x64xf32>{%[[W]]}
// CHECK: linalg.broadcast ins(%[[KNOWN]]
func.func @open(%m: tensor<1x512x64xf32>, %x: tensor<1x8x?x64xf32>, %w: index) -> (tensor<1x8x8x64xf32>, tensor<1x8x?x64xf32>) {
  %y = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x512x64xf32>) -> tensor<1x8x8x64xf32>
  %i = tensor.empty(%w) : tensor<1x?x64xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(n, h, w, k) -> (n, h, w, k)>, affine_map<(n, h, w, k) -> (n, w, k)>], iterator_types = ["parallel", "reduction", "parallel", "parallel"]} ins(%x : tensor<1x8x?x64xf32>) outs(%i : tensor<1x?x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<1x?x64xf32>
  %e = tensor.empty(%w) : tensor<1x8x?x64xf32>
  %r = linalg.broadcast ins(%sum : tensor<1x?x64xf32>) outs(%e : tensor<1x8x?x64xf32>) dimensions = [1]
  return %y, %r : tensor<1x8x8x64xf32>, tensor<1x8x?x64xf32>
}

// -----

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

// So it is where no convolution was taken.
// CHECK-LABEL: func.func @alone
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}}"reduction"
// CHECK: %[[READ:.*]] = util.optimization_barrier {winograd.computed_first} %[[SUM]] : tensor<33x5xf32>
// CHECK: linalg.broadcast ins(%[[READ]]
func.func @alone(%x: tensor<33x8x5xf32>, %e: tensor<33x8x5xf32>, %i: tensor<33x5xf32>) -> tensor<33x8x5xf32> {
  %sum = linalg.generic {indexing_maps = [affine_map<(n, h, w) -> (n, h, w)>, affine_map<(n, h, w) -> (n, w)>], iterator_types = ["parallel", "reduction", "parallel"]} ins(%x : tensor<33x8x5xf32>) outs(%i : tensor<33x5xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.addf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<33x5xf32>
  %r = linalg.broadcast ins(%sum : tensor<33x5xf32>) outs(%e : tensor<33x8x5xf32>) dimensions = [1]
  return %r : tensor<33x8x5xf32>
}
