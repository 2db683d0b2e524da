// RUN: winograd-opt --winograd-lower-resampling --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#identity = affine_map<(n, i, j, c) -> (n, i, j, c)>

// The mean of neighbours in a row, or an element twice: a quad of channels has two positions and two weights.
// CHECK-LABEL: func.func @blended
// CHECK: %[[X:.*]] = "winograd.output_transform"
// CHECK-NOT: linalg.generic
// CHECK: %[[TAPS:.*]] = arith.constant dense_resource<{{.*}}> : tensor<9x4xf32>
// CHECK: %[[R:.*]] = flow.dispatch @winograd_resampled_1x3x9x8::@winograd_resampled_1x3x9x8(%[[X]], %[[TAPS]]) : (tensor<1x3x5x8xf32>, tensor<9x4xf32>) -> tensor<1x3x9x8xf32>
// CHECK: return %[[R]]
func.func @blended(%m: tensor<1x15x8xf32>) -> tensor<1x3x9x8xf32> {
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x15x8xf32>) -> tensor<1x3x5x8xf32>
  %e = tensor.empty() : tensor<1x3x9x8xf32>
  %r = linalg.generic {indexing_maps = [#identity], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<1x3x9x8xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = linalg.index 3 : index
    %one = arith.constant 1 : index
    %two = arith.constant 2 : index
    %half = arith.constant 0.5 : f32
    %k = arith.divsi %j, %two : index
    %s = arith.addi %j, %one : index
    %l = arith.divsi %s, %two : index
    %a = tensor.extract %x[%n, %i, %k, %c] : tensor<1x3x5x8xf32>
    %b = tensor.extract %x[%n, %i, %l, %c] : tensor<1x3x5x8xf32>
    %p = arith.mulf %a, %half : f32
    %q = arith.mulf %b, %half : f32
    %v = arith.addf %p, %q : f32
    linalg.yield %v : f32
  } -> tensor<1x3x9x8xf32>
  return %r : tensor<1x3x9x8xf32>
}

// -----

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#identity = affine_map<(n, i, j, c) -> (n, i, j, c)>

