// RUN: winograd-opt --winograd-copy-parts --split-input-file %s | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#pointwise = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// CHECK-LABEL: @residual
// CHECK-SAME: (%[[Y:.*]]: tensor<2x8x8x16xf32>
// CHECK-NOT: tensor.extract_slice
// CHECK: %[[P:.*]] = flow.dispatch @winograd_max_pool_1x1_4x4x16::@winograd_max_pool_1x1_4x4x16(%[[Y]]) : (tensor<2x8x8x16xf32>) -> tensor<2x4x4x16xf32>
// CHECK: "winograd.output_transform"(%{{.*}}, %[[P]])
util.func public @residual(%y: tensor<2x8x8x16xf32>, %m: tensor<1x32x16xf32>) -> tensor<2x4x4x16xf32> {
  %p = tensor.extract_slice %y[0, 0, 0, 0] [2, 4, 4, 16] [1, 2, 2, 1] : tensor<2x8x8x16xf32> to tensor<2x4x4x16xf32>
  %r = "winograd.output_transform"(%m, %p) ({
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %b : f32
    vector.yield %s : f32
  }) {decomposition = #pointwise, groups = 1 : i64, indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>]} : (tensor<1x32x16xf32>, tensor<2x4x4x16xf32>) -> tensor<2x4x4x16xf32>
  util.return %r : tensor<2x4x4x16xf32>
}

// IREE reads these in place: there are no pixels between, or operations of its own read it.
// CHECK-LABEL: @neighbours
// CHECK: tensor.extract_slice
// CHECK-LABEL: @read_elsewhere
// CHECK: tensor.extract_slice
util.func public @neighbours(%y: tensor<2x8x8x16xf32>) -> tensor<1x32x16xf32> {
  %p = tensor.extract_slice %y[0, 2, 2, 0] [2, 4, 4, 16] [1, 1, 1, 1] : tensor<2x8x8x16xf32> to tensor<2x4x4x16xf32>
  %v = "winograd.input_transform"(%p) {decomposition = #pointwise, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<2x4x4x16xf32>) -> tensor<1x32x16xf32>
  util.return %v : tensor<1x32x16xf32>
}
util.func public @read_elsewhere(%y: tensor<2x8x8x16xf32>) -> (tensor<1x32x16xf32>, tensor<2x4x4x16xf32>) {
  %p = tensor.extract_slice %y[0, 0, 0, 0] [2, 4, 4, 16] [1, 2, 2, 1] : tensor<2x8x8x16xf32> to tensor<2x4x4x16xf32>
  %v = "winograd.input_transform"(%p) {decomposition = #pointwise, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<2x4x4x16xf32>) -> tensor<1x32x16xf32>
  %s = arith.addf %p, %p : tensor<2x4x4x16xf32>
  util.return %v, %s : tensor<1x32x16xf32>, tensor<2x4x4x16xf32>
}

// Channels are no pixels.
// CHECK-LABEL: @channels
// CHECK: tensor.extract_slice
util.func public @channels(%y: tensor<2x8x8x32xf32>) -> tensor<1x32x16xf32> {
  %p = tensor.extract_slice %y[0, 0, 0, 0] [2, 4, 4, 16] [1, 2, 2, 2] : tensor<2x8x8x32xf32> to tensor<2x4x4x16xf32>
  %v = "winograd.input_transform"(%p) {decomposition = #pointwise, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<2x4x4x16xf32>) -> tensor<1x32x16xf32>
  util.return %v : tensor<1x32x16xf32>
}

// -----

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "skylake-avx512", cpu_features = "+avx2,+fma,+f16c,+avx512f", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#pointwise = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// CHECK-LABEL: @half
// CHECK-SAME: (%[[Y:.*]]: tensor<2x8x8x16xbf16>
// CHECK: %[[P:.*]] = flow.dispatch @winograd_max_pool_1x1_4x4x16::@winograd_max_pool_1x1_4x4x16(%[[Y]]) : (tensor<2x8x8x16xbf16>) -> tensor<2x4x4x16xbf16>
// CHECK: "winograd.input_transform"(%[[P]])
util.func public @half(%y: tensor<2x8x8x16xbf16>) -> tensor<1x32x16xf32> {
  %p = tensor.extract_slice %y[0, 0, 0, 0] [2, 4, 4, 16] [1, 2, 2, 1] : tensor<2x8x8x16xbf16> to tensor<2x4x4x16xbf16>
  %v = "winograd.input_transform"(%p) {decomposition = #pointwise, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<2x4x4x16xbf16>) -> tensor<1x32x16xf32>
  util.return %v : tensor<1x32x16xf32>
}

// -----

util.global private @device = #hal.device.target<"cuda", [#hal.executable.target<"cuda", "cuda-nvptx-fb">]> : !hal.device

#signal = {dilation = array<i64: 1>, kernel_size = array<i64: 1>, output_tile = array<i64: 1>, part_size = array<i64: 1>, spacing = array<i64: 1>, step = array<i64: 1>, views = [array<i64: 0>]}
#pointwise = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

// CHECK-LABEL: @gpu
// CHECK: tensor.extract_slice
util.func public @gpu(%y: tensor<2x8x8x16xf32>) -> tensor<1x32x16xf32> {
  %p = tensor.extract_slice %y[0, 0, 0, 0] [2, 4, 4, 16] [1, 2, 2, 1] : tensor<2x8x8x16xf32> to tensor<2x4x4x16xf32>
  %v = "winograd.input_transform"(%p) {decomposition = #pointwise, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<2x4x4x16xf32>) -> tensor<1x32x16xf32>
  util.return %v : tensor<1x32x16xf32>
}

// IREE's code takes longer for images whose sizes are known only at run time.
// CHECK-LABEL: @gpu_of_any_size
// CHECK-SAME: (%[[Y:.*]]: tensor<1x?x16xf32>
// CHECK-NOT: tensor.extract_slice
// CHECK: %[[P:.*]] = flow.dispatch @winograd_window_max_1_anyx16::@winograd_window_max_1_anyx16[{{.*}}](%[[Y]]
// CHECK: "winograd.input_transform"(%[[P]])
util.func public @gpu_of_any_size(%y: tensor<1x?x16xf32>, %n: index) -> tensor<1x?x16xf32> {
  %p = tensor.extract_slice %y[0, 0, 0] [1, %n, 16] [1, 2, 1] : tensor<1x?x16xf32> to tensor<1x?x16xf32>
  %v = "winograd.input_transform"(%p) {decomposition = #signal, groups = 1 : i64, padding_low = array<i64: 0>, padding_high = array<i64: 0>} : (tensor<1x?x16xf32>) -> tensor<1x?x16xf32>
  util.return %v : tensor<1x?x16xf32>
}
