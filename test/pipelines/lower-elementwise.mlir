// RUN: winograd-opt --winograd-lower-elementwise --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#all = affine_map<(n, h, w, c) -> (n, h, w, c)>
#channel = affine_map<(n, h, w, c) -> (n, c, 0, 0)>

// A scale and a shift of channels with what follows, read twice: one kernel, which reads vectors from memory.
// CHECK-LABEL: func.func @normalized
// CHECK-SAME: (%[[M:.*]]: tensor<1x65536x64xf32>, %[[SCALE:.*]]: tensor<1x64x1x1xf32>, %[[SHIFT:.*]]: tensor<1x64x1x1xf32>)
// CHECK: %[[Y:.*]] = "winograd.output_transform"
// CHECK-NOT: linalg.generic
// CHECK: %[[Z:.*]] = flow.dispatch @winograd_elementwise_1x256x256x64::@winograd_elementwise_1x256x256x64(%[[Y]], %[[SCALE]], %[[SHIFT]])
// CHECK-NOT: linalg.generic
// CHECK: "winograd.input_transform"(%[[Z]])
func.func @normalized(%m: tensor<1x65536x64xf32>, %scale: tensor<1x64x1x1xf32>, %shift: tensor<1x64x1x1xf32>) -> tensor<1x65536x64xf32> {
  %one = arith.constant 1.0 : f32
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x65536x64xf32>) -> tensor<1x256x256x64xf32>
  %e = tensor.empty() : tensor<1x256x256x64xf32>
  %s = linalg.generic {indexing_maps = [#all, #channel, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %scale : tensor<1x256x256x64xf32>, tensor<1x64x1x1xf32>) outs(%e : tensor<1x256x256x64xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %r = arith.mulf %in, %by : f32
    linalg.yield %r : f32
  } -> tensor<1x256x256x64xf32>
  %y = linalg.generic {indexing_maps = [#all, #channel, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%s, %shift : tensor<1x256x256x64xf32>, tensor<1x64x1x1xf32>) outs(%e : tensor<1x256x256x64xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %r = arith.addf %in, %by : f32
    linalg.yield %r : f32
  } -> tensor<1x256x256x64xf32>
  %g = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%y : tensor<1x256x256x64xf32>) outs(%e : tensor<1x256x256x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    %negative = arith.negf %in : f32
    %exponential = math.exp %negative : f32
    %sum = arith.addf %exponential, %one : f32
    %r = arith.divf %one, %sum : f32
    linalg.yield %r : f32
  } -> tensor<1x256x256x64xf32>
  %z = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%y, %g : tensor<1x256x256x64xf32>, tensor<1x256x256x64xf32>) outs(%e : tensor<1x256x256x64xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %r = arith.mulf %in, %by : f32
    linalg.yield %r : f32
  } -> tensor<1x256x256x64xf32>
  %t = "winograd.input_transform"(%z) {decomposition = #direct, groups = 1 : i64, padding_high = array<i64: 0, 0>, padding_low = array<i64: 0, 0>} : (tensor<1x256x256x64xf32>) -> tensor<1x65536x64xf32>
  return %t : tensor<1x65536x64xf32>
}

// -----

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#all = affine_map<(n, h, w, c) -> (n, h, w, c)>

// Integers are IREE's.
// CHECK-LABEL: func.func @integers
// CHECK: linalg.generic
// CHECK-NOT: flow.dispatch
func.func @integers(%m: tensor<1x65536x64xf32>, %n: tensor<1x256x256x64xi32>) -> (tensor<1x256x256x64xf32>, !hal.buffer_view) {
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x65536x64xf32>) -> tensor<1x256x256x64xf32>
  %e = tensor.empty() : tensor<1x256x256x64xi32>
  %z = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%n : tensor<1x256x256x64xi32>) outs(%e : tensor<1x256x256x64xi32>) {
  ^bb0(%in: i32, %out: i32):
    %r = arith.muli %in, %in : i32
    linalg.yield %r : i32
  } -> tensor<1x256x256x64xi32>
  %view = hal.tensor.export %z : tensor<1x256x256x64xi32> -> !hal.buffer_view
  return %x, %view : tensor<1x256x256x64xf32>, !hal.buffer_view
}

// -----

util.global private @device = #hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb">]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#all = affine_map<(n, h, w, c) -> (n, h, w, c)>
#channel = affine_map<(n, h, w, c) -> (c)>

