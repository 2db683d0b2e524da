// RUN: winograd-opt --winograd-lower-to-dispatch --verify-diagnostics %s

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {
    cpu = "haswell", cpu_features = "+avx2,+fma", target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

// Kernels sum from zero: a product that is added to something else would lose it.
func.func @accumulating(%x: tensor<1x7x7x8xf32>, %u: tensor<1x8x4xf32>, %init: tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32> {
  %v = "winograd.input_transform"(%x) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x7x7x8xf32>) -> tensor<1x49x8xf32>
  // expected-error @below {{winograd.output_transform can't be lowered: its linalg.batch_matmul adds to something else than zeros}}
  %m = linalg.batch_matmul {winograd.schedule = {kind = "direct", pixel_block = 7 : i64, register_pixels = 1 : i64, register_vectors = 1 : i64, row_block = 1 : i64, vector_width = 4 : i64}} ins(%v, %u : tensor<1x49x8xf32>, tensor<1x8x4xf32>) outs(%init : tensor<1x49x4xf32>) -> tensor<1x49x4xf32>
  %r = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x4xf32>) -> tensor<1x7x7x4xf32>
  return %r : tensor<1x7x7x4xf32>
}