// Rows and columns that are padded by reflection, one after the other, are positions of one dispatch.
// CHECK-LABEL: func.func @reflected
// CHECK: %[[X:.*]] = "winograd.output_transform"
// CHECK-NOT: linalg.generic
// CHECK: %[[R:.*]] = flow.dispatch @winograd_resampled_1x4x6x8::@winograd_resampled_1x4x6x8(%[[X]], %{{.*}}, %{{.*}}) : (tensor<1x3x5x8xf32>, tensor<4x1xf32>, tensor<6x1xf32>) -> tensor<1x4x6x8xf32>
// CHECK: return %[[R]]
func.func @reflected(%m: tensor<1x15x8xf32>) -> tensor<1x4x6x8xf32> {
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x15x8xf32>) -> tensor<1x3x5x8xf32>
  %e = tensor.empty() : tensor<1x4x5x8xf32>
  %r = linalg.generic {indexing_maps = [#identity], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<1x4x5x8xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = linalg.index 3 : index
    %one = arith.constant 1 : index
    %s = arith.subi %i, %one : index
    %k = math.absi %s : index
    %v = tensor.extract %x[%n, %k, %j, %c] : tensor<1x3x5x8xf32>
    linalg.yield %v : f32
  } -> tensor<1x4x5x8xf32>
  %f = tensor.empty() : tensor<1x4x6x8xf32>
  %s = linalg.generic {indexing_maps = [#identity], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%f : tensor<1x4x6x8xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = linalg.index 3 : index
    %one = arith.constant 1 : index
    %d = arith.subi %j, %one : index
    %k = math.absi %d : index
    %v = tensor.extract %r[%n, %i, %k, %c] : tensor<1x4x5x8xf32>
    linalg.yield %v : f32
  } -> tensor<1x4x6x8xf32>
  return %s : tensor<1x4x6x8xf32>
}

// -----

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#identity = affine_map<(n, i, j, c) -> (n, i, j, c)>

// What is concatenated is written to its place.
// CHECK-LABEL: func.func @concatenated
// CHECK-SAME: %{{.*}}: tensor<1x15x8xf32>, %[[W:.*]]: tensor<1x3x9x16xf32>
// CHECK: %[[X:.*]] = "winograd.output_transform"
// CHECK: %[[R:.*]] = flow.dispatch @winograd_resampled_1x3x9x8::@winograd_resampled_1x3x9x8(%[[X]], %{{.*}}, %[[W]]) : (tensor<1x3x5x8xf32>, tensor<9x4xf32>, tensor<1x3x9x16xf32>) -> %[[W]]
// CHECK-NOT: tensor.insert_slice
// CHECK: return %[[R]]
func.func @concatenated(%m: tensor<1x15x8xf32>, %w: tensor<1x3x9x16xf32>) -> tensor<1x3x9x16xf32> {
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x15x8xf32>) -> tensor<1x3x5x8xf32>
  %e = tensor.empty() : tensor<1x3x9x8xf32>
  %r = linalg.generic {indexing_maps = [#identity], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<1x3x9x8xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = linalg.index 3 : index
    %one = arith.constant 1 : index
    %two = arith.constant 2 : index
    %half = arith.constant 0.5 : f32
    %k = arith.divsi %j, %two : index
    %s = arith.addi %j, %one : index
    %l = arith.divsi %s, %two : index
    %a = tensor.extract %x[%n, %i, %k, %c] : tensor<1x3x5x8xf32>
    %b = tensor.extract %x[%n, %i, %l, %c] : tensor<1x3x5x8xf32>
    %p = arith.mulf %a, %half : f32
    %q = arith.mulf %b, %half : f32
    %v = arith.addf %p, %q : f32
    linalg.yield %v : f32
  } -> tensor<1x3x9x8xf32>
  %s = tensor.insert_slice %r into %w[0, 0, 0, 8] [1, 3, 9, 8] [1, 1, 1, 1] : tensor<1x3x9x8xf32> into tensor<1x3x9x16xf32>
  return %s : tensor<1x3x9x16xf32>
}

// -----

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#identity = affine_map<(n, i, j, c) -> (n, i, j, c)>

// A small image that is read elementwise is computed with what reads it.
// CHECK-LABEL: func.func @read_elementwise
// CHECK-NOT: flow.dispatch
func.func @read_elementwise(%m: tensor<1x15x8xf32>) -> tensor<1x3x9x8xf32> {
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x15x8xf32>) -> tensor<1x3x5x8xf32>
  %e = tensor.empty() : tensor<1x3x9x8xf32>
  %r = linalg.generic {indexing_maps = [#identity], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<1x3x9x8xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = linalg.index 3 : index
    %one = arith.constant 1 : index
    %two = arith.constant 2 : index
    %half = arith.constant 0.5 : f32
    %k = arith.divsi %j, %two : index
    %s = arith.addi %j, %one : index
    %l = arith.divsi %s, %two : index
    %a = tensor.extract %x[%n, %i, %k, %c] : tensor<1x3x5x8xf32>
    %b = tensor.extract %x[%n, %i, %l, %c] : tensor<1x3x5x8xf32>
    %p = arith.mulf %a, %half : f32
    %q = arith.mulf %b, %half : f32
    %v = arith.addf %p, %q : f32
    linalg.yield %v : f32
  } -> tensor<1x3x9x8xf32>
  %t = linalg.generic {indexing_maps = [#identity, #identity], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r : tensor<1x3x9x8xf32>) outs(%e : tensor<1x3x9x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = math.tanh %a : f32
    linalg.yield %b : f32
  } -> tensor<1x3x9x8xf32>
  return %t : tensor<1x3x9x8xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#identity = affine_map<(n, i, j, c) -> (n, i, j, c)>

// IREE's vectors read tables on CPUs.
// CHECK-LABEL: func.func @on_a_cpu
// CHECK-NOT: flow.dispatch
func.func @on_a_cpu(%m: tensor<1x15x8xf32>) -> tensor<1x3x9x8xf32> {
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x15x8xf32>) -> tensor<1x3x5x8xf32>
  %e = tensor.empty() : tensor<1x3x9x8xf32>
  %r = linalg.generic {indexing_maps = [#identity], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : tensor<1x3x9x8xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = linalg.index 3 : index
    %one = arith.constant 1 : index
    %two = arith.constant 2 : index
    %half = arith.constant 0.5 : f32
    %k = arith.divsi %j, %two : index
    %s = arith.addi %j, %one : index
    %l = arith.divsi %s, %two : index
    %a = tensor.extract %x[%n, %i, %k, %c] : tensor<1x3x5x8xf32>
    %b = tensor.extract %x[%n, %i, %l, %c] : tensor<1x3x5x8xf32>
    %p = arith.mulf %a, %half : f32
    %q = arith.mulf %b, %half : f32
    %v = arith.addf %p, %q : f32
    linalg.yield %v : f32
  } -> tensor<1x3x9x8xf32>
  return %r : tensor<1x3x9x8xf32>
}
