// RUN: winograd-opt %s --winograd-lower-to-dispatch --mlir-use-nameloc-as-prefix | filecheck %s

util.global private @device = #hal.device.target<"local", [
  #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "sapphirerapids", cpu_features = "+avx2,+fma,+avx512f,+amx-tile,+amx-bf16",
    max_stack_allocation_size = 32768 : i64, native_vector_size = 64 : i64, target_triple = "x86_64-unknown-unknown-eabi-elf"}>
]> : !hal.device

#direct = {dilation = array<i64: 1, 1>, kernel_size = array<i64: 1, 1>, output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>, spacing = array<i64: 1, 1>, step = array<i64: 1, 1>, views = [array<i64: 0, 0>]}
#schedule = {channel_splits = 1 : i64, channel_tiles = 2 : i64, kind = "matrix-unit", pixel_block = 49 : i64, pixel_tiles = 2 : i64, row_block = 1 : i64, row_tiles = 1 : i64, tile_pixels = 14 : i64}

// Linux is asked whether the process may use the unit. Registers get the shapes of tiles, the pixels of the first
// register block are split into three parts of bf16, 16 pairs of channels each, and so are the filters of 32 channels.
// CHECK: llvm.inline_asm has_side_effects "syscall"
// CHECK: scf.if
// CHECK: llvm.call_intrinsic "llvm.x86.ldtilecfg"
// CHECK: scf.for %split
// CHECK-COUNT-2: vector.load {{.*}}vector<16xf32>
// CHECK-COUNT-3: vector.store {{.*}}vector<16xi32>
// CHECK: scf.for %filter_row
// Two tiles of pixels by two of output channels are zeroed, and the six products of parts added of 32 channels.
// CHECK-COUNT-4: llvm.call_intrinsic "llvm.x86.tilezero"
// CHECK: scf.for %chunk
// CHECK-COUNT-4: llvm.call_intrinsic "llvm.x86.tileloadd64"
// CHECK-COUNT-24: llvm.call_intrinsic "llvm.x86.tdpbf16ps"
// CHECK-NOT: llvm.x86.tdpbf16ps
// CHECK-COUNT-4: llvm.call_intrinsic "llvm.x86.tilestored64"
// CHECK: scf.for %finished_pixel
// CHECK: llvm.call_intrinsic "llvm.x86.tilerelease"
// A process that may not use it multiplies vectors.
// CHECK: else
// CHECK: vector.fma
// CHECK-LABEL: func.func @pointwise
func.func @pointwise(%x: tensor<1x7x7x64xf32>) -> tensor<1x7x7x32xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x49x32xf32>
  %f = arith.constant dense<1.0> : tensor<1x64x32xf32>
  %v = "winograd.input_transform"(%x) {decomposition = #direct, groups = 1 : i64, padding_low = array<i64: 0, 0>, padding_high = array<i64: 0, 0>} : (tensor<1x7x7x64xf32>) -> tensor<1x49x64xf32>
  %m = linalg.batch_matmul {winograd.schedule = #schedule} ins(%v, %f : tensor<1x49x64xf32>, tensor<1x64x32xf32>) outs(%zeros : tensor<1x49x32xf32>) -> tensor<1x49x32xf32>
  %z = "winograd.output_transform"(%m) ({
  ^bb0(%a: f32):
    vector.yield %a : f32
  }) {decomposition = #direct, groups = 1 : i64, indexing_maps = [], operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<1x49x32xf32>) -> tensor<1x7x7x32xf32>
  return %z : tensor<1x7x7x32xf32>
}