// Left are small images, and what IREE transposes as it computes.
// CHECK-LABEL: func.func @left
// CHECK-COUNT-2: linalg.generic
func.func @left(%m: tensor<1x65536x64xf32>, %scale: tensor<64xf32>, %small: tensor<1x32x32x64xf32>, %first: tensor<1x64x256x256xf32>) -> (tensor<1x65536x64xf32>, tensor<1x1024x64xf32>, tensor<1x65536x64xf32>) {
  %known = arith.constant dense<3.0> : tensor<64xf32>
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x65536x64xf32>) -> tensor<1x256x256x64xf32>
  %e = tensor.empty() : tensor<1x256x256x64xf32>
  %image = linalg.transpose ins(%first : tensor<1x64x256x256xf32>) outs(%e : tensor<1x256x256x64xf32>) permutation = [0, 2, 3, 1]
  %s = linalg.generic {indexing_maps = [#all, #channel, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%image, %known : tensor<1x256x256x64xf32>, tensor<64xf32>) outs(%e : tensor<1x256x256x64xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %r = arith.mulf %in, %by : f32
    linalg.yield %r : f32
  } -> tensor<1x256x256x64xf32>
  %es = tensor.empty() : tensor<1x32x32x64xf32>
  %z = linalg.generic {indexing_maps = [#all, #channel, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%small, %scale : tensor<1x32x32x64xf32>, tensor<64xf32>) outs(%es : tensor<1x32x32x64xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %r = arith.mulf %in, %by : f32
    linalg.yield %r : f32
  } -> tensor<1x32x32x64xf32>
  %t = "winograd.input_transform"(%s) {decomposition = #direct, groups = 1 : i64, padding_high = array<i64: 0, 0>, padding_low = array<i64: 0, 0>} : (tensor<1x256x256x64xf32>) -> tensor<1x65536x64xf32>
  %ts = "winograd.input_transform"(%z) {decomposition = #direct, groups = 1 : i64, padding_high = array<i64: 0, 0>, padding_low = array<i64: 0, 0>} : (tensor<1x32x32x64xf32>) -> tensor<1x1024x64xf32>
  %tx = "winograd.input_transform"(%x) {decomposition = #direct, groups = 1 : i64, padding_high = array<i64: 0, 0>, padding_low = array<i64: 0, 0>} : (tensor<1x256x256x64xf32>) -> tensor<1x65536x64xf32>
  return %t, %ts, %tx : tensor<1x65536x64xf32>, tensor<1x1024x64xf32>, tensor<1x65536x64xf32>
}

// Some channels of a larger image are read where they are.
// CHECK-LABEL: func.func @part
// CHECK-SAME: %[[WHOLE:[a-z0-9]+]]: tensor<1x256x256x32xf32>)
// CHECK: flow.dispatch @winograd_elementwise_1x256x256x16::@winograd_elementwise_1x256x256x16(%[[WHOLE]])
func.func @part(%m: tensor<1x65536x16xf32>, %whole: tensor<1x256x256x32xf32>) -> (tensor<1x65536x16xf32>, tensor<1x256x256x16xf32>) {
  %known = arith.constant dense<3.0> : tensor<16xf32>
  %part = tensor.extract_slice %whole[0, 0, 0, 8] [1, 256, 256, 16] [1, 1, 1, 1] : tensor<1x256x256x32xf32> to tensor<1x256x256x16xf32>
  %e = tensor.empty() : tensor<1x256x256x16xf32>
  %s = linalg.generic {indexing_maps = [#all, #channel, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%part, %known : tensor<1x256x256x16xf32>, tensor<16xf32>) outs(%e : tensor<1x256x256x16xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %r = arith.mulf %in, %by : f32
    linalg.yield %r : f32
  } -> tensor<1x256x256x16xf32>
  %t = "winograd.input_transform"(%s) {decomposition = #direct, groups = 1 : i64, padding_high = array<i64: 0, 0>, padding_low = array<i64: 0, 0>} : (tensor<1x256x256x16xf32>) -> tensor<1x65536x16xf32>
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x65536x16xf32>) -> tensor<1x256x256x16xf32>
  return %t, %x : tensor<1x65536x16xf32>, tensor<1x256x256x16xf32>
}

// Of nothing but constants smaller images, too: also where a sum reads what is computed, which is one as well.
// CHECK-LABEL: func.func @constants
// CHECK-SAME: (%[[M:.*]]: tensor<1x65536x16xf32>)
// CHECK: %[[X:.*]] = "winograd.output_transform"
// CHECK-NOT: linalg.generic
// CHECK: %[[S:.*]] = flow.dispatch @winograd_elementwise_1x256x256x16{{.*}}(%[[X]]) :
// CHECK: "winograd.input_transform"(%[[S]])
// CHECK: %[[R:.*]] = flow.dispatch @winograd_elementwise_1x256x256x16{{.*}}(%[[X]], %[[S]]) :
// CHECK: "winograd.input_transform"(%[[R]])
func.func @constants(%m: tensor<1x65536x16xf32>) -> (tensor<1x65536x16xf32>, tensor<1x65536x16xf32>) {
  %known = arith.constant dense<3.0> : tensor<16xf32>
  %x = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x65536x16xf32>) -> tensor<1x256x256x16xf32>
  %e = tensor.empty() : tensor<1x256x256x16xf32>
  %s = linalg.generic {indexing_maps = [#all, #channel, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %known : tensor<1x256x256x16xf32>, tensor<16xf32>) outs(%e : tensor<1x256x256x16xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %r = arith.mulf %in, %by : f32
    linalg.yield %r : f32
  } -> tensor<1x256x256x16xf32>
  %t = "winograd.input_transform"(%s) {decomposition = #direct, groups = 1 : i64, padding_high = array<i64: 0, 0>, padding_low = array<i64: 0, 0>} : (tensor<1x256x256x16xf32>) -> tensor<1x65536x16xf32>
  %r = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %s : tensor<1x256x256x16xf32>, tensor<1x256x256x16xf32>) outs(%e : tensor<1x256x256x16xf32>) {
  ^bb0(%in: f32, %other: f32, %out: f32):
    %sum = arith.addf %in, %other : f32
    linalg.yield %sum : f32
  } -> tensor<1x256x256x16xf32>
  %tr = "winograd.input_transform"(%r) {decomposition = #direct, groups = 1 : i64, padding_high = array<i64: 0, 0>, padding_low = array<i64: 0, 0>} : (tensor<1x256x256x16xf32>) -> tensor<1x65536x16xf32>
  return %t, %tr : tensor<1x65536x16xf32>, tensor<1x65536x16xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#all = affine_map<(n, h, w, c) -> (n, h, w, c)>
#channel = affine_map<(n, h, w, c) -> (n, c)>

// On CPUs images of unknown size; of known size they are IREE's, as is what a transposition is computed with.
// CHECK-LABEL: func.func @gated
// CHECK-SAME: (%[[X:.*]]: tensor<1x?x?x8xf32>, %[[GATE:.*]]: tensor<1x8xf32>,
// CHECK: %[[Y:.*]] = flow.dispatch @winograd_elementwise_anyxanyx8::@winograd_elementwise_anyxanyx8[%{{.*}}](%[[X]], %[[GATE]], {{.*}} -> tensor<1x?x?x8xf32>
// CHECK: linalg.generic {{.*}} tensor<1x4x4x8xf32>
// CHECK: %[[T:.*]] = linalg.transpose
// CHECK: %[[W:.*]] = linalg.generic {{.*}} ins(%[[T]]
// CHECK: "winograd.input_transform"(%[[Y]])
// CHECK: "winograd.input_transform"(%[[W]])
func.func @gated(%x: tensor<1x?x?x8xf32>, %gate: tensor<1x8xf32>, %k: tensor<1x4x4x8xf32>, %m: tensor<1x49x4xf32>) -> (tensor<1x?x8xf32>, tensor<1x16x8xf32>, tensor<1x?x8xf32>, tensor<1x7x7x4xf32>) {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %h = tensor.dim %x, %c1 : tensor<1x?x?x8xf32>
  %w = tensor.dim %x, %c2 : tensor<1x?x?x8xf32>
  %e = tensor.empty(%h, %w) : tensor<1x?x?x8xf32>
  %y = linalg.generic {indexing_maps = [#channel, #all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%gate, %x : tensor<1x8xf32>, tensor<1x?x?x8xf32>) outs(%e : tensor<1x?x?x8xf32>) {
  ^bb0(%by: f32, %in: f32, %out: f32):
    %r = arith.mulf %by, %in : f32
    linalg.yield %r : f32
  } -> tensor<1x?x?x8xf32>
  %ek = tensor.empty() : tensor<1x4x4x8xf32>
  %z = linalg.generic {indexing_maps = [#all, #channel, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%k, %gate : tensor<1x4x4x8xf32>, tensor<1x8xf32>) outs(%ek : tensor<1x4x4x8xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %r = arith.mulf %in, %by : f32
    linalg.yield %r : f32
  } -> tensor<1x4x4x8xf32>
  %et = tensor.empty(%w, %h) : tensor<1x?x?x8xf32>
  %t = linalg.transpose ins(%x : tensor<1x?x?x8xf32>) outs(%et : tensor<1x?x?x8xf32>) permutation = [0, 2, 1, 3]
  %v = linalg.generic {indexing_maps = [#all, #channel, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%t, %gate : tensor<1x?x?x8xf32>, tensor<1x8xf32>) outs(%et : tensor<1x?x?x8xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %r = arith.mulf %in, %by : f32
    linalg.yield %r : f32
  } -> tensor<1x?x?x8xf32>
  %ty = "winograd.input_transform"(%y) {decomposition = #direct, groups = 1 : i64, padding_high = array<i64: 0, 0>, padding_low = array<i64: 0, 0>} : (tensor<1x?x?x8xf32>) -> tensor<1x?x8xf32>
  %tz = "winograd.input_transform"(%z) {decomposition = #direct, groups = 1 : i64, padding_high = array<i64: 0, 0>, padding_low = array<i64: 0, 0>} : (tensor<1x4x4x8xf32>) -> tensor<1x16x8xf32>
  %tv = "winograd.input_transform"(%v) {decomposition = #direct, groups = 1 : i64, padding_high = array<i64: 0, 0>, padding_low = array<i64: 0, 0>} : (tensor<1x?x?x8xf32>) -> tensor<1x?x8xf32>
  %c = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  return %ty, %tz, %tv, %c : tensor<1x?x8xf32>, tensor<1x16x8xf32>, tensor<1x?x8xf32>, tensor<1x7x7x4xf32>
}
