// RUN: winograd-opt --winograd-transpose-images --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#stem = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 2, 2>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// CHECK-LABEL: @argument
// CHECK: %[[X:.*]] = hal.tensor.import
// CHECK-NOT: linalg.transpose
// CHECK: %[[T:.*]] = flow.dispatch @winograd_channels_last_1024x3::@winograd_channels_last_1024x3(%[[X]]) : (tensor<1x3x32x32xf32>) -> tensor<1x32x32x3xf32>
// CHECK: "winograd.input_transform"(%[[T]])
util.func public @argument(%arg0: !hal.buffer_view) -> tensor<16x225x3xf32> {
  %x = hal.tensor.import %arg0 : !hal.buffer_view -> tensor<1x3x32x32xf32>
  %e = tensor.empty() : tensor<1x32x32x3xf32>
  %t = linalg.transpose ins(%x : tensor<1x3x32x32xf32>) outs(%e : tensor<1x32x32x3xf32>) permutation = [0, 2, 3, 1]
  %v = "winograd.input_transform"(%t) {decomposition = #stem, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x32x32x3xf32>) -> tensor<16x225x3xf32>
  util.return %v : tensor<16x225x3xf32>
}

// IREE would join another user with the transposition.
// CHECK-LABEL: @read_elsewhere
// CHECK: linalg.transpose
util.func public @read_elsewhere(%arg0: !hal.buffer_view) -> (tensor<16x225x3xf32>, tensor<1x32x32x3xf32>) {
  %x = hal.tensor.import %arg0 : !hal.buffer_view -> tensor<1x3x32x32xf32>
  %e = tensor.empty() : tensor<1x32x32x3xf32>
  %t = linalg.transpose ins(%x : tensor<1x3x32x32xf32>) outs(%e : tensor<1x32x32x3xf32>) permutation = [0, 2, 3, 1]
  %v = "winograd.input_transform"(%t) {decomposition = #stem, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x32x32x3xf32>) -> tensor<16x225x3xf32>
  %s = arith.addf %t, %t : tensor<1x32x32x3xf32>
  util.return %v, %s : tensor<16x225x3xf32>, tensor<1x32x32x3xf32>
}

// Few groups of channels are shuffled by whole vectors; of many groups, or short ones, each is a line.
// CHECK-LABEL: @shuffle
// CHECK: %[[I:.*]] = tensor.collapse_shape %{{.*}} {{\[\[}}0, 1, 2], [3], [4]] : tensor<1x7x5x2x20xf32> into tensor<35x2x20xf32>
// CHECK: %[[S:.*]] = flow.dispatch @winograd_channels_last_20x2::@winograd_channels_last_20x2(%[[I]]) : (tensor<35x2x20xf32>) -> tensor<35x20x2xf32>
// CHECK: tensor.expand_shape %[[S]]
// CHECK-NOT: linalg.transpose
// CHECK-LABEL: @other_shuffles
// CHECK-COUNT-2: linalg.transpose
util.func public @shuffle(%x: tensor<1x7x5x2x20xf32>) -> tensor<1x7x5x20x2xf32> {
  %e = tensor.empty() : tensor<1x7x5x20x2xf32>
  %t = linalg.transpose ins(%x : tensor<1x7x5x2x20xf32>) outs(%e : tensor<1x7x5x20x2xf32>) permutation = [0, 1, 2, 4, 3]
  util.return %t : tensor<1x7x5x20x2xf32>
}

util.func public @other_shuffles(%x: tensor<1x7x5x4x20xf32>, %y: tensor<1x7x5x2x6xf32>) -> (tensor<1x7x5x20x4xf32>, tensor<1x7x5x6x2xf32>) {
  %e = tensor.empty() : tensor<1x7x5x20x4xf32>
  %t = linalg.transpose ins(%x : tensor<1x7x5x4x20xf32>) outs(%e : tensor<1x7x5x20x4xf32>) permutation = [0, 1, 2, 4, 3]
  %f = tensor.empty() : tensor<1x7x5x6x2xf32>
  %u = linalg.transpose ins(%y : tensor<1x7x5x2x6xf32>) outs(%f : tensor<1x7x5x6x2xf32>) permutation = [0, 1, 2, 4, 3]
  util.return %t, %u : tensor<1x7x5x20x4xf32>, tensor<1x7x5x6x2xf32>
}

// What IREE computed is aligned.
// CHECK-LABEL: @computed
// CHECK: linalg.transpose
util.func public @computed(%arg0: !hal.buffer_view) -> tensor<16x225x3xf32> {
  %x = hal.tensor.import %arg0 : !hal.buffer_view -> tensor<1x3x32x32xf32>
  %s = arith.addf %x, %x : tensor<1x3x32x32xf32>
  %e = tensor.empty() : tensor<1x32x32x3xf32>
  %t = linalg.transpose ins(%s : tensor<1x3x32x32xf32>) outs(%e : tensor<1x32x32x3xf32>) permutation = [0, 2, 3, 1]
  %v = "winograd.input_transform"(%t) {decomposition = #stem, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x32x32x3xf32>) -> tensor<16x225x3xf32>
  util.return %v : tensor<16x225x3xf32>
}

// -----

util.global private @device = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device

#stem = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 3, 3>, output_tile = array<i64: 2, 2>, part_size = array<i64: 3, 3>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// CHECK-LABEL: @gpu
// CHECK: flow.dispatch @winograd_channels_last_1024x3
// CHECK-NOT: linalg.transpose
util.func public @gpu(%arg0: !hal.buffer_view) -> tensor<16x225x3xf32> {
  %x = hal.tensor.import %arg0 : !hal.buffer_view -> tensor<1x3x32x32xf32>
  %e = tensor.empty() : tensor<1x32x32x3xf32>
  %t = linalg.transpose ins(%x : tensor<1x3x32x32xf32>) outs(%e : tensor<1x32x32x3xf32>) permutation = [0, 2, 3, 1]
  %v = "winograd.input_transform"(%t) {decomposition = #stem, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x32x32x3xf32>) -> tensor<16x225x3xf32>
  util.return %v : tensor<16x225x3xf32>
}
